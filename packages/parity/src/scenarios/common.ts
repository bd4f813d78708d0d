/**
 * What scenarios share; its twin is `python/scenarios/connection.py`.
 */
import { Effect, Either } from "effect"
import { Datum, ModelInput, SamplingClient, TrainingClient } from "effect-tinker"
import type { Scenario } from "./Scenario.js"

export const model = "local/tiny"

/** A scenario by the name of its twin. */
export const scenario = (
  name: string,
  run: Scenario["run"],
  options: Omit<Scenario, "name" | "run"> = {}
): Scenario => ({ name, run, ...options })

export const training = TrainingClient.makeLora({ baseModel: model, rank: 8, seed: 1 })

export const sampling = SamplingClient.make({ baseModel: model })

export const bytes = (text: string): Array<number> => Array.from(new TextEncoder().encode(text))

/** Next-token prediction over the bytes of a text. */
export const datum = (text: string): Datum.Datum => Either.getOrThrow(Datum.fromTokens(bytes(text)))

export const prompt = (text = "dog:"): ModelInput.ModelInput => ModelInput.fromInts(bytes(text))

export const few = { maxTokens: 2, temperature: 0 } as const

/** Sends both, then waits for both. */
export const both = <A, B, E, R>(
  first: TrainingClient.Operation<A, E, R>,
  second: TrainingClient.Operation<B, E, R>
) =>
  Effect.gen(function*() {
    const [a, b] = [yield* first, yield* second]
    yield* a
    yield* b
  })
