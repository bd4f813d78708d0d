/**
 * From how an operation ended to what its future says.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type { EngineError } from "../../EngineError.js"
import type { StorageFailed } from "../../Storage.js"
import type { HttpFailure } from "./failure.js"
import type { Outcome } from "./futures.js"

/** @internal */
export type OperationError = EngineError | StorageFailed | HttpFailure

const failed = (error: string, category: "user" | "server"): Outcome => ({ _tag: "Failed", error, category })

const fromError = (error: OperationError): Outcome => {
  switch (error._tag) {
    case "StorageFailed":
      return failed(error.message, "server")
    case "HttpFailure":
      return failed(error.message, error.status < 500 ? "user" : "server")
    default:
      return failed(error.message, "user")
  }
}

/** Runs an operation to its outcome; only interruption gets through. @internal */
export const toOutcome = (operation: Effect.Effect<Outcome, OperationError>): Effect.Effect<Outcome> =>
  operation.pipe(
    Effect.catchAll((error) => Effect.succeed(fromError(error))),
    Effect.catchAllCause((cause) =>
      Cause.isInterrupted(cause)
        ? Effect.failCause(cause)
        : Effect.as(
          Effect.logError("An operation died", cause),
          failed("Internal error; the log of the backend says more", "server")
        )
    )
  )
