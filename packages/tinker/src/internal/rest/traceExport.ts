import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Api from "../../Api.js"
import type { SessionId } from "../../Id.js"
import * as TinkerError from "../../TinkerError.js"
import type { Caller } from "./caller.js"
import { module } from "./caller.js"

const method = "exportSessionTrace"

/**
 * Asks for a session's trace until it is built, has failed, or took too long.
 *
 * @internal
 */
export const exportTrace: (
  caller: Caller,
  sessionId: SessionId,
  options: {
    readonly interval?: Duration.DurationInput | undefined
    readonly timeout?: Duration.DurationInput | undefined
    readonly onPending?: ((elapsed: Duration.Duration) => Effect.Effect<void>) | undefined
  }
) => Effect.Effect<string, TinkerError.RestError | TinkerError.RequestFailed> = Effect.fnUntraced(
  function*({ call }, sessionId, options) {
    const started = yield* Clock.currentTimeMillis
    const limit = Duration.decode(options.timeout ?? "30 minutes")
    while (true) {
      const answer = yield* call(method, Api.traceExport, { sessionId })
      if (answer.status === "ready" && answer.url !== undefined) return answer.url
      if (answer.status === "failed") {
        return yield* new TinkerError.RequestFailed({
          module,
          method,
          category: "server",
          description: answer.error ?? "the trace could not be built"
        })
      }
      const elapsed = Duration.millis((yield* Clock.currentTimeMillis) - started)
      if (Duration.greaterThanOrEqualTo(elapsed, limit)) {
        return yield* new TinkerError.TimedOut({
          module,
          method,
          description: `the trace is not built after ${Duration.format(elapsed)}`
        })
      }
      yield* options.onPending?.(elapsed) ?? Effect.void
      yield* Effect.sleep(options.interval ?? "5 seconds")
    }
  }
)
