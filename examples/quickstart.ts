/**
 * Fine-tunes a small language model on this machine, with the clients that talk to the hosted service.
 *
 * Run it with `npm run quickstart`. It needs no account and no network; the environment can send it elsewhere.
 * `--model NAME` takes a real model instead of the bundled one: a name on the Hugging Face hub, a directory or a GGUF
 * file. `--seed N` draws other problems, `--json` ends with what was measured on one line.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import * as NodeModels from "@effect-tinker/local/NodeModels"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat, Message } from "@effect-tinker/tokenizer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Clock, Config, Effect, Random, Stream } from "effect"
import { ModelInput, SamplingClient, TinkerFuture, TrainingClient } from "effect-tinker"
import { availableParallelism } from "node:os"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { parseArgs } from "node:util"
import { backend, baseUrl } from "./quickstart/backend.js"
import * as Tasks from "./quickstart/tasks.js"
import { makeScreen } from "./quickstart/terminal.js"

const { values: { json, model, seed: given } } = parseArgs({
  options: {
    model: { type: "string" },
    seed: { type: "string", default: "1" },
    json: { type: "boolean", default: false }
  }
})
const seed = Number(given)
const screen = makeScreen(process.stdout, { color: process.env["NO_COLOR"] === undefined })

/** The model that was asked for, once it is found on this machine or downloaded. */
const found = model === undefined ? undefined : NodeModels.resolve(model)

/** The model to train, and a factor of the learning rates: those of `local/chat` are too high for a large model. */
const settings = Effect.gen(function*() {
  const name = found === undefined ? "local/chat" : (yield* found).name
  return {
    baseModel: yield* Config.withDefault(Config.string("EXAMPLE_MODEL"), name),
    pace: yield* Config.withDefault(Config.number("EXAMPLE_PACE"), 1)
  }
})

/** Steps of a lesson, problems of a step, and answers drawn to each where reward decides. A real model takes minutes. */
const [steps, problems, draws] = model === undefined ? [24, 16, 8] : [12, 8, 8]

/** What is taught, and what it is judged by: all of it drawn from the seed. */
const tasks = Effect.all({
  orders: Tasks.orders({ train: steps * problems, heldOut: 40 }),
  sums: Tasks.sums({ train: steps * problems, heldOut: 100 })
}).pipe(Effect.withRandom(Random.make(seed)))

/** The likeliest answer to a question. */
const answer = Effect.fnUntraced(function*(sampler: SamplingClient.Service, question: string) {
  const chat = yield* Chat.forModel((yield* settings).baseModel)
  return yield* chat.ask(sampler, question, { temperature: 0, maxTokens: 48 })
})

/** The likeliest answers to what is held out. */
const ask = (label: string, sampler: SamplingClient.Service, { heldOut }: Tasks.Task) => {
  const bar = screen.bar(label, heldOut.length)
  let asked = 0
  return Effect.forEach(heldOut, ({ question }) =>
    answer(sampler, question).pipe(
      Effect.map(({ text }) => text.trim()),
      Effect.tap(() => bar(++asked, ""))
    ), { concurrency: 16 })
}

/** Asks what is held out, trains, asks again, and shows what has changed. */
const lesson = Effect.fnUntraced(function*<E, R>(task: Tasks.Task, options: {
  readonly curve: string
  readonly train: (
    report: (step: number, value: number) => Effect.Effect<void>
  ) => Effect.Effect<{ readonly statePath: string; readonly samplerPath?: string | undefined }, E, R>
}) {
  const { baseModel } = yield* settings
  const before = yield* ask("asking", yield* SamplingClient.make({ baseModel }), task)
  const curve: Array<number> = []
  const bar = screen.bar("training", steps)
  const { samplerPath, statePath } = yield* options.train((step, value) => {
    curve.push(value)
    return bar(step, `${options.curve} ${value.toFixed(2)}`)
  })
  const sampler = yield* SamplingClient.make({ modelPath: yield* Effect.fromNullable(samplerPath) })
  const after = yield* ask("asking again", sampler, task)
  yield* screen.chart(curve, (value) => value.toFixed(1))
  yield* screen.table([
    ["held out", "before", "after"],
    ...task.heldOut.slice(0, 5).map(({ question }, i) => [question, before[i] ?? "", after[i] ?? ""])
  ])
  const accuracy = { before: Tasks.accuracy(task, before), after: Tasks.accuracy(task, after) }
  const [was, is] = [accuracy.before, accuracy.after].map((share) => `${Math.round(100 * share)} %`)
  yield* screen.line(`  right of ${task.heldOut.length} it was never trained on: ${was} before, ${is} after`)
  return { task, accuracy, after, statePath }
})

/** A trainer of the cookbook: data in, a stream of steps out. */
const fromExamples = Effect.fnUntraced(function*(task: Tasks.Task) {
  yield* screen.heading("1. Learning from examples: orders in a format it has never seen")
  const { baseModel, pace } = yield* settings
  const { renderer } = yield* Chat.forModel(baseModel)
  return yield* lesson(task, {
    curve: "loss",
    train: (report) =>
      Supervised.train({
        model: { baseModel, rank: 16, seed },
        renderer,
        data: Dataset.map(
          Dataset.fromIterable(task.train),
          ({ answer, question }) => Example.conversation([Message.user(question), Message.assistant(answer)])
        ),
        batchSize: problems,
        learningRate: { peak: 5e-4 * pace, decay: "linear", warmUp: 3 }
      }).pipe(
        Stream.tap(({ loss, step }) => report(step, loss)),
        Stream.runLast,
        Effect.flatten,
        Effect.flatMap(({ final }) => final),
        Effect.map(({ checkpoint }) => checkpoint)
      )
  })
})

