/**
 * A server that answers at once: what is measured is the client. It speaks just enough of the wire for sampling.
 */
import { Either } from "effect"
import { Sample } from "effect-tinker"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

const tokens = Int32Array.from({ length: 200 }, (_, i) => i * 7)
const logprobs = Float32Array.from(tokens, (token) => -1 / (1 + token))

const result = Either.getOrThrow(Sample.encodeResponse(
  new Sample.SampleResponse({ sequences: [new Sample.SampledSequence({ stopReason: "stop", tokens, logprobs })] })
))

let samples = 0

const answers: Readonly<Record<string, () => string>> = {
  "/api/v1/client/config": () => "{}",
  "/api/v1/client/dynamic_config": () => "{}",
  "/api/v1/create_session": () => "{\"session_id\":\"session\"}",
  "/api/v1/session_heartbeat": () => "{}",
  "/api/v1/create_sampling_session": () => "{\"sampling_session_id\":\"session:sample:0\"}",
  "/api/v1/asample": () => `{"request_id":"session:sample:0:${samples++}","sample_sequence_ids":["a"]}`,
  "/api/v1/telemetry": () => "{\"status\":\"accepted\"}"
}

const server = createServer((request, response) => {
  request.resume()
  request.on("end", () => {
    if (request.url === "/api/v1/retrieve_future") {
      response.writeHead(200, { "content-type": "application/x-protobuf", "content-length": result.length }).end(result)
      return
    }
    const body = answers[request.url ?? ""]?.() ?? "{}"
    response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body)
  })
})

server.keepAliveTimeout = 60_000

server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo
  process.stdin.on("data", () => process.stdout.write(`http://127.0.0.1:${port}\n`))
})
