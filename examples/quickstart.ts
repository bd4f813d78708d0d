/**
 * Fine-tunes a small language model on this machine, with the clients that talk to the hosted service.
 *
 * Run it with `npm run quickstart`. It needs no account and no network; the environment can send it elsewhere.
 * `--seed N` draws other problems, `--json` ends with what was measured on one line.
 */
import { Dataset, Environment, Example, Reinforce, Supervised } from "@effect-tinker/cookbook"
import type { Trainer } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat, Message } from "@effect-tinker/tokenizer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Clock, Config, Effect, Random, Stream } from "effect"
import { ModelInput, SamplingClient, TrainingClient } from "effect-tinker"
import { availableParallelism } from "node:os"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { parseArgs } from "node:util"
import * as Tasks from "./quickstart/tasks.js"
import { makeScreen } from "./quickstart/terminal.js"
import { backend, baseUrl } from "./shared/backend.js"

const { values: { json, seed: given } } = parseArgs({
  options: { seed: { type: "string", default: "1" }, json: { type: "boolean", default: false } }
})
const seed = Number(given)
const screen = makeScreen(process.stdout, { color: process.env["NO_COLOR"] === undefined })

/** The model to train, and a factor of the learning rates: those of `local/chat` are too high for a large model. */
const settings = Config.all({
  baseModel: Config.withDefault(Config.string("EXAMPLE_MODEL"), "local/chat"),
  pace: Config.withDefault(Config.number("EXAMPLE_PACE"), 1)
})

/** The likeliest answer to each question. */
const ask = Effect.fnUntraced(function*(label: string, sampler: SamplingClient.Service, task: Tasks.Task) {
  const chat = yield* Chat.forModel((yield* settings).baseModel)
  const bar = screen.bar(label, task.heldOut.length)
  let asked = 0
  return yield* Effect.forEach(task.heldOut, ({ question }) =>
    chat.ask(
      (prompt, params) => sampler.sample({ prompt: ModelInput.fromInts(prompt), ...params }),
      question,
      { temperature: 0, maxTokens: 48 }
    ).pipe(
      Effect.map(({ text }) => text.trim()),
      Effect.tap(() => bar(++asked, ""))
    ), { concurrency: 16 })
})

/** Asks what is held out, trains, asks again, and shows what has changed. */
const lesson = Effect.fnUntraced(function*<Detail, E, R>(task: Tasks.Task, options: {
  readonly steps: number
  readonly curve: string
  readonly value: (report: Trainer.StepReport<Detail>) => number
  readonly run: Stream.Stream<Trainer.StepReport<Detail>, E, R>
}) {
  const { baseModel } = yield* settings
  const before = yield* ask("asking", yield* SamplingClient.make({ baseModel }), task)
  const curve: Array<number> = []
  const bar = screen.bar("training", options.steps)
  const { checkpoint } = yield* options.run.pipe(
    Stream.tap((report) => {
      const value = options.value(report)
      curve.push(value)
      return bar(report.step, `${options.curve} ${value.toFixed(2)}`)
    }),
    Stream.runLast,
    Effect.flatten,
    Effect.flatMap(({ final }) => final)
  )
  const sampler = yield* SamplingClient.make({ modelPath: yield* Effect.fromNullable(checkpoint.samplerPath) })
  const after = yield* ask("asking again", sampler, task)
  yield* screen.chart(curve, (value) => value.toFixed(1))
  yield* screen.table([
    ["held out", "before", "after"],
    ...task.heldOut.slice(0, 5).map(({ question }, i) => [question, before[i] ?? "", after[i] ?? ""])
  ])
  const accuracy = { before: Tasks.accuracy(task, before), after: Tasks.accuracy(task, after) }
  const [was, is] = [accuracy.before, accuracy.after].map((share) => `${Math.round(100 * share)} %`)
  yield* screen.line(`  right of ${task.heldOut.length} it was never trained on: ${was} before, ${is} after`)
  return { accuracy, after, statePath: checkpoint.statePath }
})

