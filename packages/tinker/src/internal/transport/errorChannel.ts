/**
 * From every error the transport's type allows to those an operation can really fail with. What an operation cannot fail
 * with would be a bug of ours, so it becomes a defect instead of being hidden by a cast. Only failures pay for it.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as TinkerError from "../../TinkerError.js"

const isSampling = (error: TinkerError.TinkerError): error is TinkerError.SamplingError =>
  error._tag !== "UnobservedFailure"

const isStartup = (error: TinkerError.TinkerError): error is TinkerError.StartupError =>
  isSampling(error) && error._tag !== "BudgetExceeded"

const isRequest = (error: TinkerError.TinkerError): error is TinkerError.RequestError => {
  switch (error._tag) {
    case "RequestFailed":
    case "FutureExpired":
    case "Stuck":
      return false
    default:
      return isStartup(error)
  }
}

const narrow =
  <E extends TinkerError.TinkerError>(is: (error: TinkerError.TinkerError) => error is E) =>
  (cause: Cause.Cause<TinkerError.TinkerError>): Cause.Cause<E> =>
    Cause.flatMap(cause, (error) => is(error) ? Cause.fail(error) : Cause.die(error))

/** @internal */
export const samplingCause: (cause: Cause.Cause<TinkerError.TinkerError>) => Cause.Cause<TinkerError.SamplingError> =
  narrow(isSampling)

/** @internal */
export const startup = <A, R>(
  self: Effect.Effect<A, TinkerError.TinkerError, R>
): Effect.Effect<A, TinkerError.StartupError, R> => Effect.mapErrorCause(self, narrow(isStartup))

/** @internal */
export const request = <A, R>(
  self: Effect.Effect<A, TinkerError.TinkerError, R>
): Effect.Effect<A, TinkerError.RequestError, R> => Effect.mapErrorCause(self, narrow(isRequest))
