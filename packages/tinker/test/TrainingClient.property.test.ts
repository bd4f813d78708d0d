import { describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { atOnce, check, plan } from "./utils/trainingProperty.js"

/*
 * Random interleavings of starts, failures, retries, delays and interruptions on several models, against a server that
 * records. `TINKER_TEST_RUNS=10000` for the full count.
 */
const runs = Number(process.env["TINKER_TEST_RUNS"] ?? "40")

describe("TrainingClient", () => {
  it.live.prop(
    `G1 G2 G3 G4 hold in ${runs} random runs of at least 20 operations`,
    { plan },
    ({ plan }) => Effect.scoped(atOnce(check(plan))),
    { fastCheck: { numRuns: runs, endOnFailure: true }, timeout: 3_600_000 }
  )
})
