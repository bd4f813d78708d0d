import { Agent } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import { Reinforce, RunLog } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { stepCountIs, tool, ToolLoopAgent } from "ai"
import { Chunk, Effect, Option, Stream } from "effect"
import { z } from "zod"
import { chatRenderer } from "./support/chat.js"

const calculator = tool({
  description: "Compute an expression.",
  inputSchema: z.object({ expression: z.string() }),
  execute: ({ expression }) => String(expression.split("+").reduce((sum, part) => sum + Number(part), 0))
})

/** Rewards short answers: some are shorter than others. */
const agent = AiSdk.agent({
  tasks: [12, 34, 56, 78, 90, 21].map((n) => `What is ${n} + ${n + 1}?`),
  test: ["What is 43 + 44?"],
  run: (prompt, { model, signal }) =>
    new ToolLoopAgent({ model, tools: { calculator }, stopWhen: stepCountIs(3) }).generate({
      prompt,
      abortSignal: signal
    }),
  score: (_, { steps, text }) => 1 / (1 + text.length) + steps.length
})

const train = (options: { readonly directory?: string; readonly mode?: Reinforce.Mode }) =>
  Stream.unwrap(Effect.map(chatRenderer, (renderer) =>
    Agent.train({
      agent,
      model: { baseModel: "local/chat", rank: 4, seed: 1 },
      renderer,
      learningRate: 1e-3,
      maxTokens: 32,
      groupSize: 4,
      groupsPerBatch: 2,
      epochs: 2,
      seed: 5,
      temperature: 1.2,
      mode: options.mode ?? Reinforce.sync,
      log: options.directory === undefined ? undefined : RunLog.directory(options.directory)
    })))

const seriesOf = (directory: string) =>
  Effect.map(RunLog.read(directory), (found) => {
    const { resumes, steps } = Option.getOrThrow(found)
    return {
      resumes,
      steps: steps.map(({ metrics, step }) => [step, metrics["loss"], metrics["env/all/reward"], metrics["tokens"]])
    }
  })

describe("Agent.train", () => {
  it.scopedLive(
    "a run that was cut short goes on and computes what a whole one computes",
    () =>
      Effect.gen(function*() {
        const root = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped()
        const backend = Effect.provide(NodeTinkerLocal.layerInProcess({ directory: `${root}/backend` }))
        yield* Stream.runDrain(train({ directory: `${root}/whole` })).pipe(backend)
        yield* Stream.runDrain(Stream.take(train({ directory: `${root}/cut` }), 2)).pipe(backend)
        const rest = yield* Stream.runCollect(train({ directory: `${root}/cut` })).pipe(backend)
        const whole = yield* seriesOf(`${root}/whole`)
        assert.strictEqual(whole.steps.length, 6)
        assert.deepStrictEqual(yield* seriesOf(`${root}/cut`), { ...whole, resumes: 1 })
        const { checkpoint, evaluations } = Option.getOrThrow(Option.getOrThrow(Chunk.last(rest)).final)
        assert.isString(checkpoint.samplerPath)
        assert.isAbove(evaluations["test"]?.["env/all/reward"] ?? 0, 0)
      }).pipe(Effect.provide(NodeContext.layer)),
    240_000
  )

  it.scopedLive("runs ahead of training within the bound on staleness", () =>
    Effect.gen(function*() {
      const reports = Chunk.toReadonlyArray(
        yield* Stream.runCollect(train({ mode: Reinforce.async({ maxStepsOffPolicy: 2 }) }))
      )
      assert.strictEqual(reports.length, 6)
      assert.isTrue(reports.every(({ detail }) => detail.staleness.every((steps) => steps >= 0 && steps <= 2)))
      for (const { detail: { groups }, step } of reports) {
        for (const { action } of groups.flatMap(({ trajectories }) => trajectories.flatMap(({ turns }) => turns))) {
          assert.isTrue(action.policyVersion >= step - 3 && action.policyVersion < step)
        }
      }
    }).pipe(Effect.provide([NodeContext.layer, NodeTinkerLocal.layerInProcess()])), 240_000)
})
