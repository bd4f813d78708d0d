/**
 * Direct preference optimisation with a loss of one's own: of two answers, the chosen one becomes likelier than the
 * rejected one, relative to the model as it was.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import {
  Autodiff,
  CustomLoss,
  Datum,
  ModelInput,
  Objectives,
  TensorData,
  TinkerFuture,
  TrainingClient
} from "effect-tinker"

const model = "local/small"
const learningRate = 4e-4

const prompt = "Guest: I am hungry.\nCook:"

const pairs: ReadonlyArray<readonly [chosen: string, rejected: string]> = [
  [" Please sit down.", " Go away."],
  [" Have some soup.", " Not my fault."]
]

/**
 * The loss: a function from the log probabilities of a batch to one number. Each chosen answer is followed by its
 * rejected one. It is differentiated here and sent as the weights of a cross entropy with the same gradient.
 */
const preferChosen = (reference: ReadonlyArray<ReadonlyArray<number>>): CustomLoss.CustomLoss => (data, logprobs) => {
  const answer = (i: number): Objectives.Preference => ({
    logprobs: logprobs[i] ?? Autodiff.constant(0),
    reference: reference[i] ?? 0,
    weights: data[i] === undefined ? 0 : CustomLoss.input(data[i], "weights")
  })
  const terms = pairs.map((_, n) => Objectives.dpo({ chosen: answer(2 * n), rejected: answer(2 * n + 1), beta: 0.2 }))
  return {
    loss: Autodiff.mean(Autodiff.stack(terms.map(({ loss }) => loss))),
    metrics: { margin: Autodiff.toNumber(Autodiff.mean(Autodiff.stack(terms.map(({ margin }) => margin)))) }
  }
}

const program = Effect.gen(function*() {
  const training = yield* TrainingClient.makeLora({ baseModel: model, rank: 32, seed: 1 })
  const { renderer: { tokenizer } } = yield* Chat.forModel(training)
  const adam = { learningRate }

  const lead = tokenizer.encode(prompt)
  const data = yield* Effect.forEach(pairs.flat(), (text) => {
    const tokens = [...lead, ...tokenizer.encode(`${text}\n`)]
    return Datum.fromTokens(tokens, { weights: tokens.map((_, i) => i < lead.length ? 0 : 1) })
  })
  const speak = Effect.gen(function*() {
    const sampler = yield* training.saveWeightsAndGetSamplingClient()
    const { sequences } = yield* sampler.sample({
      prompt: ModelInput.fromInts(lead),
      numSamples: 6,
      maxTokens: 20,
      stop: ["\n"],
      seed: 7
    })
    return sequences.map(({ tokens }) => tokenizer.decode(tokens).trim()).join(" | ")
  })

  // Both kinds of answer are learned first, as a model that was trained on everything knows both.
  for (let n = 0; n < 40; n++) yield* training.trainStep(data, "cross_entropy", adam).pipe(TinkerFuture.await)
  yield* Console.log(`before: ${yield* speak}`)

  // The reference is the model as it is now.
  const { lossFnOutputs } = yield* training.forward(data, "cross_entropy").pipe(TinkerFuture.await)
  const reference = lossFnOutputs.map(({ logprobs }) => logprobs === undefined ? [] : TensorData.toArray(logprobs))
  const loss = preferChosen(reference)

  for (let n = 1; n <= 24; n++) {
    const pass = yield* training.forwardBackwardCustom(data, loss)
    const update = yield* training.optimStep({ learningRate: adam.learningRate / 4 })
    const { metrics } = yield* pass
    yield* update
    if (n === 1 || n % 4 === 0) {
      yield* Console.log(`step ${n}: loss ${metrics["loss:sum"]?.toFixed(3)}, margin ${metrics["margin"]?.toFixed(2)}`)
    }
  }
  yield* Console.log(`after: ${yield* speak}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
