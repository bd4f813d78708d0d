import { Checkpoint, Optimizer } from "effect-tinker"
import { SamplingParams } from "effect-tinker/wire"

const params = new SamplingParams.SamplingParams({ maxTokens: 64, temperature: 0.7, stop: ["\n\n"] })
const adam = new Optimizer.AdamParams({ learningRate: 1e-5 }) // beta1 0.9, beta2 0.95, eps 1e-12, no decay, no clipping
const path = Checkpoint.parsePath("tinker://run/sampler_weights/final") // Either<ParsedPath, InvalidInput>

export { adam, params, path }
