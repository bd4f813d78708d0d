/**
 * Samples and log probabilities; its twin is `python/scenarios/sampling.py`.
 */
import { Effect } from "effect"
import { few, prompt, sampling as client, scenario } from "./common.js"

export const sampling = [
  scenario("sample_defaults", Effect.flatMap(client, (sampling) => sampling.sample({ prompt: prompt(), ...few })))
]
