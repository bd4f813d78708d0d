/**
 * Fine-tunes a small model on this machine, through the same clients that talk to the hosted service.
 *
 * Run it with `npm run quickstart`. It needs no account and no network.
 */
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Clock, Effect, Layer } from "effect"
import { ModelInput, Progress, SamplingClient, ServiceClient, TrainingClient } from "effect-tinker"
import * as Task from "./quickstart/task.js"
import { makeScreen } from "./quickstart/terminal.js"

const model = "local/small"

/** Where the work is done. Everything below is the same for the hosted service; see the end of the output. */
const Backend = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
  Layer.provide(TinkerLocal.layer())
)

const screen = makeScreen(process.stdout, { color: process.env["NO_COLOR"] === undefined })

const show = (tokens: Iterable<number>): string => JSON.stringify(LocalTokenizer.decode(tokens).trim())

/** The model's answers: at temperature 0 the most likely ones. */
const answers = (temperature: number) => (sampler: SamplingClient.Service) =>
  Effect.forEach(Task.phrases, ([english], index) =>
    Effect.map(
      sampler.sample({
        prompt: ModelInput.fromInts(Task.question(english)),
        maxTokens: 24,
        temperature,
        seed: index,
        stop: ["\n"]
      }),
      ({ sequences }) => sequences[0]?.tokens ?? new Int32Array(0)
    ), { concurrency: "unbounded" })

const supervised = Effect.gen(function*() {
  const steps = 32
  yield* screen.heading("1. Learning from examples: seven phrases in Pig Latin")
  const lessons = yield* Task.lessons
  const before = yield* Effect.flatMap(SamplingClient.make({ baseModel: model }), answers(1))
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 32, seed: 1 })
  const progress = yield* Progress.make({ totalSteps: steps, render: screen.progress("  training") })
  const losses: Array<number> = []
  for (let step = 1; step <= steps; step++) {
    const pass = yield* training.forwardBackward(lessons, "cross_entropy")
    yield* training.optimStep({ learningRate: 4e-4 })
    const { metrics } = yield* progress.await(pass)
    losses.push((metrics["loss:sum"] ?? NaN) / Task.answerTokens)
    yield* progress.step({ "loss per token": losses.at(-1) ?? NaN }, { tokens: Task.lessonTokens })
  }
  yield* progress.end
  yield* screen.chart(losses, (value) => value.toFixed(1))
  yield* screen.line()
  const saved = yield* Effect.flatten(training.saveWeightsForSampler("pig-latin"))
  const after = yield* Effect.flatMap(SamplingClient.make({ modelPath: saved.path }), answers(0))
  for (const [index, [english, pigLatin]] of Task.phrases.entries()) {
    const right = LocalTokenizer.decode(after[index] ?? []).trim() === pigLatin
    yield* screen.line(
      `  ${english.padEnd(14)} before ${show(before[index] ?? []).slice(0, 26).padEnd(27)}` +
        `after ${show(after[index] ?? [])}${right ? "" : ` (expected ${JSON.stringify(pigLatin)})`}`
    )
  }
  return training
})

const reinforced = Effect.gen(function*() {
  const rounds = 15
  yield* screen.heading("2. Learning from reward: the more vowels, the better")
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 32, seed: 2 })
  const rewards: Array<number> = []
  let last = ""
  const progress = yield* Progress.make({ totalSteps: rounds, render: screen.progress("  training", () => last) })
  for (let round = 1; round <= rounds; round++) {
    const { path } = yield* Effect.flatten(training.saveWeightsForSampler(`vowels-${round}`))
    const sampler = yield* SamplingClient.make({ modelPath: path })
    const { sequences } = yield* sampler.sample({
      prompt: ModelInput.fromInts(Task.opening),
      numSamples: 32,
      maxTokens: 12,
      stop: [],
      seed: round
    })
    const scores = sequences.map(({ tokens }) => Task.reward(tokens))
    const better = Task.advantages(scores)
    const batch = yield* Effect.forEach(sequences, (sequence, i) => Task.experience(sequence, better[i] ?? 0))
    const pass = yield* training.forwardBackward(batch, "importance_sampling")
    yield* training.optimStep({ learningRate: 5e-4 })
    yield* progress.await(pass)
    rewards.push(scores.reduce((sum, score) => sum + score, 0) / scores.length)
    last = show(sequences[0]?.tokens ?? [])
    yield* progress.step({ reward: rewards.at(-1) ?? NaN })
  }
  yield* progress.end
  yield* screen.chart(rewards, (value) => value.toFixed(1))
})

const resumed = (training: TrainingClient.Service) =>
  Effect.gen(function*() {
    yield* screen.heading("3. Saving and coming back")
    const lessons = yield* Task.lessons
    const loss = (client: TrainingClient.Service) =>
      Effect.map(
        Effect.flatten(client.forward(lessons, "cross_entropy")),
        ({ metrics }) => ((metrics["loss:sum"] ?? NaN) / Task.answerTokens).toFixed(4)
      )
    const { path } = yield* Effect.flatten(training.saveState("quickstart"))
    const again = yield* TrainingClient.makeFromState({ path, withOptimizer: true })
    yield* screen.line(`  ${path}`)
    yield* screen.line(`  loss per token before saving ${yield* loss(training)}, after loading ${yield* loss(again)}`)
    const sampler = yield* Effect.flatten(again.saveWeightsForSampler("quickstart"))
    const [first] = yield* Effect.flatMap(SamplingClient.make({ modelPath: sampler.path }), answers(0))
    yield* screen.line(`  asked for "${Task.phrases[0]?.[0] ?? ""}", it still answers ${show(first ?? [])}`)
  })

const hosted = `
The same program runs on the hosted service. Change three things in examples/quickstart.ts:
  - the backend: ServiceClient.layerEnv() with NodeTinker.layer from effect-tinker/NodeTinker, and TINKER_API_KEY in the environment;
  - the model: one of those the service offers, instead of ${model};
  - the tokenizer: that model's own, from @effect-tinker/tokenizer, instead of LocalTokenizer.
And take its learning rates: large models want other ones than this small one.`

const program = Effect.gen(function*() {
  const start = yield* Clock.currentTimeMillis
  yield* screen.line(`Fine-tuning ${model} on this machine: no account, no network.`)
  const training = yield* supervised
  yield* reinforced
  yield* resumed(training)
  const seconds = ((yield* Clock.currentTimeMillis) - start) / 1000
  yield* screen.line(`\nDone in ${seconds.toFixed(1)} s.`)
  yield* screen.line(hosted)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(Backend)))
