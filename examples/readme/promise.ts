import * as NodeTinker from "effect-tinker/NodeTinker"
import { fromTokens, Tinker } from "effect-tinker/Promise"

await using tinker = await Tinker.connect({ layer: NodeTinker.layerFromEnv() }) // TINKER_API_KEY, TINKER_BASE_URL
const training = await tinker.createLoraTrainingClient({ baseModel: "Qwen/Qwen3-8B", rank: 32 })
const batch = [fromTokens([1, 15, 27, 2])]

for (let step = 0; step < 10; step++) {
  const pass = training.forwardBackward(batch, "cross_entropy") // not awaited: on its way
  const stepped = training.optimStep({ learningRate: 1e-4 }) // right behind it
  console.log((await pass).metrics["loss:sum"])
  await stepped
}
for await (const run of tinker.rest.trainingRuns()) console.log(run.trainingRunId)
