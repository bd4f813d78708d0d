import { Agent, AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Dataset, Policy, Rollout } from "@effect-tinker/cookbook"
import { Command, FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema, Stream } from "effect"
import { SamplingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import { chatRenderer, Local } from "./support/chat.js"

const root = fileURLToPath(new URL("../../../", import.meta.url))

/** A suite of vitest-evals with the Vitest it needs: not a workspace, so that both versions can be installed. */
const suite = "packages/agents/test/vitest-evals"
const directory = `${root}${suite}`

const { missing } = await install(suite)

const run = (command: string, args: ReadonlyArray<string>, env: Record<string, string> = {}) =>
  Command.make(command, ...args).pipe(
    Command.workingDirectory(directory),
    Command.env(env),
    Command.stdout("inherit"),
    Command.stderr("inherit"),
    Command.exitCode
  )

/** Vitest's report, with what vitest-evals adds to it. */
const Results = Schema.parseJson(Schema.Struct({
  testResults: Schema.Array(Schema.Struct({
    assertionResults: Schema.Array(Schema.Struct({
      title: Schema.String,
      status: Schema.String,
      meta: Schema.Struct({
        eval: Schema.Struct({
          avgScore: Schema.Number,
          scores: Schema.Array(Schema.Struct({ name: Schema.String, score: Schema.Number }))
        })
      })
    }))
  }))
}))

const judges = ["right", "brief", "ToolCallJudge"]

interface Price {
  readonly question: string
}

/** What the suite says about each question, under its own Vitest, with the gateway as its model. */
const evaluated = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const report = `${yield* fs.makeTempDirectoryScoped()}/report.json`
  const gateway = yield* NodeGateway.NodeGateway
  const code = yield* run(
    "node_modules/.bin/vitest",
    ["run", "--reporter=vitest-evals/reporter", "--reporter=json", `--outputFile.json=${report}`],
    { MODEL_URL: `${gateway.url}/v1`, MODEL_KEY: Redacted.value(gateway.apiKey) }
  )
  assert.strictEqual(code, 0)
  const { testResults } = yield* Schema.decode(Results)(yield* fs.readFileString(report))
  return testResults.flatMap(({ assertionResults }) => assertionResults).map(({ meta, status, title }) => {
    assert.strictEqual(status, "passed")
    return [title, meta.eval.avgScore, ...meta.eval.scores.map(({ name, score }) => [`judge/${name}`, score])]
  })
})

/** The default export of `agent.ts`, which has the same inputs, harness and judges. Its types are checked on their own. */
const loadAgent = Effect.promise((): Promise<{ readonly default: Agent.Agent<Price, unknown> }> =>
  import(`${directory}/agent.ts`)
).pipe(Effect.map((module) => module.default))

const drawing = { maxTokens: 64, temperature: 0 }

const Gateway = Layer.unwrapScoped(Effect.gen(function*() {
  const sampler = Sampler.fromClient(yield* SamplingClient.make({ baseModel: "local/chat" }))
  const model = AgentModel.layer({ renderer: yield* chatRenderer, sampler, contextWindow: 1024, defaults: drawing })
  return NodeGateway.layer({ model: "local/chat" }).pipe(Layer.provide(model), Layer.provide(Recorder.layer()))
}))

const Live = Layer.mergeAll(Gateway.pipe(Layer.provideMerge(Local)), NodeContext.layer)

describe.skipIf(missing !== undefined)("a suite of vitest-evals", () => {
  it.scopedLive("is an agent: the same tasks, and the same scores", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* run("node", [`${root}.ci/tsc.mjs`, suite]), 0)
      const reported = yield* evaluated
      const agent = yield* loadAgent
      const renderer = yield* chatRenderer
      const client = yield* SamplingClient.make({ baseModel: "local/chat" })
      const policy = Policy.fromSampler(client, { ...drawing, contextWindow: 1024 })
      const runs: Array<Agent.Run<Price, unknown>> = []
      const onRun = (run: Agent.Run<Price, unknown>) => Effect.sync(() => runs.push(run))
      const tasks = yield* Stream.runCollect(Dataset.values(agent.tasks))
      for (const task of tasks) {
        const environment = yield* Agent.problem(agent, task, { onRun }).make({ renderer })
        yield* Rollout.run(policy, environment)
      }
      const scores = runs.map(({ metrics, reward, task }) => [
        task.question,
        reward,
        ...judges.map((judge) => [`judge/${judge}`, metrics[`judge/${judge}`]])
      ])
      assert.strictEqual(scores.length, 5)
      assert.isAbove(new Set(scores.map(([, reward]) => reward)).size, 1)
      assert.deepStrictEqual(scores, reported)
    }).pipe(Effect.provide(Live)), 600_000)

  it.scopedLive("is trained on", () =>
    Effect.gen(function*() {
      const steps = yield* Stream.runCollect(Agent.train({
        agent: yield* loadAgent,
        model: { baseModel: "local/chat", rank: 4, seed: 1 },
        renderer: yield* chatRenderer,
        learningRate: 1e-3,
        maxTokens: 64,
        contextWindow: 1024,
        groupSize: 4,
        groupsPerBatch: 5,
        epochs: 2,
        seed: 1,
        temperature: 1.2
      }))
      assert.strictEqual(steps.length, 2)
      for (const { metrics } of steps) {
        const scores = judges.map((judge) => metrics[`env/all/judge/${judge}`] ?? NaN)
        assert.closeTo(metrics["env/all/reward"] ?? NaN, scores.reduce((sum, score) => sum + score, 0) / 3, 1e-9)
      }
    }).pipe(Effect.provide([Local, NodeContext.layer])), 600_000)
})
