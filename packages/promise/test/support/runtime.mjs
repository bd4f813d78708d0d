// The clients where there is nothing of Node: connects, trains, samples, is refused and is aborted.
import { connect, fromTokens, isTinkerError } from "@effect-tinker/promise"

export const run = async (baseUrl, apiKey) => {
  const tinker = await connect({ baseUrl, apiKey })
  const training = await tinker.createLoraTrainingClient({ baseModel: "local/tiny", rank: 8, seed: 1 })
  const batch = [fromTokens([3, 1, 4, 1, 5, 9, 2, 6])]
  const losses = []
  for (let step = 0; step < 4; step++) {
    const { loss } = await training.trainStep(batch, "cross_entropy", { learningRate: 1e-3 })
    losses.push(loss.perToken)
  }
  const sampler = await training.saveWeightsAndGetSamplingClient()
  const { sequences } = await sampler.sample({ prompt: [3, 1, 4], maxTokens: 5, temperature: 0, stop: [] })
  const refused = await tinker.rest.getCheckpoint("tinker://nobody/weights/nothing").catch((error) =>
    isTinkerError(error) ? error._tag : String(error)
  )
  const aborted = await sampler.sample({ prompt: [3], signal: AbortSignal.abort() }).catch((error) => error.name)
  await tinker.close()
  return {
    fell: losses[3] < losses[0],
    tokens: Array.from(sequences[0].tokens),
    refused,
    aborted,
    node: typeof process
  }
}
