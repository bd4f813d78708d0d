/**
 * Log lines for those who wait: the first at once, a change at once, and otherwise one a minute, however many
 * operations wait.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as QueueState from "../../QueueState.js"
import * as Logs from "../observability/logs.js"

/** @internal */
export type Report = (event: QueueState.Event) => Effect.Effect<void>

const interval = 60_000

/** A single failed poll is nothing to talk about: the next one usually works. */
const quietFailures = 1

const kindOf = (event: QueueState.Event): string => event._tag === "Queued" ? event.state : event._tag

/**
 * @param label whose operations these are
 * @internal
 */
export const make = (label: string): Report => {
  let lastKind = "active"
  let lastTime = Number.NEGATIVE_INFINITY
  return (event) => {
    if (event._tag === "Retrying" && event.attempt <= quietFailures) return Effect.void
    const kind = kindOf(event)
    if (kind === "active" && lastKind === "active") return Effect.void
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      if (kind === lastKind && now - lastTime < interval) return Effect.void
      // Many operations may disagree on their state: alternation does not lift the limit.
      if (kind !== lastKind && kind !== "active" && lastKind !== "active" && now - lastTime < interval / 10) {
        return Effect.void
      }
      lastKind = kind
      lastTime = now
      const line = `${label}: ${QueueState.describe(event)}`
      return QueueState.isPaused(event) ? Effect.logWarning(line) : Effect.logInfo(line)
    }).pipe(Logs.of("QueueState", {
      requestId: event.requestId,
      requestType: event.requestType,
      state: kind,
      elapsed: Duration.toMillis(event.elapsed)
    }))
  }
}
