/**
 * What happens below the clients, as events: telemetry, metrics and progress hang on here, so that nothing below them
 * has to know they exist.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as TinkerError from "../TinkerError.js"

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
    /** Something a client wants reported: failures of futures, of whole samples, and user-level log events. */
    readonly _tag: "Custom"
    readonly name: string
    readonly severity: "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL"
    readonly data: Readonly<Record<string, unknown>>
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
  /** False while nobody listens: then events need not be built. */
  readonly active: () => boolean
  readonly emit: Listener
  readonly add: (listener: Listener) => () => void
}

/** @internal */
export const make = (initial: Listener | undefined): Observers => {
  let listeners: ReadonlyArray<Listener> = initial === undefined ? [] : [initial]
  return {
    active: () => listeners.length > 0,
    emit: (event) => {
      for (const listener of listeners) {
        try {
          listener(event)
        } catch {
          // see above
        }
      }
    },
    add: (listener) => {
      listeners = [...listeners, listener]
      return () => {
        listeners = listeners.filter((other) => other !== listener)
      }
    }
  }
}
