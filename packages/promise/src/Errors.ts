/**
 * Failures. Each is an `Error` with a `_tag` that says which, and a message that says what to do.
 *
 * @since 0.1.0
 */

/**
 * Tags of the failures of calls.
 *
 * @since 0.1.0
 * @category models
 */
export type Tag =
  | "Authentication"
  | "BadRequest"
  | "BillingBlocked"
  | "BudgetExceeded"
  | "Closed"
  | "Conflict"
  | "CredentialCommandFailed"
  | "FutureExpired"
  | "InvalidInput"
  | "MalformedCredential"
  | "MalformedResponse"
  | "MissingCredential"
  | "NotFound"
  | "PermissionDenied"
  | "RateLimited"
  | "RequestFailed"
  | "Stuck"
  | "TimedOut"
  | "TransportFailed"
  | "Unavailable"
  | "UnobservedFailure"
  | "Unsupported"

/**
 * A call that failed, for a reason.
 *
 * @since 0.1.0
 * @category errors
 */
export interface Failure<T extends Tag> extends Error {
  readonly _tag: T
  /** Where it failed, such as `TrainingClient`. */
  readonly module: string
  /** HTTP status, where there was a response. */
  readonly status?: number | undefined
  readonly requestId?: string | undefined
}

/**
 * A call that failed: look at its `_tag`.
 *
 * @since 0.1.0
 * @category errors
 */
export type TinkerError = { readonly [T in Tag]: Failure<T> }[Tag]
