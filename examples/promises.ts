/**
 * The first program again, in plain async code: no Effect to be seen.
 */
import { LocalTokenizer } from "@effect-tinker/local"
import { connectLocal } from "@effect-tinker/local/Promise"
import { TinkerError } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { fromTokens, Tinker } from "effect-tinker/Promise"

const { EXAMPLE_MODEL: baseModel = "local/tiny", TINKER_BASE_URL } = process.env

const main = async () => {
  await using tinker = TINKER_BASE_URL === undefined
    ? await connectLocal()
    : await Tinker.connect({ layer: NodeTinker.layerFromEnv() })
  const training = await tinker.createLoraTrainingClient({ baseModel, rank: 16, seed: 1 })
  const lesson = fromTokens(LocalTokenizer.encode("Tinker trains models."))

  for (let step = 1; step <= 40; step++) {
    const pass = training.forwardBackward([lesson], "cross_entropy") // on its way
    const stepped = training.optimStep({ learningRate: 5e-4 }) // right behind it
    const { metrics } = await pass
    await stepped
    if (step % 10 === 0) console.log(`step ${step}: loss ${metrics["loss:sum"]?.toFixed(2)}`)
  }

  const sampler = await training.saveWeightsAndGetSamplingClient()
  const prompts = ["Tinker", "Tinker trains"].map((text) => LocalTokenizer.encode(text))
  const requests = prompts.map((prompt) => ({ prompt, maxTokens: 21 - prompt.length, temperature: 0 }))
  for await (const { index, response } of sampler.sampleMany(requests)) {
    console.log(LocalTokenizer.decode([...prompts[index] ?? [], ...response?.sequences[0]?.tokens ?? []]))
  }

  try {
    await tinker.rest.getCheckpoint("tinker://nobody/weights/nothing", { signal: AbortSignal.timeout(10_000) })
  } catch (error) {
    if (!TinkerError.isTinkerError(error)) throw error
    console.log(`refused: ${error._tag}`)
  }
}

await main()
