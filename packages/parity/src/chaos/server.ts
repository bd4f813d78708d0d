/**
 * The embedded backend with faults, and a journal of what its engine really did. Arguments: a JSON object.
 */
import * as Engine from "@effect-tinker/local/Engine"
import * as Faults from "@effect-tinker/local/Faults"
import type * as LocalAdapter from "@effect-tinker/local/LocalAdapter"
import * as LocalServer from "@effect-tinker/local/LocalServer"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import * as Storage from "@effect-tinker/local/Storage"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Effect, Layer, Logger, LogLevel, Schema } from "effect"
import { openSync, writeSync } from "node:fs"
import * as Plan from "./plan.js"

export const Arguments = Schema.parseJson(Schema.Struct({
  port: Schema.Int,
  directory: Schema.String,
  journal: Schema.String,
  seed: Schema.Int,
  life: Schema.Int,
  /** Everything that can go wrong, or a busy sampler. */
  faults: Schema.Literal("chaos", "load")
}))

const chaos: ReadonlyArray<Faults.Rule> = [
  { probability: 0.01, fault: { _tag: "Status", status: 503 } },
  { probability: 0.005, fault: { _tag: "Status", status: 500, when: "after" } },
  { probability: 0.005, fault: { _tag: "Status", status: 429, headers: { "retry-after-ms": "50" } } },
  { probability: 0.002, fault: { _tag: "Status", status: 408 } },
  // a proxy that rejects requests without saying why; never the shared poll, whose final failure ends all waits and would
  // hide a sample that hangs
  {
    probability: 0.001,
    fault: { _tag: "Status", status: 400, body: new Uint8Array(0) },
    endpoints: [
      "createModel",
      "forwardBackward",
      "optimStep",
      "saveWeights",
      "asample",
      "retrieveFuture",
      "listTrainingRuns"
    ]
  },
  { probability: 0.002, fault: { _tag: "Status", status: 502, headers: { "retry-after": "0.1" } } },
  { probability: 0.005, fault: { _tag: "Drop", when: "before" } },
  { probability: 0.01, fault: { _tag: "Drop", when: "after" } },
  { probability: 0.005, fault: { _tag: "Truncate", bytes: 7 } },
  { probability: 0.01, fault: { _tag: "Delay", duration: "200 millis" } }
]

const samplingOnly = (rules: ReadonlyArray<Faults.Rule>): ReadonlyArray<Faults.Rule> =>
  rules.map((rule) => ({ ...rule, endpoints: ["asample", "retrieveFuture"] }))

const load = samplingOnly([
  // without the hint every one of them would stop all sampling for a second
  { probability: 0.02, fault: { _tag: "Status", status: 429, headers: { "retry-after-ms": "50" } } },
  { probability: 0.01, fault: { _tag: "Status", status: 503 } },
  { probability: 0.0025, fault: { _tag: "Drop", when: "before" } },
  { probability: 0.0025, fault: { _tag: "Drop", when: "after" } }
])

/** One sort of client for every test of load; every other seed of chaos takes the other way through the client. */
const settings = (faults: "chaos" | "load", seed: number): LocalServer.Options =>
  faults === "load" ? {} : {
    hold: "2 seconds",
    clientConfig: {
      fwdbwdMaxChunkLen: 2,
      parallelFwdbwdChunks: seed % 2 === 0,
      sampleUseRetrieveFutures: seed % 2 === 1,
      createModelViaLoadWeights: seed % 3 === 0
    },
    dynamicConfig: { refreshIntervalSec: 10, sampleCancelEnabled: seed % 3 !== 0 }
  }

/** The faults, and what they struck. */
const counting = (faults: Faults.Service) => {
  const requests: Record<string, number> = {}
  const struck: Record<string, number> = {}
  const count = (record: Record<string, number>, key: string) => {
    record[key] = (record[key] ?? 0) + 1
  }
  const service: Faults.Service = {
    ...faults,
    decide: (endpoint) =>
      Effect.tap(faults.decide(endpoint), (plan) => {
        count(requests, endpoint)
        for (const fault of plan) count(struck, fault._tag === "Status" ? String(fault.status) : fault._tag)
      })
  }
  return { service, stats: (): Plan.Stats => ({ requests, struck }) }
}

const main = Effect.gen(function*() {
  const { directory, faults, journal, life, port, seed } = yield* Schema.decode(Arguments)(process.argv[2] ?? "")
  const file = openSync(journal, "a")
  let adapters = 0
  // not buffered: what was done before a kill was done
  const note = (entry: Omit<Plan.Executed, "life">) => writeSync(file, `${JSON.stringify({ life, ...entry })}\n`)

  const watch = (adapter: LocalAdapter.Adapter): LocalAdapter.Adapter => {
    const number = adapters++
    return {
      ...adapter,
      forwardBackward: (request) =>
        Effect.tap(adapter.forwardBackward(request), () => {
          for (const { tokens } of request.data) {
            note({ adapter: number, kind: "pass", ...Plan.marked(tokens) })
          }
        }),
      optimStep: (params) =>
        Effect.tap(adapter.optimStep(params), () => {
          note({ adapter: number, kind: "step", op: Plan.opOfRate(params?.learningRate ?? 0), part: 0 })
        })
    }
  }

  const engine = Layer.effect(
    Engine.Engine,
    Effect.map(Engine.make(), (engine): Engine.Service => ({
      ...engine,
      createAdapter: (config) => Effect.map(engine.createAdapter(config), watch),
      restoreAdapter: (snapshot, options) => Effect.map(engine.restoreAdapter(snapshot, options), watch),
      sampler: (source) =>
        Effect.map(engine.sampler(source), (sampler) => ({
          ...sampler,
          sample: (request) =>
            Effect.tap(sampler.sample(request), () => {
              note({ adapter: -1, kind: "sample", op: request.params?.seed ?? -1, part: 0 })
            })
        }))
    }))
  )

  const counted = counting(
    yield* Faults.make({ seed: seed * 1_000 + life, rules: faults === "load" ? load : chaos })
  )
  yield* Effect.addFinalizer(() => Effect.sync(() => writeSync(1, `stats ${JSON.stringify(counted.stats())}\n`)))
  const context = yield* Layer.build(
    Layer.provide(
      LocalServer.layer(settings(faults, seed)),
      [
        engine,
        Layer.provide(Storage.layerDirectory(directory), NodeContext.layer),
        Layer.succeed(Faults.Faults, counted.service)
      ]
    )
  )
  yield* Effect.flatMap(LocalServer.LocalServer, (server) => NodeTinkerLocal.listen(server, { port })).pipe(
    Effect.provide(context)
  )
  writeSync(1, "listening\n")
  return yield* Effect.never
}).pipe(Effect.scoped, Logger.withMinimumLogLevel(LogLevel.Error))

NodeRuntime.runMain(main)
