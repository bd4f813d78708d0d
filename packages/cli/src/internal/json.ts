/**
 * Values of the SDK as the JSON the wire has for them: snake case, ISO times.
 *
 * @since 0.1.0
 */
import { Checkpoint } from "effect-tinker/Checkpoint"
import { TrainingRun } from "effect-tinker/TrainingRun"
import * as Schema from "effect/Schema"

/** @internal */
export const checkpoint = Schema.encodeSync(Checkpoint)

/** @internal */
export const trainingRun = Schema.encodeSync(TrainingRun)
