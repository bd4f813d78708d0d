/**
 * Everything that can go wrong, cut by what it means to the caller: flat tagged errors for `Effect.catchTag`, each with
 * the operation that failed, the HTTP status, the request id, a retry hint and the cause.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Internal from "./internal/wire/tinkerError.js"
import { MalformedResponse, RateLimited, TimedOut, TransportFailed, Unavailable } from "./TinkerError/Exchange.js"
import { FutureExpired, RequestFailed, Stuck, UnobservedFailure } from "./TinkerError/Operation.js"
import { Authentication, BadRequest, BillingBlocked, Conflict, NotFound, PermissionDenied } from "./TinkerError/Refused.js"
import { BudgetExceeded, Closed, CredentialCommandFailed, InvalidInput, MalformedCredential, MissingCredential } from "./TinkerError/Unsent.js"

/**
 * @since 0.1.0
 */
export * from "./TinkerError/Exchange.js"

/**
 * @since 0.1.0
 */
export * from "./TinkerError/Operation.js"

/**
 * @since 0.1.0
 */
export * from "./TinkerError/Refused.js"

/**
 * @since 0.1.0
 */
export * from "./TinkerError/Unsent.js"

/**
 * Unique identifier of the errors.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: typeof Internal.TypeId = Internal.TypeId

/**
 * Unique identifier of the errors.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

/**
 * Any failure of this SDK.
 *
 * @since 0.1.0
 * @category errors
 */
export const TinkerError: Schema.Union<[
  typeof Authentication,
  typeof PermissionDenied,
  typeof NotFound,
  typeof Conflict,
  typeof BadRequest,
  typeof RateLimited,
  typeof BillingBlocked,
  typeof Unavailable,
  typeof TimedOut,
  typeof TransportFailed,
  typeof MalformedResponse,
  typeof RequestFailed,
  typeof FutureExpired,
  typeof Stuck,
  typeof UnobservedFailure,
  typeof InvalidInput,
  typeof BudgetExceeded,
  typeof Closed,
  typeof MissingCredential,
  typeof MalformedCredential,
  typeof CredentialCommandFailed
]> = Schema.Union(
  Authentication,
  PermissionDenied,
  NotFound,
  Conflict,
  BadRequest,
  RateLimited,
  BillingBlocked,
  Unavailable,
  TimedOut,
  TransportFailed,
  MalformedResponse,
  RequestFailed,
  FutureExpired,
  Stuck,
  UnobservedFailure,
  InvalidInput,
  BudgetExceeded,
  Closed,
  MissingCredential,
  MalformedCredential,
  CredentialCommandFailed
)

/**
 * What any request can fail with: refused here or by the server, or no usable response.
 *
 * @since 0.1.0
 * @category errors
 */
export type RequestError =
  | Authentication
  | PermissionDenied
  | NotFound
  | Conflict
  | BadRequest
  | RateLimited
  | BillingBlocked
  | Unavailable
  | TimedOut
  | TransportFailed
  | MalformedResponse
  | InvalidInput
  | Closed
  | MissingCredential
  | MalformedCredential
  | CredentialCommandFailed

/**
 * The server accepted an operation, and there is no result.
 *
 * @since 0.1.0
 * @category errors
 */
export type OperationError = RequestFailed | FutureExpired | Stuck

/**
 * What each kind of operation can fail with.
 *
 * The groups are disjoint, and the types below are looked up here instead of being unions of their own: so TypeScript
 * shows `MyError | RequestError | OperationError` for a program that trains and samples, and not twenty classes.
 *
 * @since 0.1.0
 * @category errors
 */
export interface Errors {
  readonly startup: RequestError | OperationError
  readonly training: RequestError | OperationError | UnobservedFailure | BudgetExceeded
  readonly sampling: RequestError | OperationError | BudgetExceeded
  readonly any: RequestError | OperationError | UnobservedFailure | BudgetExceeded
}

/**
 * What creating a model or opening a sampler can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type StartupError = Errors["startup"]

/**
 * What an operation of a model in training can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type TrainingError = Errors["training"]

/**
 * What drawing or scoring samples can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type SamplingError = Errors["sampling"]

/**
 * What a call of the REST client can fail with.
 *
 * @since 0.1.0
 * @category errors
 */
export type RestError = RequestError

/**
 * Any failure of this SDK.
 *
 * @since 0.1.0
 * @category errors
 */
export type TinkerError = Errors["any"]

/**
 * Whether something is a {@link TinkerError}.
 *
 * @since 0.1.0
 * @category guards
 */
export const isTinkerError = (u: unknown): u is TinkerError => Predicate.hasProperty(u, TypeId)

/**
 * Whether the same operation may succeed when tried again: rate limits, unavailability, time-outs and broken
 * connections, and an expired result (by submitting anew). What the server or the endpoint says (`shouldRetry`) wins.
 *
 * @since 0.1.0
 * @category guards
 */
export const isRetryable = (error: TinkerError): boolean => {
  if (error.shouldRetry !== undefined) return error.shouldRetry
  switch (error._tag) {
    case "RateLimited":
    case "Unavailable":
    case "TimedOut":
    case "TransportFailed":
    case "FutureExpired":
      return true
    default:
      return false
  }
}

/**
 * Whether the cause lies with the caller rather than with the service: any 4xx but 408, an operation the server blames
 * on the user, input refused here, a credential that is missing or wrong.
 *
 * @since 0.1.0
 * @category guards
 */
export const isUserError = (error: TinkerError): boolean => {
  switch (error._tag) {
    case "RequestFailed":
      return error.category === "user"
    case "UnobservedFailure":
      return isTinkerError(error.cause) && isUserError(error.cause)
    case "InvalidInput":
    case "BudgetExceeded":
    case "MissingCredential":
    case "MalformedCredential":
    case "CredentialCommandFailed":
      return true
    default:
      return error.status !== undefined && error.status >= 400 && error.status < 500 && error.status !== 408
  }
}
