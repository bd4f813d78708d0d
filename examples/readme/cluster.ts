/** The code of packages/cluster/README.md. */
import { DurableRun, Judgement, RolloutCluster, TrajectoryStore } from "@effect-tinker/cluster"
import * as NodeCluster from "@effect-tinker/cluster/NodeCluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import { Environment, Reinforce } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Config, Effect, Layer, Stream } from "effect"

const jokes = Environment.problems(["cats", "ships"], {
  question: (topic) => `Tell me a joke about ${topic}.`,
  reward: (topic, answer) => Judgement.ask({ question: `How good is this joke about ${topic}, from 0 to 1?`, answer })
})

const directory = "runs/jokes"

export const durable = (renderer: Renderer.Renderer) =>
  DurableRun.train({
    directory,
    train: (log) =>
      Reinforce.train({
        model: "Qwen/Qwen3-8B",
        problems: jokes,
        renderer,
        learningRate: 2e-5,
        maxTokens: 128,
        checkpoints: { periodic: { time: "10 minutes" } },
        log
      }),
    wait: DurableRun.between(20, 6) // at night only
  }).pipe(
    Stream.runDrain,
    Effect.provide(NodeDurable.layerDirectory(directory))
  )

const workers = Layer.unwrapEffect(
  Effect.map(Config.redacted("DATABASE_URL"), (url) =>
    RolloutCluster.layer({ run: "sums-2", label: "browser" }).pipe(
      Layer.provide([NodeCluster.layerClient, TrajectoryStore.layerSql]),
      Layer.provide(NodeCluster.layerPostgres({ url }))
    ))
)

const sums = Environment.problems([{ a: 1, b: 2 }, { a: 3, b: 4 }], {
  question: ({ a, b }) => `What is ${a}+${b}?`,
  reward: ({ a, b }, answer) => answer.trim() === String(a + b)
})

export const spread = (renderer: Renderer.Renderer) =>
  Reinforce.train({
    model: "Qwen/Qwen3-8B",
    problems: RolloutCluster.problems(sums),
    renderer,
    learningRate: 2e-5,
    maxTokens: 64
  }).pipe(Stream.runDrain, Effect.provide(workers))
