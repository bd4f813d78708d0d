/**
 * Events from below the clients, for telemetry, metrics and progress to subscribe to.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as MetricLabel from "effect/MetricLabel"
import * as Stream from "effect/Stream"
import * as Metrics from "../../Metrics.js"
import type * as ModelInput from "../../ModelInput.js"
import type * as RetryPolicy from "../../RetryPolicy.js"
import type * as TinkerError from "../../TinkerError.js"

// -----------------------------------------------------------------------------
// The latest state of something, for any number of readers. Publishing is synchronous and never waits: each reader buffers
// the newest states only, and a slow one skips.
// -----------------------------------------------------------------------------

interface Latest<A> {
  readonly push: (state: A) => void
  /** Ends all streams, including those started later, after the current state. */
  readonly end: () => void
  /** The current state, then each as it comes. */
  readonly stream: (current: Effect.Effect<A>) => Stream.Stream<A>
}

/** @internal */
export const makeLatest = <A>(): Latest<A> => {
  const readers = new Set<{ readonly push: (state: A) => void; readonly end: () => void }>()
  let ended = false
  return {
    push: (state) => {
      for (const reader of readers) reader.push(state)
    },
    end: () => {
      ended = true
      for (const reader of readers) reader.end()
      readers.clear()
    },
    stream: (current) =>
      Stream.asyncPush<A>((emit) =>
        Effect.acquireRelease(
          Effect.map(current, (state) => {
            emit.single(state)
            if (ended) emit.end()
            const reader = { push: emit.single, end: emit.end }
            readers.add(reader)
            return reader
          }),
          (reader) => Effect.sync(() => readers.delete(reader))
        ), { bufferSize: 16, strategy: "sliding" })
  }
}

// -----------------------------------------------------------------------------
// Metric hooks, looked up once, so that counting is an addition and not an Effect.
// -----------------------------------------------------------------------------

type Update = (input: number) => void

const none: ReadonlyArray<never> = []

/** One of a metric for each value of a tag. A metric finds its hook by the identity of the tags. */
const tagged = <Type, Out>(metric: Metric.Metric<Type, number, Out>, tag: string): (value: string) => Update => {
  const known = new Map<string, Update>()
  return (value) => {
    let found = known.get(value)
    if (found === undefined) {
      const tags = [MetricLabel.make(tag, value)]
      found = (input) => metric.unsafeUpdate(input, tags)
      known.set(value, found)
    }
    return found
  }
}

const requests = tagged(Metrics.requests, "endpoint")
const bytesSent = tagged(Metrics.bytesSent, "endpoint")
const bytesReceived = tagged(Metrics.bytesReceived, "endpoint")
const retries = tagged(Metrics.retries, "endpoint")
const backoffTime = tagged(Metrics.backoffTime, "endpoint")
const inFlights = tagged(Metrics.inFlight, "pool")
const queueWaits = tagged(Metrics.queueWait, "queue")
const operationTimes = tagged(Metrics.operationTime, "operation")
const tokensIns = tagged(Metrics.tokensIn, "operation")

/** @internal */
export const sent = (endpoint: string, bytes: number): void => {
  requests(endpoint)(1)
  if (bytes > 0) bytesSent(endpoint)(bytes)
}

/** @internal */
export const received = (endpoint: string, bytes: number): void => bytesReceived(endpoint)(bytes)

/**
 * The gauge of a pool: called whenever its number of requests in flight changes.
 *
 * @internal
 */
export const inFlight: (pool: string) => (count: number) => void = inFlights

/** @internal */
export const waited = (queue: "turn" | "dispatch", millis: number): void => queueWaits(queue)(millis)

/** @internal */
export const finished = (operation: string, millis: number): void => operationTimes(operation)(millis)

/** @internal */
export const stepped = (millis: number): void => Metrics.stepTime.unsafeUpdate(millis, none)

/** @internal */
export const tokensIn = (operation: string, count: number): void => tokensIns(operation)(count)

/** @internal */
export const tokensOut = (count: number): void => Metrics.tokensOut.unsafeUpdate(count, none)

/**
 * Positions an input takes; chunks of unknown length count as 0.
 *
 * @internal
 */
export const lengthOf = (input: ModelInput.ModelInput): number => {
  let total = 0
  for (const chunk of input.chunks) total += chunk.length ?? 0
  return total
}

/**
 * Failures reported to observers, counted.
 *
 * @internal
 */
export const listener: Listener = (event) => {
  switch (event._tag) {
    case "AttemptFailed":
      Metric.tagged(Metric.tagged(Metrics.failures, "endpoint", event.endpoint), "error", event.error._tag)
        .unsafeUpdate(1, none)
      break
    case "RetryScheduled":
      retries(event.endpoint)(1)
      backoffTime(event.endpoint)(event.delay)
      break
  }
}

// -----------------------------------------------------------------------------
// Observers.
// -----------------------------------------------------------------------------

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
    /** When waiting will stop. */
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
    /** Failure of the result of an accepted operation, retried or not. */
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
  /** False while no listener wants traffic: then `Sent` and `Received` need not be built. */
  readonly active: () => boolean
  readonly emit: Listener
  readonly add: (listener: Listener, options?: Interest) => () => void
}

/**
 * Which events a listener receives.
 *
 * @internal
 */
export interface Interest {
  /** Whether it receives every request and response too. Defaults to true. */
  readonly traffic?: boolean | undefined
}

/** @internal */
export const make = (initial: Listener | undefined): Observers => {
  let listeners: ReadonlyArray<Listener> = initial === undefined ? [] : [initial]
  let activeListeners = listeners.length
  return {
    active: () => activeListeners > 0,
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
      activeListeners += weight
      return () => {
        if (!present) return
        present = false
        activeListeners -= weight
        listeners = listeners.filter((other) => other !== listener)
      }
    }
  }
}

/**
 * Reports the failure of an operation to the observers.
 *
 * @internal
 */
export const reported = <A, E extends TinkerError.TinkerError, R>(
  emit: Listener,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.tapError(self, (error) => Effect.sync(() => emit({ _tag: "OperationFailed", error })))
