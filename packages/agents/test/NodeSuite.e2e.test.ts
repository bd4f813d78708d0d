import * as NodeSuite from "@effect-tinker/agents/NodeSuite"
import type { Evaluator } from "@effect-tinker/cookbook"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { SamplingClient } from "effect-tinker"
import { ModelInput, TrainingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import { chatRenderer, Local } from "./support/chat.js"

const root = fileURLToPath(new URL("../../../", import.meta.url))

/** Suites with the Vitest they need: not workspaces, so that both versions can be installed. */
const directories = { evalite: "packages/agents/test/evalite", vitestEvals: "packages/agents/test/vitest-evals" }
const evalite = await install(directories.evalite)
const vitestEvals = await install(directories.vitestEvals)

const Live = Layer.merge(Local, NodeContext.layer)

const drawing = { maxTokens: 64, temperature: 0, contextWindow: 1024 }

/** The metrics of an evaluator of `local/chat`, and its sampler. */
const evaluated = Effect.fnUntraced(function*<E, R>(evaluator: Evaluator.Evaluator<E, R>) {
  const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 4, seed: 1 })
  const sampler: SamplingClient.Service = yield* training.saveWeightsAndGetSamplingClient()
  return { metrics: yield* evaluator.evaluate({ step: 3, training, sampler: Effect.succeed(sampler) }), sampler }
})

describe("suites of other tools", () => {
  it.scopedLive.skipIf(evalite.missing !== undefined)(
    "evalite: the scores are those of the weights",
    () =>
      Effect.gen(function*() {
        const renderer = yield* chatRenderer
        const { metrics, sampler } = yield* evaluated(NodeSuite.evalite({
          renderer,
          ...drawing,
          workingDirectory: `${root}${directories.evalite}`,
          program: ["node_modules/.bin/evalite"]
        }))
        // the same questions, asked without a suite and a gateway
        const answers = yield* Effect.forEach([[12, 7], [31, 4], [25, 25], [40, 41], [3, 8]] as const, ([a, b]) =>
          Effect.gen(function*() {
            const prompt = yield* renderer.generationPrompt([{ role: "user", content: `What is ${a} + ${b}?` }])
            const { sequences } = yield* sampler.sample({
              prompt: ModelInput.fromInts(prompt),
              maxTokens: 64,
              temperature: 0,
              stop: renderer.stop
            })
            const { content } = renderer.parse(sequences[0]?.tokens ?? []).message
            const text = typeof content === "string" ? content : ""
            return { right: text.trim() === String(a + b) ? 1 : 0, brief: text.length <= 4 ? 1 : 0 }
          }))
        const mean = (name: "brief" | "right") =>
          answers.reduce((sum, answer) =>
            sum + answer[name], 0) / 5
        assert.isAbove(mean("right"), 0)
        assert.deepStrictEqual(metrics, {
          "sums/failed": 0,
          "sums/score": (mean("right") + mean("brief")) / 2,
          "sums/right": mean("right"),
          "sums/brief": mean("brief")
        })
      }).pipe(Effect.provide(Live)),
    300_000
  )

  it.scopedLive.skipIf(vitestEvals.missing !== undefined)(
    "vitest-evals: a suite as it is",
    () =>
      Effect.gen(function*() {
        const { metrics } = yield* evaluated(NodeSuite.vitestEvals({
          renderer: yield* chatRenderer,
          ...drawing,
          workingDirectory: `${root}${directories.vitestEvals}`,
          environment: ({ apiKey, baseURL }) => ({ MODEL_URL: baseURL, MODEL_KEY: apiKey }),
          program: ["node_modules/.bin/vitest"]
        }))
        const { failed, score, ...judges } = metrics
        assert.strictEqual(failed, 0)
        assert.sameMembers(Object.keys(judges), ["judge/right", "judge/brief", "judge/ToolCallJudge"])
        assert.closeTo(score ?? NaN, Object.values(judges).reduce((sum, value) => sum + value, 0) / 3, 1e-9)
        assert.isAbove(score ?? NaN, 0)
      }).pipe(Effect.provide(Live)),
    300_000
  )

  it.scopedLive("a command that fails says what it printed, and one that hangs is ended", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const failing = (program: string, timeLimit?: "300 millis") =>
        Effect.flip(evaluated(NodeSuite.evaluator({
          name: "own",
          renderer,
          timeLimit,
          command: () => [process.execPath, "-e", program],
          read: () => Effect.succeed({})
        })))
      const [broken, slow] = [
        yield* failing("console.error('no model at ' + process.env.OPENAI_BASE_URL.slice(0, 17)); process.exit(3)"),
        yield* failing("setInterval(() => {}, 1000)", "300 millis")
      ]
      assert.strictEqual(
        broken.message,
        "own: the command ended with exit code 3 and left no results\nno model at http://127.0.0.1:"
      )
      assert.strictEqual(slow.message, "own: the command ran longer than 300ms")
      const missing = yield* Effect.flip(evaluated(NodeSuite.evaluator({
        name: "own",
        renderer,
        command: () => ["no-such-program-here"],
        read: () => Effect.succeed({})
      })))
      assert.include(missing.message, "own: the command could not be run")
    }).pipe(Effect.provide(Live)), 120_000)
})
