/**
 * The embedded backend in its own process, with an engine that computes nothing: the CPU time of a client does not depend on
 * the values it receives, and with immediate responses it can be measured after a hundred steps. A line on standard input is
 * answered with the server's address and key.
 */
import type { LocalAdapter, LocalSampler } from "@effect-tinker/local"
import { Engine, LocalModel, LocalServer, Storage } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Context, Effect, Layer, Logger, Redacted } from "effect"
import { createInterface } from "node:readline"
import { baseModel } from "./rollouts.js"

const apiKey = Redacted.make("tml-bench")

const model = LocalModel.random({ name: baseModel, contextLength: 1024, width: 16, layers: 1, heads: 1, hidden: 16 })

/** Letters, and no two sequences the same. */
const makeDraw = () => {
  let state = 1
  return () => 97 + ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 16) % 26
}

const trains = (adapter: LocalAdapter.Adapter): LocalAdapter.Adapter => ({
  ...adapter,
  forwardBackward: ({ data }) =>
    Effect.sync(() => ({
      outputs: data.map(({ tokens: { length } }) => ({
        logprobs: { data: new Float32Array(length).fill(-3), shape: [length] }
      })),
      metrics: { "loss:sum": 0 },
      tokens: data.reduce((sum, { tokens }) => sum + tokens.length, 0)
    })),
  optimStep: () => Effect.succeed({ metrics: { grad_norm: 1 } })
})

const samples = (sampler: LocalSampler.Sampler, draw: () => number): LocalSampler.Sampler => ({
  ...sampler,
  sample: ({ numSamples = 1, params }) =>
    Effect.sync(() => ({
      sequences: Array.from({ length: numSamples }, () => ({
        tokens: Int32Array.from({ length: params?.maxTokens ?? 1 }, draw),
        logprobs: new Float32Array(params?.maxTokens ?? 1).fill(-3),
        stopReason: "length" as const
      }))
    }))
})

const AtOnce = Layer.effect(
  Engine.Engine,
  Effect.map(Engine.make({ models: [model] }), (engine): Engine.Service => {
    const draw = makeDraw()
    return {
      ...engine,
      createAdapter: (config) => Effect.map(engine.createAdapter(config), trains),
      sampler: (source) => Effect.map(engine.sampler(source), (sampler) => samples(sampler, draw))
    }
  })
)

const program = Effect.gen(function*() {
  const context = yield* Layer.build(
    LocalServer.layer({ apiKeys: [{ key: apiKey }] }).pipe(Layer.provide([AtOnce, Storage.layerMemory]))
  )
  const { baseUrl } = yield* NodeTinkerLocal.listen(Context.get(context, LocalServer.LocalServer))
  createInterface(process.stdin).on("line", () => process.stdout.write(`${baseUrl} ${Redacted.value(apiKey)}\n`))
  return yield* Effect.never
})

Effect.runFork(program.pipe(Effect.scoped, Effect.provide(Logger.remove(Logger.defaultLogger))))
