import { Effect, Either, Layer, Option } from "effect"
import { ServiceClient, TensorData, TrainingClient } from "../../src/index.js"
import { ForwardBackward } from "../../src/wire.js"
import * as Server from "./recordingServer.js"

/** A request with a number, as the server saw it. */
export interface Numbered {
  readonly path: string
  readonly modelId: string
  readonly seqId: number
  readonly key: string
  readonly json: Readonly<Record<string, unknown>>
  readonly pass: ForwardBackward.Request | undefined
  readonly seen: Server.Seen
}

const numbered = (seen: Server.Seen): Numbered | undefined => {
  const path = seen.path.replace("/api/v1/", "")
  const pass = path === "forward_backward" ? Either.getOrThrow(ForwardBackward.decodeRequest(seen.body)) : undefined
  const seqId = pass === undefined ? seen.json["seq_id"] : pass.seqId
  return typeof seqId !== "number" ? undefined : {
    path,
    modelId: String(pass?.modelId ?? seen.json["model_id"]),
    seqId,
    key: String(seen.headers["x-idempotency-key"]),
    json: seen.json,
    pass,
    seen
  }
}

const logprobs = (n: number) =>
  Either.getOrThrow(TensorData.fromArray(new Float32Array(n).fill(-0.5), { dtype: "float32" }))

/** The result of a pass whose loss is the number of its data. */
const output = (pass: ForwardBackward.Request): ForwardBackward.Output => ({
  lossFnOutputType: "TorchLossReturn",
  lossFnOutputs: pass.data.map((datum) => ({
    logprobs: logprobs(datum.lossFnInputs["target_tokens"]?.data.length ?? 0)
  })),
  metrics: { "loss:sum": pass.data.length }
})

const results: Readonly<Record<string, (request: Numbered) => Server.Plain>> = {
  forward_backward: ({ pass }) =>
    Server.protobuf(
      pass === undefined ? new Uint8Array(0) : Either.getOrThrow(ForwardBackward.encodeOutput(output(pass)))
    ),
  optim_step: () => Server.json({ metrics: { grad_norm: 1 } }),
  save_weights: ({ json, modelId }) => Server.json({ path: `tinker://${modelId}/weights/${json["path"]}` }),
  load_weights: ({ json }) => Server.json({ path: json["path"] }),
  save_weights_for_sampler: ({ json, modelId }) =>
    json["path"] === undefined
      ? Server.json({ sampling_session_id: `session-1:sample:${json["sampling_session_seq_id"]}` })
      : Server.json({ path: `tinker://${modelId}/sampler_weights/${json["path"]}` }),
  save_weights_external: ({ json, modelId }) =>
    Server.json({ path: `tinker://${modelId}/external_weights/${json["path"]}`, size_bytes: 1 })
}

export interface Options {
  /** Answers a numbered request; `undefined` accepts it. */
  readonly accept?: (request: Numbered) => Effect.Effect<Server.Answer | undefined> | Server.Answer | undefined
  /** Answers a poll; `undefined` gives the result. */
  readonly result?: (
    request: Numbered | undefined,
    seen: Server.Seen
  ) => Effect.Effect<Server.Answer | undefined> | Server.Answer | undefined
  readonly other?: Server.Handler
  readonly config?: Readonly<Record<string, unknown>>
}

const orElse = (
  answer: Effect.Effect<Server.Answer | undefined> | Server.Answer | undefined,
  usual: () => Server.Answer
): Effect.Effect<Server.Answer> =>
  Effect.isEffect(answer)
    ? Effect.map(answer, (response) => response ?? usual())
    : Effect.sync(() => answer ?? usual())

/** A server that creates models, accepts their operations and knows their results. */
export const make = (options: Options = {}) => {
  const log: Array<Numbered> = []
  const byId = new Map<string, Numbered>()
  const server = Server.make((seen) => {
    const given = options.other?.(seen)
    if (given !== undefined) return given
    if (seen.path.endsWith("/client/config")) return Server.json(options.config ?? {})
    if (seen.path.endsWith("/create_model")) {
      return Server.json({ request_id: `create:${seen.json["session_id"]}:train:${seen.json["model_seq_id"]}` })
    }
    if (seen.path.endsWith("/retrieve_future")) {
      const id = String(seen.json["request_id"])
      const request = byId.get(id)
      return orElse(options.result?.(request, seen), () => {
        if (id.startsWith("create:")) return Server.json({ model_id: id.slice("create:".length) })
        const result = request === undefined ? undefined : results[request.path]
        return request === undefined || result === undefined ? Server.refuse(404) : result(request)
      })
    }
    const request = numbered(seen)
    if (request === undefined) return undefined
    log.push(request)
    return orElse(options.accept?.(request), () => {
      const id = `${request.modelId}/${request.seqId}`
      byId.set(id, request)
      return Server.json({ request_id: id })
    })
  })
  return {
    ...server,
    log,
    numbers: (modelId: string) => log.filter((request) => request.modelId === modelId).map(({ seqId }) => seqId),
    service: ServiceClient.layer(Server.options).pipe(Layer.provide(server.layer)),
    leanService: ServiceClient.layer(Server.options).pipe(Layer.provide(server.directLayer))
  }
}

export type TrainingServer = ReturnType<typeof make>

/** A service client and so many training clients over it, in the caller's scope. */
export const clients = (server: TrainingServer, count: number) =>
  Effect.gen(function*() {
    const context = yield* Layer.build(server.service)
    return yield* Effect.provide(
      Effect.all({
        service: ServiceClient.ServiceClient,
        models: Effect.replicateEffect(TrainingClient.makeLora({ baseModel: "base" }), count)
      }),
      context
    )
  })

/** One training client. */
export const client = (server: TrainingServer) =>
  Effect.flatMap(
    clients(server, 1),
    ({ models }) => Option.fromNullable(models[0]).pipe(Effect.orDie)
  )