const fromExamples = Effect.gen(function*() {
  yield* screen.heading("1. Learning from examples: orders in a format it has never seen")
  const { baseModel, pace } = yield* settings
  const { renderer } = yield* Chat.forModel(baseModel)
  const task = yield* Tasks.orders({ train: 384, heldOut: 40 })
  return yield* lesson(task, {
    steps: 24,
    curve: "loss",
    value: ({ loss }) => loss,
    run: Supervised.train({
      model: { baseModel, rank: 16, seed },
      renderer,
      data: Dataset.map(
        Dataset.fromIterable(task.train),
        ({ answer, question }) => Example.conversation([Message.user(question), Message.assistant(answer)])
      ),
      batchSize: 16,
      learningRate: { peak: 1e-3 * pace, decay: "linear", warmUp: 3 }
    })
  })
})

const fromReward = Effect.gen(function*() {
  yield* screen.heading("2. Learning from reward: sums, of which it knows about half")
  const { baseModel, pace } = yield* settings
  const { renderer } = yield* Chat.forModel(baseModel)
  const task = yield* Tasks.sums({ train: 320, heldOut: 100 })
  const learned = yield* lesson(task, {
    steps: 20,
    curve: "reward",
    value: ({ detail }) => detail.reward,
    run: Reinforce.train({
      model: { baseModel, rank: 16, seed },
      renderer,
      problems: Environment.problems(task.train, {
        question: ({ question }) => question,
        reward: (problem, said) => Tasks.solves(problem, said)
      }),
      groupsPerBatch: 16,
      groupSize: 8,
      maxTokens: 12,
      seed,
      learningRate: 1e-4 * pace
    })
  })
  return { task, ...learned }
})

const comeBack = Effect.fnUntraced(
  function*({ after, statePath, task }: Effect.Effect.Success<typeof fromReward>) {
    yield* screen.heading("3. Saving and coming back")
    const training = yield* TrainingClient.makeFromState({ path: statePath, withOptimizer: true })
    const answers = yield* ask("asking", yield* training.saveWeightsAndGetSamplingClient(), task)
    const same = answers.filter((answer, i) => answer === after[i]).length
    yield* screen.line(`  ${statePath}\n  gives the same answer to ${same} of ${answers.length} questions`)
    return same / answers.length
  }
)

const elsewhere = `
The same program runs on the hosted service, or on a server of your own:
  export TINKER_API_KEY=tml-... TINKER_BASE_URL=https://tinker.thinkingmachines.dev/services/tinker-prod
  EXAMPLE_MODEL=Qwen/Qwen3-8B EXAMPLE_PACE=0.1 npm run quickstart
What changes there: docs/hosted-service.md. The code: examples/quickstart.ts.`

const program = Effect.gen(function*() {
  const start = yield* Clock.currentTimeMillis
  const { baseModel } = yield* settings
  const url = yield* baseUrl
  const place = url === "" ? "on this machine: no account, no network" : `on ${url}`
  yield* screen.line(`Fine-tuning ${baseModel} ${place}.`)
  // What comes before is loading; from here on nothing should keep timers and sockets waiting.
  yield* SamplingClient.make({ baseModel })
  const delay = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const histogram = monitorEventLoopDelay({ resolution: 1 })
      histogram.enable()
      return histogram
    }),
    (histogram) => Effect.sync(() => histogram.disable())
  )
  const examples = yield* fromExamples
  const reward = yield* fromReward
  const same = yield* comeBack(reward)
  const seconds = ((yield* Clock.currentTimeMillis) - start) / 1000
  yield* screen.line(`\nDone in ${seconds.toFixed(1)} s.`)
  if (url === "") yield* screen.line(elsewhere)
  if (json) {
    const eventLoopDelayMillis = delay.max / 1e6
    const measured = { supervised: examples.accuracy, reward: reward.accuracy, same, seconds, eventLoopDelayMillis }
    yield* screen.line(JSON.stringify({ seed, ...measured }))
  }
})

NodeRuntime.runMain(program.pipe(
  Effect.withRandom(Random.make(seed)),
  Effect.scoped,
  Effect.provide(backend(NodeTinkerLocal.layerInProcess({ threads: availableParallelism() })))
))
