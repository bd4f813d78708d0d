/**
 * What scenarios share; its twin is `python/scenarios/connection.py`.
 */
import type { Faults } from "@effect-tinker/local"
import { Effect, Either } from "effect"
import { Datum, ModelInput, SamplingClient, TrainingClient } from "effect-tinker"
import { type Api } from "effect-tinker/wire"
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

/** Sends one operation to a new model and waits for its result. */
export const waited = <A>(operation: (training: TrainingClient.Service) => TrainingClient.Operation<A>) =>
  Effect.flatMap(training, (training) => Effect.flatten(operation(training)))

type Status = Extract<Faults.Fault, { readonly _tag: "Status" }>

/** The first requests of an endpoint are answered so. */
export const first = (
  times: number,
  endpoint: Api.Name,
  status: number,
  rest: Omit<Status, "_tag" | "status"> = {}
): Faults.Rule => ({ endpoints: [endpoint], times, fault: { _tag: "Status", status, ...rest } })

/** The first connections to an endpoint break, before or after it did what it was asked. */
export const drop = (times: number, endpoint: Api.Name, when: "before" | "after" = "before"): Faults.Rule => ({
  endpoints: [endpoint],
  times,
  fault: { _tag: "Drop", when }
})

/** The same after some requests went well. */
export const later = (skip: number, rule: Faults.Rule): Faults.Rule => ({ ...rule, skip })
