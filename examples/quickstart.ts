/**
 * Fine-tunes a small model on this machine, through the same clients that talk to the hosted service.
 *
 * Run it with `npm run quickstart`. It needs no account and no network; the environment can send it elsewhere.
 */
import type { Tokenizer } from "@effect-tinker/tokenizer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Clock, Effect } from "effect"
import { ModelInput, Progress, SamplingClient, TinkerFuture, TrainingClient } from "effect-tinker"
import * as Task from "./quickstart/task.js"
import { makeScreen } from "./quickstart/terminal.js"
import { Backend, baseUrl, learningRate, model, tokenizerOf } from "./shared/backend.js"

const screen = makeScreen(process.stdout, { color: process.env["NO_COLOR"] === undefined })

/** The model's answers: at temperature 0 the most likely ones. */
const answers = (tokenizer: Tokenizer.Tokenizer, temperature: number) => (sampler: SamplingClient.Service) =>
  Effect.forEach(Task.phrases, ([english], index) =>
    Effect.map(
      sampler.sample({
        prompt: ModelInput.fromInts(Task.question(tokenizer, english)),
        maxTokens: 24,
        temperature,
        seed: index,
        stop: ["\n"]
      }),
      ({ sequences }) => tokenizer.decode(sequences[0]?.tokens ?? []).trim()
    ), { concurrency: "unbounded" })

const supervised = Effect.gen(function*() {
  const steps = 32
  yield* screen.heading("1. Learning from examples: seven phrases in Pig Latin")
  const training = yield* TrainingClient.makeLora({ baseModel: yield* model, rank: 32, seed: 1 })
  const tokenizer = yield* tokenizerOf(training)
  const { answerTokens, data, tokens } = yield* Task.lessons(tokenizer)
  const before = yield* Effect.flatMap(SamplingClient.make({ baseModel: yield* model }), answers(tokenizer, 1))
  const progress = yield* Progress.make({ totalSteps: steps, render: screen.progress("  training") })
  const losses: Array<number> = []
  for (let step = 1; step <= steps; step++) {
    const pass = yield* training.forwardBackward(data, "cross_entropy")
    const update = yield* training.optimStep({ learningRate: yield* learningRate })
    const { metrics } = yield* progress.await(pass)
    yield* update
    losses.push((metrics["loss:sum"] ?? NaN) / answerTokens)
    yield* progress.step({ "loss per token": losses.at(-1) ?? NaN }, { tokens })
  }
  yield* progress.end
  yield* screen.chart(losses, (value) => value.toFixed(1))
  yield* screen.line()
  const saved = yield* TinkerFuture.await(training.saveWeightsForSampler("pig-latin"))
  const after = yield* Effect.flatMap(SamplingClient.make({ modelPath: saved.path }), answers(tokenizer, 0))
  for (const [index, [english, pigLatin]] of Task.phrases.entries()) {
    const [was = "", is = ""] = [before[index], after[index]]
    yield* screen.line(
      `  ${english.padEnd(14)} before ${JSON.stringify(was).slice(0, 26).padEnd(27)}` +
        `after ${JSON.stringify(is)}${is === pigLatin ? "" : ` (expected ${JSON.stringify(pigLatin)})`}`
    )
  }
  return { training, tokenizer }
})

const reinforced = (tokenizer: Tokenizer.Tokenizer) =>
  Effect.gen(function*() {
    const rounds = 15
    yield* screen.heading("2. Learning from reward: the more vowels, the better")
    const training = yield* TrainingClient.makeLora({ baseModel: yield* model, rank: 32, seed: 2 })
    const prompt = tokenizer.encode(Task.opening)
    const rewards: Array<number> = []
    let last = ""
    const progress = yield* Progress.make({ totalSteps: rounds, render: screen.progress("  training", () => last) })
    for (let round = 1; round <= rounds; round++) {
      const { path } = yield* TinkerFuture.await(training.saveWeightsForSampler(`vowels-${round}`))
      const sampler = yield* SamplingClient.make({ modelPath: path })
      const { sequences } = yield* sampler.sample({
        prompt: ModelInput.fromInts(prompt),
        numSamples: 32,
        maxTokens: 12,
        stop: [],
        seed: round
      })
      const written = sequences.map(({ tokens }) => tokenizer.decode(tokens))
      const scores = written.map(Task.reward)
      const better = Task.advantages(scores)
      const batch = yield* Effect.forEach(sequences, (draw, i) => Task.experience(prompt, draw, better[i] ?? 0))
      const pass = yield* training.forwardBackward(batch, "importance_sampling")
      const update = yield* training.optimStep({ learningRate: 1.25 * (yield* learningRate) })
      yield* progress.await(pass)
      yield* update
      rewards.push(scores.reduce((sum, score) => sum + score, 0) / scores.length)
      last = JSON.stringify(written[0]?.trim())
      yield* progress.step({ reward: rewards.at(-1) ?? NaN })
    }
    yield* progress.end
    yield* screen.chart(rewards, (value) => value.toFixed(1))
  })

const resumed = (training: TrainingClient.Service, tokenizer: Tokenizer.Tokenizer) =>
  Effect.gen(function*() {
    yield* screen.heading("3. Saving and coming back")
    const { answerTokens, data } = yield* Task.lessons(tokenizer)
    const loss = (client: TrainingClient.Service) =>
      Effect.map(
        TinkerFuture.await(client.forward(data, "cross_entropy")),
        ({ metrics }) => ((metrics["loss:sum"] ?? NaN) / answerTokens).toFixed(4)
      )
    const { path } = yield* TinkerFuture.await(training.saveState("quickstart"))
    const again = yield* TrainingClient.makeFromState({ path, withOptimizer: true })
    yield* screen.line(`  ${path}`)
    yield* screen.line(`  loss per token before saving ${yield* loss(training)}, after loading ${yield* loss(again)}`)
    const sampler = yield* TinkerFuture.await(again.saveWeightsForSampler("quickstart"))
    const [first = ""] = yield* Effect.flatMap(SamplingClient.make({ modelPath: sampler.path }), answers(tokenizer, 0))
    yield* screen.line(`  asked for "${Task.phrases[0]?.[0] ?? ""}", it still answers ${JSON.stringify(first)}`)
  })

const elsewhere = `
The same program runs on the hosted service, or on a server of your own:
  export TINKER_API_KEY=tml-... TINKER_BASE_URL=https://tinker.thinkingmachines.dev/services/tinker-prod
  EXAMPLE_MODEL=Qwen/Qwen3-8B EXAMPLE_LEARNING_RATE=1e-4 npm run quickstart
What changes there: docs/hosted-service.md. The code: examples/quickstart.ts.`

const program = Effect.gen(function*() {
  const start = yield* Clock.currentTimeMillis
  const url = yield* baseUrl
  const place = url === "" ? "on this machine: no account, no network" : `on ${url}`
  yield* screen.line(`Fine-tuning ${yield* model} ${place}.`)
  const { tokenizer, training } = yield* supervised
  yield* reinforced(tokenizer)
  yield* resumed(training, tokenizer)
  const seconds = ((yield* Clock.currentTimeMillis) - start) / 1000
  yield* screen.line(`\nDone in ${seconds.toFixed(1)} s.`)
  if (url === "") yield* screen.line(elsewhere)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(Backend)))
