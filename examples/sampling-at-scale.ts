/**
 * Many samples from one client: pulled as places get free, answered as they end, failures among the answers.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Either, Stream } from "effect"
import { ModelInput, SamplerHandle, SamplingClient } from "effect-tinker"

const model = "local/small"

const total = 400

const program = Effect.gen(function*() {
  const sampler = yield* SamplingClient.make({ baseModel: model })

  // A stream of requests, made when they are wanted: no list of a million prompts in memory.
  const requests = Stream.range(1, total).pipe(
    Stream.map((n): SamplingClient.SampleOptions => ({
      prompt: ModelInput.fromInts([72, 105, 32 + (n % 64)]),
      maxTokens: n === 200 ? -1 : 4, // one of them is wrong
      stop: [],
      seed: n
    }))
  )
  const sum = yield* sampler.sampleMany(requests, { concurrency: 100 }).pipe(
    Stream.runFold({ answered: 0, failed: 0, tokens: 0 }, (sum, { result }) =>
      Either.match(result, {
        onLeft: () => ({ ...sum, failed: sum.failed + 1 }),
        onRight: ({ sequences }) => ({
          ...sum,
          answered: sum.answered + 1,
          tokens: sum.tokens + sequences.reduce((n, { tokens }) => n + tokens.length, 0)
        })
      }))
  )
  yield* Console.log(`${sum.answered} answered with ${sum.tokens} tokens, ${sum.failed} failed`)

  // Where order matters and the list is short, plain Effect does it.
  const firstTokens = yield* Effect.forEach([1, 2, 3], (seed) =>
    Effect.map(
      sampler.sample({ prompt: ModelInput.fromInts([72, 105]), maxTokens: 1, seed }),
      ({ sequences }) => sequences[0]?.tokens[0]
    ), { concurrency: "unbounded" })
  yield* Console.log(`three in order: ${firstTokens.length}`)

  // Scores instead of samples: how likely the model finds each token of a text.
  const logprobs = yield* sampler.computeLogprobs(ModelInput.fromInts([72, 101, 108, 108, 111]))
  yield* Console.log(`scored ${logprobs.length} tokens, the first has none: ${Number.isNaN(logprobs[0])}`)

  // Another process samples from the same sampler with its own credentials.
  const text = SamplerHandle.toText(sampler.handle)
  const copy = yield* Effect.flatMap(SamplerHandle.fromText(text), SamplingClient.fromHandle)
  const { sequences } = yield* copy.sample({ prompt: ModelInput.fromInts([72, 105]), maxTokens: 4, stop: [] })
  yield* Console.log(`a copy from a handle of ${text.length} characters drew ${sequences[0]?.tokens.length} tokens`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
