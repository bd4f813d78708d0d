/**
 * What happens below the clients, as events: telemetry, metrics and progress hang on here, so that nothing below them
 * has to know they exist.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as RetryPolicy from "../../RetryPolicy.js"
import type * as TinkerError from "../../TinkerError.js"

/**
 * One event. Times are milliseconds.
 *
 * @internal
 */
export type Event =
  | { readonly _tag: "Sent"; readonly endpoint: string; readonly attempt: number; readonly bytes: number }
  | {
    readonly _tag: "Received"
    readonly endpoint: string
    readonly attempt: number
    readonly status: number
    readonly bytes: number
    readonly elapsed: number
  }
  | {
    readonly _tag: "AttemptFailed"
    readonly endpoint: string
    readonly class: RetryPolicy.Class
    readonly attempt: number
    readonly error: TinkerError.TinkerError
    /** Whether it will be tried again. */
    readonly retrying: boolean
    /** Since the call began. */
    readonly elapsed: number
  }
  | {
    readonly _tag: "RetryScheduled"
    readonly endpoint: string
    readonly attempt: number
    readonly delay: number
    readonly error: TinkerError.TinkerError
  }
  | {
    readonly _tag: "BillingPaused"
    readonly endpoint: string
    /** When the incident began. */
    readonly since: number
    /** When we shall stop waiting. */
    readonly until: number
    readonly description: string | undefined
  }
  | {
    readonly _tag: "QueueState"
    readonly requestId: string
    readonly requestType: string
    readonly state: string
    readonly reason: string | undefined
    readonly elapsed: number
  }
  | {
    /** What went wrong with the result of an accepted operation, retried or not. */
    readonly _tag: "FutureFailed"
    readonly name: string
    readonly severity: "WARNING" | "ERROR"
    readonly error: TinkerError.TinkerError
    readonly data: Readonly<Record<string, unknown>>
  }
  | {
    /** A sample as a whole failed, for the time being where it is asked for again. */
    readonly _tag: "SampleFailed"
    readonly error: TinkerError.TinkerError
    readonly retrying: boolean
    /** How often it has been asked for. */
    readonly attempt: number
    readonly elapsed: number
  }
  | {
    /** A failure that reaches a caller, once for each operation. */
    readonly _tag: "OperationFailed"
    readonly error: TinkerError.TinkerError
  }

/** @internal */
export type Listener = (event: Event) => void

/**
 * The listener given from outside; does nothing unless provided.
 *
 * @internal
 */
export class Observer extends Context.Reference<Observer>()("effect-tinker/internal/Observer", {
  defaultValue: (): { readonly listener: Listener | undefined } => ({ listener: undefined })
}) {}

/**
 * Listeners of one transport. A listener that throws is ignored: watching must not change what is watched.
 *
 * @internal
 */
export interface Observers {
  /** False while nobody wants to hear of each request: then `Sent` and `Received` need not be built. */
  readonly active: () => boolean
  readonly emit: Listener
  readonly add: (listener: Listener, options?: Interest) => () => void
}

/**
 * What a listener wants to hear.
 *
 * @internal
 */
export interface Interest {
  /** Whether it wants every request and answer as well. Defaults to true. */
  readonly traffic?: boolean | undefined
}

/** @internal */
export const make = (initial: Listener | undefined): Observers => {
  let listeners: ReadonlyArray<Listener> = initial === undefined ? [] : [initial]
  let curious = listeners.length
  return {
    active: () => curious > 0,
    emit: (event) => {
      for (const listener of listeners) {
        try {
          listener(event)
        } catch {
          // see above
        }
      }
    },
    add: (listener, interest) => {
      const weight = interest?.traffic === false ? 0 : 1
      let present = true
      listeners = [...listeners, listener]
      curious += weight
      return () => {
        if (!present) return
        present = false
        curious -= weight
        listeners = listeners.filter((other) => other !== listener)
      }
    }
  }
}

/**
 * An operation whose failure reaches a caller, told to the observers on its way.
 *
 * @internal
 */
export const reported = <A, E extends TinkerError.TinkerError, R>(
  emit: Listener,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.tapError(self, (error) => Effect.sync(() => emit({ _tag: "OperationFailed", error })))
