/**
 * What a Tinker-compatible server must do, and what it may. The checks run in this order and build on each other.
 *
 * @since 0.1.0
 */
import { errors } from "./errors.js"
import { ending, rest } from "./rest.js"
import { sampling } from "./sampling.js"
import { startup } from "./startup.js"
import type { Check } from "./support.js"
import { checkpoints, training } from "./training.js"

/** @internal */
export const checks: ReadonlyArray<Check> = [
  ...startup,
  ...training,
  ...checkpoints,
  ...sampling,
  ...errors,
  ...rest,
  ...ending
]
