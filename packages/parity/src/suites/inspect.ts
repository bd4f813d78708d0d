/**
 * `--inspect`: tasks of `inspect_ai`, unmodified, as an evaluator of weights; and logs of benchmarks as it reads them.
 */
import * as NodeSuite from "@effect-tinker/agents/NodeSuite"
import { Benchmark, Dataset, Environment, Policy } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Message, Renderers, Tokenizers } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { Console, Effect, Schema } from "effect"
import { SamplingClient, TrainingClient } from "effect-tinker"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "inspect"

const sums = [[12, 7], [31, 4], [25, 25], [40, 41], [333, 333], [417, 268], [905, 88], [3, 8]] as const

const example = ([a, b]: readonly [number, number]) => {
  const [question, target] = [`What is ${a} + ${b}?`, String(a + b)]
  return {
    id: `${a}+${b}`,
    input: question,
    target,
    problem: Environment.problem({ question, check: (answer) => answer.trim() === target })
  }
}

const drawing = { maxTokens: 64, temperature: 0 }

const Read = Schema.parseJson(Schema.Struct({
  status: Schema.String,
  model: Schema.String,
  scores: Schema.Record({ key: Schema.String, value: Schema.Record({ key: Schema.String, value: Schema.Number }) }),
  samples: Schema.Array(Schema.Tuple(Schema.Union(Schema.String, Schema.Number), Schema.Number, Schema.String))
}))

const compare = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  const python = yield* Python.makeInspect
  const differences: Array<string> = []
  const same = (what: string, seen: unknown, expected: unknown) => {
    if (JSON.stringify(seen) !== JSON.stringify(expected)) {
      differences.push(`${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(expected)}`)
    }
  }
  const tokenizer = yield* (yield* Tokenizers.Tokenizers).forModel("local/chat")
  const renderer = yield* Renderers.forModel("local/chat", tokenizer)

  // Weights that a trainer would have evaluated: those of a model before its first step.
  const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 4, seed: 1 })
  const sampler = yield* training.saveWeightsAndGetSamplingClient()
  const metrics = yield* NodeSuite.inspect({
    tasks: ["inspect_tasks.py@sums", "inspect_tasks.py@prices"],
    renderer,
    ...drawing,
    contextWindow: 1024,
    workingDirectory: `${Python.root}/python`,
    environment: () => ({ PYTHONDONTWRITEBYTECODE: "1" }),
    program: [python.interpreter, "-m", "inspect_ai"],
    timeLimit: "5 minutes"
  }).evaluate({ step: 0, training, sampler: Effect.succeed(sampler) })
  yield* Console.log(`inspect eval: ${JSON.stringify(metrics)}`)

  // The same questions without Inspect: its match of a whole answer is equality.
  const answers = yield* Effect.forEach(sums, ([a, b]) =>
    Effect.gen(function*() {
      const prompt = yield* renderer.generationPrompt([Message.user(`What is ${a} + ${b}?`)])
      const { sequences } = yield* sampler.sample({ prompt, ...drawing, stop: renderer.stop })
      return Message.text(renderer.parse(sequences[0]?.tokens ?? []).message).trim()
    }))
  const right = answers.filter((answer, i) => answer === String((sums[i]?.[0] ?? 0) + (sums[i]?.[1] ?? 0))).length
  same("accuracy of the sums", metrics["sums/match/accuracy"], right / sums.length)
  same("samples", [metrics["sums/samples"], metrics["prices/samples"]], [sums.length, 4])
  if (!((metrics["prices/includes/accuracy"] ?? 0) > 0)) {
    differences.push("prices: no sample was answered with what the tool said")
  }

  // A log of ours.
  const report = yield* Benchmark.run({
    name: "sums",
    model: "local/chat",
    policy: Policy.fromSampler(yield* SamplingClient.make({ baseModel: "local/chat" }), { maxTokens: 8 }),
    problems: Dataset.fromIterable(sums.map(example)),
    settings: { renderer },
    samples: 2,
    passAt: [1, 2]
  })
  const log = `${directory}/sums.json`
  yield* fs.writeFileString(log, JSON.stringify(yield* Benchmark.toInspect(report)))
  const read = yield* Effect.flatMap(python.run("inspect_tasks", "read", log), Schema.decode(Read))
  same("status", read.status, "success")
  same("model", read.model, "local/chat")
  same("scores", read.scores, {
    reward: { mean: report.score, pass_at_1: report.passAt[1], pass_at_2: report.passAt[2] }
  })
  same("samples of the log", read.samples, report.results.map(({ answer, id, sample }) => [id, sample + 1, answer]))

  yield* Console.log(JSON.stringify({ suite: name, metrics, log: read.samples.length, different: differences.length }))
  return differences.length > 0 ? yield* new Differs({ suite: name, differences }) : undefined
})

export const inspect: Suite = {
  name,
  summary: "tasks of inspect_ai as an evaluator of weights, and logs of benchmarks as it reads them",
  run: () =>
    compare.pipe(
      Effect.scoped,
      Effect.provide(NodeTinkerLocal.layerInProcess()),
      Effect.mapError((error) =>
        error._tag === "Differs" || error._tag === "PythonFailed" || error._tag === "PythonMissing"
          ? error
          : new Differs({ suite: name, differences: [`${error._tag}: ${error.message}`] })
      )
    )
}
