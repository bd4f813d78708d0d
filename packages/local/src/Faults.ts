/**
 * Faults on request: the embedded backend misbehaves by rule and seed, so that a program's answer to trouble can be
 * tested.
 *
 * @since 0.1.0
 */
import type * as Api from "effect-tinker/wire/Api"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"

/**
 * Kind of fault. `when` says whether the request is carried out before its answer is lost.
 *
 * @since 0.1.0
 * @category models
 */
export type Fault =
  /** Another answer than the right one. */
  | {
    readonly _tag: "Status"
    readonly status: number
    /** Sent as JSON; bytes are sent as they are. Defaults to a sentence that says it was injected. */
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, string>> | undefined
    /** Defaults to `before`. */
    readonly when?: "before" | "after" | undefined
  }
  /** The request waits before anyone looks at it. */
  | { readonly _tag: "Delay"; readonly duration: Duration.DurationInput }
  /** The connection breaks. */
  | { readonly _tag: "Drop"; readonly when: "before" | "after" }
  /** The connection breaks after so many bytes of the answer's body. */
  | { readonly _tag: "Truncate"; readonly bytes: number }

/**
 * When something goes wrong.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rule {
  /** The endpoints it is for, by their names in `Api`. Defaults to all. */
  readonly endpoints?: ReadonlyArray<Api.Name> | undefined
  /** How often it strikes, 0 to 1. Defaults to 1. */
  readonly probability?: number | undefined
  /** How many matching requests pass untouched first. Defaults to 0. */
  readonly skip?: number | undefined
  /** How many times it strikes at most. Defaults to no limit. */
  readonly times?: number | undefined
  readonly fault: Fault
}

/**
 * The faults of one backend, and what they did.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** Fault of a request of this endpoint. */
  readonly decide: (endpoint: string) => Effect.Effect<ReadonlyArray<Fault>>
  /** Replaces the rules and starts counting again. */
  readonly set: (rules: ReadonlyArray<Rule>) => Effect.Effect<void>
  /** How often each endpoint was struck. */
  readonly struck: Effect.Effect<ReadonlyMap<string, number>>
}

/**
 * The faults of a backend. By default there are none.
 *
 * @since 0.1.0
 * @category services
 */
export class Faults extends Context.Reference<Faults>()("@effect-tinker/local/Faults", {
  defaultValue: (): Service => ({
    decide: () => Effect.succeed([]),
    set: () => Effect.void,
    struck: Effect.succeed(new Map())
  })
}) {}

/**
 * Faults by rules. The same seed and the same requests give the same faults.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options?: {
  /** Defaults to none. */
  readonly rules?: ReadonlyArray<Rule> | undefined
  /** Defaults to 0. */
  readonly seed?: number | undefined
}): Effect.Effect<Service> =>
  Effect.sync(() => {
    const random = Random.make(options?.seed ?? 0)
    const struck = new Map<string, number>()
    const prepare = (rules: ReadonlyArray<Rule>) => rules.map((rule) => ({ rule, seen: 0, strikes: 0 }))
    let states = prepare(options?.rules ?? [])
    return {
      decide: Effect.fnUntraced(function*(endpoint) {
        const faults: Array<Fault> = []
        for (const state of states) {
          const { endpoints, fault, probability = 1, skip = 0, times = Infinity } = state.rule
          if (endpoints !== undefined && !endpoints.some((name) => name === endpoint)) continue
          if (state.seen++ < skip || state.strikes >= times) continue
          if (probability < 1 && (yield* random.next) >= probability) continue
          state.strikes++
          faults.push(fault)
        }
        if (faults.length > 0) struck.set(endpoint, (struck.get(endpoint) ?? 0) + 1)
        return faults
      }),
      set: (rules) => Effect.sync(() => void (states = prepare(rules))),
      struck: Effect.sync(() => new Map(struck))
    }
  })

/**
 * Faults by rules, for the backend this layer is provided to.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Parameters<typeof make>[0]): Layer.Layer<never> => Layer.effect(Faults, make(options))
