import { checkpoints } from "./checkpoints.js"
import { faults } from "./faults.js"
import { rest } from "./rest.js"
import { sampling } from "./sampling.js"
import type { Scenario } from "./Scenario.js"
import { startup } from "./startup.js"
import { training } from "./training.js"

/** Every scenario. */
export const scenarios: ReadonlyArray<Scenario> = [
  ...startup,
  ...training,
  ...checkpoints,
  ...sampling,
  ...rest,
  ...faults
]
