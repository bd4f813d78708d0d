/**
 * Where metrics are counted: hooks found once, so that counting is an addition and not an Effect.
 *
 * @since 0.1.0
 */
import * as Metric from "effect/Metric"
import * as Metrics from "../../Metrics.js"
import type * as ModelInput from "../../ModelInput.js"
import type * as Observer from "./observer.js"

interface Updatable {
  readonly unsafeUpdate: (input: number, extraTags: ReadonlyArray<never>) => void
}

const none: ReadonlyArray<never> = []

/** One of a metric for each value of a tag. */
const tagged = <Type, Out>(metric: Metric.Metric<Type, number, Out>, tag: string): (value: string) => Updatable => {
  const known = new Map<string, Updatable>()
  return (value) => {
    let found = known.get(value)
    if (found === undefined) {
      found = Metric.tagged(metric, tag, value)
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
  requests(endpoint).unsafeUpdate(1, none)
  if (bytes > 0) bytesSent(endpoint).unsafeUpdate(bytes, none)
}

/** @internal */
export const received = (endpoint: string, bytes: number): void => bytesReceived(endpoint).unsafeUpdate(bytes, none)

/**
 * The gauge of a pool: told whenever the number of its requests under way changes.
 *
 * @internal
 */
export const inFlight = (pool: string): (count: number) => void => {
  const gauge = inFlights(pool)
  return (count) => gauge.unsafeUpdate(count, none)
}

/** @internal */
export const waited = (queue: "turn" | "dispatch", millis: number): void => queueWaits(queue).unsafeUpdate(millis, none)

/** @internal */
export const finished = (operation: string, millis: number): void =>
  operationTimes(operation).unsafeUpdate(millis, none)

/** @internal */
export const stepped = (millis: number): void => Metrics.stepTime.unsafeUpdate(millis, none)

/** @internal */
export const tokensIn = (operation: string, count: number): void => tokensIns(operation).unsafeUpdate(count, none)

/** @internal */
export const tokensOut = (count: number): void => Metrics.tokensOut.unsafeUpdate(count, none)

/**
 * Positions an input takes, as far as it says so.
 *
 * @internal
 */
export const lengthOf = (input: ModelInput.ModelInput): number => {
  let total = 0
  for (const chunk of input.chunks) total += chunk.length ?? 0
  return total
}

/**
 * What the observers are told of failures, counted.
 *
 * @internal
 */
export const listener: Observer.Listener = (event) => {
  switch (event._tag) {
    case "AttemptFailed":
      Metric.tagged(Metric.tagged(Metrics.failures, "endpoint", event.endpoint), "error", event.error._tag)
        .unsafeUpdate(1, none)
      break
    case "RetryScheduled":
      retries(event.endpoint).unsafeUpdate(1, none)
      backoffTime(event.endpoint).unsafeUpdate(event.delay, none)
      break
  }
}
