/**
 * What others notice of a client that keeps the embedded server busy: small samples, REST reads and heartbeats beside
 * passes of 40 x 1000 tokens that never stop, relative to the same requests on the same server when it is idle.
 */
import { Effect, Either, Fiber, Layer, Schema } from "effect"
import { Datum, ModelInput, SamplingClient, ServiceClient, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import type { Bench } from "./Bench.js"
import { BenchFailed, round, sized } from "./Bench.js"
import * as Program from "./Program.js"

const Where = Schema.parseJson(Schema.Struct({ baseUrl: Schema.String, apiKey: Schema.String }))

const baseModel = "local/tiny"
const rounds = sized(5, 1)
const requestsPerRound = sized(40, 4)

const tokens = (length: number, shift: number) => Int32Array.from({ length }, (_, i) => (i * 37 + shift) % 256)
const batch = Array.from({ length: 40 }, (_, i) => Either.getOrThrow(Datum.fromTokens(tokens(1000, i))))

const percentile = (values: ReadonlyArray<number>, share: number): number => {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
}

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const start = performance.now()
    return Effect.map(effect, () => performance.now() - start)
  })

const kinds = ["sample", "rest", "heartbeat"] as const

type Times = Record<typeof kinds[number], Array<number>>

const none = (): Times => ({ sample: [], rest: [], heartbeat: [] })

export const bench: Bench = {
  summary: "small samples, REST reads and heartbeats beside a saturating pass, relative to an idle server",
  run: Effect.gen(function*() {
    const server = yield* Program.startModule("./fairness/server.js")
    const { apiKey, baseUrl } = yield* Effect.flatMap(server.ask("where"), Schema.decode(Where))
    const headers = { "x-api-key": apiKey, "content-type": "application/json" }
    const request = (method: "GET" | "POST", path: string, body?: unknown) =>
      Effect.promise(async () => {
        const response = await fetch(`${baseUrl}/api/v1${path}`, {
          method,
          headers,
          body: body === undefined ? null : JSON.stringify(body)
        })
        return Object(await response.json())
      })
    // two clients with nothing in common: each has a session and connections of its own
    const client = Layer.fresh(Layer.provide(ServiceClient.layer({ baseUrl, apiKey }), NodeTinker.layer()))
    const small = yield* Layer.build(Layer.provide(SamplingClient.layer({ baseModel }), client))
    const sampler = yield* Effect.provide(SamplingClient.SamplingClient, small)
    const { session_id: session } = yield* request("POST", "/create_session", { tags: [], sdk_version: "0" })

    const operations: Record<typeof kinds[number], Effect.Effect<unknown, unknown>> = {
      sample: sampler.sample({ prompt: ModelInput.fromInts(tokens(8, 1)), maxTokens: 4, stop: [], seed: 1 }),
      rest: request("GET", "/training_runs?limit=20"),
      heartbeat: request("POST", "/session_heartbeat", { session_id: session })
    }
    const measure = Effect.fnUntraced(function*(into: Times) {
      for (let i = 0; i < requestsPerRound; i++) {
        for (const kind of kinds) into[kind].push(yield* timed(operations[kind]))
      }
    })
    /** Passes without end; closing the scope ends the session and with it what is left of them. */
    const saturated = Effect.fnUntraced(function*(into: Times) {
      const training = yield* TrainingClient.makeLora({ baseModel, rank: 32, seed: 1 })
      const pass = Effect.flatten(training.forwardBackward(batch, "cross_entropy"))
      const load = yield* Effect.fork(Effect.forever(pass))
      yield* Effect.sleep("300 millis")
      yield* measure(into)
      yield* Fiber.interrupt(load)
    }, (effect) => Effect.scoped(Effect.provide(effect, client)))

    // compiled, and with the workspaces made
    yield* measure(none())
    yield* saturated(none())
    const idle = none()
    const loaded = none()
    for (let i = 0; i < rounds; i++) {
      yield* measure(idle)
      yield* saturated(loaded)
    }
    const row = (kind: typeof kinds[number], share: number) => {
      const [a, b] = [percentile(idle[kind], share), percentile(loaded[kind], share)]
      return [`${kind} p${share * 100}`, a.toFixed(1), b.toFixed(1), (b / a).toFixed(2)]
    }
    const ratio = (kind: typeof kinds[number], share: number) =>
      round(percentile(loaded[kind], share) / percentile(idle[kind], share))
    return {
      table: [
        ["ms", "idle", "loaded", "ratio"],
        ...kinds.flatMap((kind) => [row(kind, 0.5), row(kind, 0.99)])
      ],
      ratios: {
        sample_p50: ratio("sample", 0.5),
        sample_p99: ratio("sample", 0.99),
        rest_p50: ratio("rest", 0.5),
        rest_p99: ratio("rest", 0.99),
        heartbeat_p99: ratio("heartbeat", 0.99)
      },
      notes: [
        `Loaded to idle, so less is better: ${rounds * requestsPerRound} requests of each kind.`,
        "Both are timed over a socket by the clock; what else the machine does counts in both."
      ]
    }
  }).pipe(
    Effect.catchAll((error) => error instanceof BenchFailed ? error : new BenchFailed({ reason: String(error) }))
  )
}
