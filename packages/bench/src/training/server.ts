/**
 * A server that answers at once: what is measured is the client. It speaks just enough of the wire to train and to
 * sample. A line on standard input is answered with its address; `hold` keeps results back until `release`.
 */
import { Either } from "effect"
import { TensorData } from "effect-tinker"
import { ForwardBackward, Sample } from "effect-tinker/wire"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { createInterface } from "node:readline"
import { batch, length } from "./steps.js"

const logprobs = Either.getOrThrow(
  TensorData.fromArray(new Float32Array(length - 1).fill(-0.5), { dtype: "float32" })
)

const json = (value: unknown) => ({ type: "application/json", body: Buffer.from(JSON.stringify(value)) })
const protobuf = (body: Uint8Array) => ({ type: "application/x-protobuf", body: Buffer.from(body) })

/** By the first word of the request id. */
const results = new Map([
  ["model", json({ model_id: "session:train:0", type: "create_model" })],
  ["step", json({ metrics: { grad_norm: 1 }, type: "optim_step" })],
  [
    "pass",
    protobuf(Either.getOrThrow(ForwardBackward.encodeOutput({
      lossFnOutputType: "TorchLossReturn",
      lossFnOutputs: Array.from({ length: batch }, () => ({ logprobs, elementwise_loss: logprobs })),
      metrics: { "loss:sum": 1.5 }
    })))
  ],
  [
    "sample",
    protobuf(Either.getOrThrow(Sample.encodeResponse(
      new Sample.SampleResponse({
        sequences: [
          new Sample.SampledSequence({
            stopReason: "stop",
            tokens: Int32Array.from({ length }, (_, i) => i * 7),
            logprobs: new Float32Array(length).fill(-0.5)
          })
        ]
      })
    )))
  ]
])

let requests = 0
const accepted = (kind: string) => () => ({ request_id: `${kind}:${requests++}`, model_id: "session:train:0" })

const answers: Readonly<Record<string, () => unknown>> = {
  "/api/v1/create_session": () => ({ session_id: "session" }),
  "/api/v1/create_sampling_session": () => ({ sampling_session_id: "session:sample:0" }),
  "/api/v1/create_model": accepted("model"),
  "/api/v1/forward_backward": accepted("pass"),
  "/api/v1/optim_step": accepted("step"),
  "/api/v1/asample": () => ({ request_id: `sample:${requests++}`, sample_sequence_ids: ["a"] }),
  "/api/v1/telemetry": () => ({ status: "accepted" })
}

let holding = false
let held: Array<() => void> = []

const server = createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const kind = request.url === "/api/v1/retrieve_future"
      ? /"request_id" *: *"([a-z]+):/.exec(Buffer.concat(chunks).toString())?.[1]
      : undefined
    const { body, type } = (kind === undefined ? undefined : results.get(kind)) ??
      json(answers[request.url ?? ""]?.() ?? {})
    const answer = () => response.writeHead(200, { "content-type": type, "content-length": body.length }).end(body)
    if (holding && kind !== undefined) held.push(answer)
    else answer()
  })
})

server.keepAliveTimeout = 60_000

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo
  createInterface(process.stdin).on("line", (line) => {
    if (line === "hold") holding = true
    if (line === "release") {
      holding = false
      for (const answer of held) answer()
      held = []
    }
    process.stdout.write(`http://127.0.0.1:${port}\n`)
  })
})
