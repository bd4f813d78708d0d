/**
 * The beat that keeps a session alive, and what it says about the session.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as SubscriptionRef from "effect/SubscriptionRef"
import * as Api from "../../Api.js"
import type { SessionId } from "../../Id.js"
import { SessionHeartbeatRequest } from "../../Session.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import type * as ApiClient from "../transport/apiClient.js"

/** @internal */
export type Health =
  | { readonly _tag: "NotStarted" }
  | { readonly _tag: "Alive" }
  | { readonly _tag: "Failing"; readonly duration: Duration.Duration; readonly error: TinkerError.TinkerError }
  | { readonly _tag: "Ended" }

const period = Duration.seconds(10)

/** The first missed beat may be chance; from the second on we speak, at most once a minute. */
const warnAfter = 15_000
const warnEvery = 60_000

/**
 * Beats until the server says that the session has ended.
 *
 * @internal
 */
export const run = Effect.fnUntraced(function*(
  api: ApiClient.Service,
  sessionId: SessionId,
  health: SubscriptionRef.SubscriptionRef<Health>
) {
  const beat = api.call(Api.heartbeat, new SessionHeartbeatRequest({ sessionId }), {
    from: { module: "ServiceClient", method: "heartbeat" }
  })
  let alive = yield* Clock.currentTimeMillis
  let warned = Number.NEGATIVE_INFINITY
  let failing = false
  while (true) {
    yield* Effect.sleep(period)
    const answer = yield* Effect.either(beat)
    const now = yield* Clock.currentTimeMillis
    if (Either.isRight(answer)) {
      if (warned > alive) yield* Effect.logInfo(`Session ${sessionId} is reachable again`)
      if (failing) yield* SubscriptionRef.set(health, { _tag: "Alive" })
      failing = false
      alive = now
      continue
    }
    const error = answer.left
    if (error.status === 410) {
      yield* SubscriptionRef.set(health, { _tag: "Ended" })
      return yield* Effect.logInfo(`Session ${sessionId} has ended: no more heartbeats`)
    }
    failing = true
    yield* SubscriptionRef.set(health, { _tag: "Failing", duration: Duration.millis(now - alive), error })
    if (now - alive > warnAfter && now - warned >= warnEvery) {
      warned = now
      yield* Effect.logWarning(
        `Session ${sessionId}: no heartbeat got through for ${
          Duration.format(Duration.seconds(Math.round((now - alive) / 1000)))
        }; the service will end the session if this goes on`,
        error.message
      )
    }
  }
}, (beating) =>
  // A beat every ten seconds is noise among spans.
  Effect.withTracerEnabled(beating, false).pipe(
    Logs.of("Heartbeat")
  ))
