import { Console, Effect, Either, Stream } from "effect"
import type { SamplingClient } from "effect-tinker"
import { ModelInput } from "effect-tinker"

const draw = (sampler: SamplingClient.Service, prompts: ReadonlyArray<ReadonlyArray<number>>) =>
  Effect.gen(function*() {
    // one prompt: all its answers, or a TinkerError
    const { sequences } = yield* sampler.sample({
      prompt: ModelInput.fromInts(prompts[0] ?? []),
      numSamples: 4,
      maxTokens: 64,
      temperature: 0.7,
      stop: ["\n"]
    })
    yield* Console.log(sequences.map(({ stopReason, tokens }) => `${tokens.length} tokens, ${stopReason}`))

    // any number of them: pulled as places get free, answered as they end, and one that fails stops nothing
    const requests = Stream.fromIterable(prompts).pipe(
      Stream.map((prompt) => ({ prompt: ModelInput.fromInts(prompt), maxTokens: 64 }))
    )
    yield* Stream.runForEach(
      sampler.sampleMany(requests, { concurrency: 200 }),
      ({ index, result }) =>
        Console.log(index, Either.isRight(result) ? result.right.sequences.length : result.left._tag)
    )
  })

export { draw }
