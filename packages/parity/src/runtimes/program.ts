/**
 * What every runtime is asked to do, with nothing of Node's own: train a little, sample, fail, give up. It prints what
 * came of it as JSON.
 */
import { TinkerError } from "effect-tinker"
import { fromTokens, Tinker } from "effect-tinker/Promise"

const tag = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "none",
    (error: unknown) =>
      TinkerError.isTinkerError(error) ? error._tag : error instanceof Error ? error.name : String(error)
  )

const main = async (baseUrl: string) => {
  await using tinker = await Tinker.connect({ baseUrl, apiKey: "tml-runtimes" })
  const training = await tinker.createLoraTrainingClient({ baseModel: "local/tiny", rank: 8, seed: 1 })
  const batch = [fromTokens([72, 101, 108, 108, 111, 10])]
  const losses: Array<Promise<number | undefined>> = []
  for (let step = 0; step < 5; step++) {
    losses.push(training.forwardBackward(batch, "cross_entropy").then(({ metrics }) => metrics["loss:sum"]))
    training.optimStep({ learningRate: 5e-4 })
  }
  const sampler = await training.saveWeightsAndGetSamplingClient()
  const lengths: Array<number> = []
  const requests = [1, 2, 3].map((maxTokens) => ({ prompt: [72], maxTokens, stop: [], seed: 1 }))
  for await (const { response } of sampler.sampleMany(requests)) {
    lengths.push(response?.sequences[0]?.tokens.length ?? 0)
  }
  const { sequences } = await sampler.sample({ prompt: [72, 101], maxTokens: 6, temperature: 0, stop: [] })
  return {
    losses: (await Promise.all(losses)).map((loss) => loss?.toFixed(5)),
    tokens: Array.from(sequences[0]?.tokens ?? []),
    lengths: lengths.sort(),
    refused: await tag(tinker.rest.getTrainingRun("none")),
    aborted: await tag(sampler.sample({ prompt: [72], signal: AbortSignal.abort() }))
  }
}

main(process.argv[2] ?? "").then((result) => console.log(JSON.stringify(result)))
