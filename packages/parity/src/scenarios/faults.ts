/**
 * What clients do when a server does not do what they ask; its twin is `python/scenarios/faults.py`.
 */
import type { Faults } from "@effect-tinker/local"
import { Effect } from "effect"
import { few, prompt, sampling, scenario, training } from "./common.js"

const step = Effect.flatMap(training, (training) => Effect.flatten(training.optimStep({ learningRate: 1e-4 })))

const sample = Effect.flatMap(sampling, (sampling) => sampling.sample({ prompt: prompt(), ...few }))

/** The first requests of an endpoint are answered so. */
const first = (
  times: number,
  endpoint: string,
  status: number,
  rest: Omit<Faults.Rule["fault"] & { _tag: "Status" }, "_tag" | "status"> = {}
): Faults.Rule => ({
  endpoints: [endpoint],
  times,
  fault: { _tag: "Status", status, ...rest }
})

export const faults = [
  scenario("submit_500_twice", step, { faults: [first(2, "optimStep", 500)] }),
  scenario("sample_429_twice", sample, { faults: [first(2, "asample", 429)] })
]