/** The same by hand: draw answers, see which are right, make those likelier. */
const fromReward = Effect.fnUntraced(function*(task: Tasks.Task) {
  yield* screen.heading("2. Learning from reward: sums that carry in every column, of which it knows half")
  const { baseModel, pace } = yield* settings
  const { renderer } = yield* Chat.forModel(baseModel)
  return yield* lesson(task, {
    curve: "reward",
    train: (report) =>
      Effect.gen(function*() {
        const training = yield* TrainingClient.makeLora({ baseModel, rank: 16, seed })
        for (let step = 1; step <= steps; step++) {
          const sampler = yield* training.saveWeightsAndGetSamplingClient()
          const batch = task.train.slice((step - 1) * problems, step * problems)
          const groups = yield* Effect.forEach(batch, (problem, i) =>
            Effect.gen(function*() {
              const prompt = yield* renderer.generationPrompt([Message.user(problem.question)])
              const { sequences } = yield* sampler.sample({
                prompt: ModelInput.fromInts(prompt),
                numSamples: draws,
                maxTokens: 12,
                stop: renderer.stop,
                seed: seed * 1e6 + step * 1e3 + i
              })
              const rewards = sequences.map(({ tokens }) =>
                Number(Tasks.solves(problem, Message.text(renderer.parse(tokens).message)))
              )
              const mean = rewards.reduce((sum, reward) => sum + reward, 0) / draws
              const data = yield* Effect.forEach(
                sequences,
                (sequence, n) => Tasks.experience(prompt, sequence, (rewards[n] ?? 0) - mean)
              )
              return { data, mean }
            }), { concurrency: "unbounded" })
          // Where all draws are alike there is nothing to learn.
          const data = groups.filter(({ mean }) => mean > 0 && mean < 1).flatMap(({ data }) => data)
          if (data.length > 0) {
            const learningRate = 2e-4 * pace * (1 - (step - 1) / steps)
            yield* training.trainStep(data, "importance_sampling", { learningRate }).pipe(TinkerFuture.await)
          }
          yield* report(step, groups.reduce((sum, { mean }) => sum + mean, 0) / problems)
        }
        const state = yield* training.saveState("sums").pipe(TinkerFuture.await)
        const weights = yield* training.saveWeightsForSampler("sums").pipe(TinkerFuture.await)
        return { statePath: state.path, samplerPath: weights.path }
      })
  })
})

const comeBack = Effect.fnUntraced(
  function*({ after, statePath, task }: Effect.Effect.Success<ReturnType<typeof fromReward>>) {
    yield* screen.heading(`${model === undefined ? 3 : 2}. Saving and coming back`)
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

const takeAway = `
Your own chats instead of these orders, a checkpoint that stays, and a file for Ollama:
  tinker train sft chats.jsonl --local --model ${model}
  tinker export weights tinker://.../weights/final --local --for ollama
Which model for which machine: docs/local-models.md. The code: examples/quickstart.ts.`

const program = Effect.gen(function*() {
  const start = yield* Clock.currentTimeMillis
  const { baseModel } = yield* settings
  const url = yield* baseUrl
  const place = url === "" ? "on this machine: no account, no network" : `on ${url}`
  yield* screen.line(`Fine-tuning ${baseModel} ${place}.`)
  const sampler = yield* SamplingClient.make({ baseModel })
  const greeting = model === undefined ? "Hello!" : "What is the capital of France?"
  const { text } = yield* screen.waiting("Starting")(answer(sampler, greeting))
  yield* screen.line(`You say "${greeting}", it says "${text}"`)
  // Loaded. From here on nothing should keep timers and sockets waiting.
  const delay = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const histogram = monitorEventLoopDelay({ resolution: 1 })
      histogram.enable()
      return histogram
    }),
    (histogram) => Effect.sync(() => histogram.disable())
  )
  const { orders, sums } = yield* tasks
  const examples = yield* fromExamples(orders)
  // Drawing thousands of answers takes a real model many minutes on a few cores.
  const reward = model === undefined ? yield* fromReward(sums) : undefined
  const same = yield* comeBack(reward ?? examples)
  const seconds = ((yield* Clock.currentTimeMillis) - start) / 1000
  yield* screen.line(`\nDone in ${seconds.toFixed(1)} s.`)
  if (url === "") yield* screen.line(model === undefined ? elsewhere : takeAway)
  if (json) {
    const eventLoopDelayMillis = delay.max / 1e6
    const measured = { supervised: examples.accuracy, reward: reward?.accuracy, same, seconds, eventLoopDelayMillis }
    yield* screen.line(JSON.stringify({ seed, ...measured }))
  }
})

NodeRuntime.runMain(program.pipe(
  Effect.scoped,
  Effect.provide(backend(NodeTinkerLocal.layerInProcess({
    threads: availableParallelism(),
    models: model === undefined ? [] : [model]
  })))
))
