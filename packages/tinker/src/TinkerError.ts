/**
 * All failures, by what they mean to the caller: flat tagged errors for `Effect.catchTag`, each with
 * the operation that failed, the HTTP status, the request id, a retry hint and the cause.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

/**
 * Unique identifier of the errors.
 *
 * @since 0.1.0
 * @category models
 */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TinkerError")

/**
 * Unique identifier of the errors.
 *
 * @since 0.1.0
 * @category models
 */
export type TypeId = typeof TypeId

/**
 * The fields every error has.
 */
const common = {
  /** Module of the operation that failed, e.g. `TrainingClient`. */
  module: Schema.String,
  /** Method of that module, e.g. `forwardBackward`. */
  method: Schema.String,
  /** Message from the server or the SDK. */
  description: Schema.optional(Schema.String),
  /** HTTP status, when a server responded. */
  status: Schema.optional(Schema.Number),
  /** The id of the server-side operation, or the id the server gave to the HTTP exchange. */
  requestId: Schema.optional(Schema.String),
  /** How long the server asked us to wait: only hints in (0 s, 60 s] are kept. */
  retryAfter: Schema.optional(Schema.DurationFromMillis),
  /** Verdict of the server (`x-should-retry`) or of the endpoint's own rule, where it overrides the kind of the error. */
  shouldRetry: Schema.optional(Schema.Boolean),
  /** Body of the response, parsed when it was JSON; secrets we know are blanked. */
  body: Schema.optional(Schema.Unknown),
  cause: Schema.optional(Schema.Defect)
}

interface Common {
  readonly module: string
  readonly method: string
  readonly description?: string | undefined
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly retryAfter?: Duration.Duration | undefined
}

const render = (error: Common, what: string, advice: string): string => {
  const facts: Array<string> = []
  if (error.status !== undefined) facts.push(`status ${error.status}`)
  if (error.requestId !== undefined) facts.push(`request ${error.requestId}`)
  if (error.retryAfter !== undefined) facts.push(`retry after ${Duration.format(error.retryAfter)}`)
  const detail = error.description === undefined || error.description === "" ? "" : `: ${error.description}`
  return `${error.module}.${error.method}: ${what}${facts.length === 0 ? "" : ` (${facts.join(", ")})`}${detail}${
    advice === "" ? "" : `\n  ${advice}`
  }`
}

const id = <const Tag extends string>(tag: Tag) => `effect-tinker/TinkerError/${tag}` as const

// -----------------------------------------------------------------------------
// Nothing was sent: input, budget, credentials, or a closed client.
// -----------------------------------------------------------------------------

/**
 * The caller's input was refused here, before anything was sent.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidInput extends Schema.TaggedError<InvalidInput>(id("InvalidInput"))("InvalidInput", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "invalid input", "")
  }
}

/**
 * The operation could cost more than the caller's budget has left. Nothing was sent.
 *
 * @since 0.1.0
 * @category errors
 */
export class BudgetExceeded extends Schema.TaggedError<BudgetExceeded>(id("BudgetExceeded"))("BudgetExceeded", {
  ...common,
  budget: Schema.Number,
  /** Paid so far. */
  spent: Schema.Number,
  /** Set aside for operations in flight. */
  reserved: Schema.Number,
  /** The most this operation could have cost. */
  cost: Schema.Number
}) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    const { budget, cost, reserved, spent } = this
    return render(
      this,
      `could cost ${cost}; budget ${budget}, spent ${spent}, reserved ${reserved}`,
      "Raise the budget, or ask for less."
    )
  }
}

/**
 * The client, or the scope it lived in, is closed.
 *
 * @since 0.1.0
 * @category errors
 */
export class Closed extends Schema.TaggedError<Closed>(id("Closed"))("Closed", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the client is closed", "")
  }
}

/**
 * There is no credential at all.
 *
 * @since 0.1.0
 * @category errors
 */
export class MissingCredential
  extends Schema.TaggedError<MissingCredential>(id("MissingCredential"))("MissingCredential", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "no credential", "Pass apiKey, set TINKER_API_KEY, or run `tinker auth login`.")
  }
}

/**
 * There is a credential, or a credentials file, but it cannot be one of ours.
 *
 * @since 0.1.0
 * @category errors
 */
export class MalformedCredential
  extends Schema.TaggedError<MalformedCredential>(id("MalformedCredential"))("MalformedCredential", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "malformed credential", "An API key starts with `tml-`, a token with `eyJ`.")
  }
}

/**
 * The credential command could not be run, failed, or printed nothing.
 *
 * @since 0.1.0
 * @category errors
 */
export class CredentialCommandFailed
  extends Schema.TaggedError<CredentialCommandFailed>(id("CredentialCommandFailed"))("CredentialCommandFailed", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the credential command failed", "Run the command of TINKER_CREDENTIAL_CMD by hand.")
  }
}

// -----------------------------------------------------------------------------
// A server responded, and will not do it.
// -----------------------------------------------------------------------------

/**
 * The server rejected the credential (401).
 *
 * @since 0.1.0
 * @category errors
 */
export class Authentication extends Schema.TaggedError<Authentication>(id("Authentication"))("Authentication", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the server rejected the credential", "Check TINKER_API_KEY, or log in again.")
  }
}

/**
 * The credential is known but may not do this (403).
 *
 * @since 0.1.0
 * @category errors
 */
export class PermissionDenied
  extends Schema.TaggedError<PermissionDenied>(id("PermissionDenied"))("PermissionDenied", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "permission denied", "Ask the owner of the resource or your organization's admin for access.")
  }
}

/**
 * The resource does not exist (404, or 410 outside futures).
 *
 * @since 0.1.0
 * @category errors
 */
export class NotFound extends Schema.TaggedError<NotFound>(id("NotFound"))("NotFound", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "not found", "")
  }
}

/**
 * The server does not have this endpoint (404 or 405 of its router, 501): a self-hosted one may offer less than the
 * hosted service.
 *
 * @since 0.1.0
 * @category errors
 */
export class Unsupported extends Schema.TaggedError<Unsupported>(id("Unsupported"))("Unsupported", {
  ...common,
  /** A replacement, if there is one. */
  advice: Schema.optional(Schema.String)
}) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "this server does not offer it", this.advice ?? "")
  }
}

/**
 * The request contradicts the state of the resource (409): already public, name taken, same `seq_id` with another body.
 *
 * @since 0.1.0
 * @category errors
 */
export class Conflict extends Schema.TaggedError<Conflict>(id("Conflict"))("Conflict", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "conflicts with the current state", "")
  }
}

/**
 * The server refused the request as wrong (400, 422 and other 4xx).
 *
 * @since 0.1.0
 * @category errors
 */
export class BadRequest extends Schema.TaggedError<BadRequest>(id("BadRequest"))("BadRequest", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the server refused the request", "")
  }
}

/**
 * The account cannot pay (402), and stayed so for the whole billing pause.
 *
 * @since 0.1.0
 * @category errors
 */
export class BillingBlocked extends Schema.TaggedError<BillingBlocked>(id("BillingBlocked"))("BillingBlocked", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "blocked by billing", "Add credit or a payment method in the console, then run again.")
  }
}

// -----------------------------------------------------------------------------
// No response, or none to work with: the exchange itself went wrong, or came at a bad time.
// -----------------------------------------------------------------------------

/**
 * Too many requests (429).
 *
 * @since 0.1.0
 * @category errors
 */
export class RateLimited extends Schema.TaggedError<RateLimited>(id("RateLimited"))("RateLimited", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "rate limited", "Lower the concurrency or try again later.")
  }
}

/**
 * The server cannot answer now (408, 5xx).
 *
 * @since 0.1.0
 * @category errors
 */
export class Unavailable extends Schema.TaggedError<Unavailable>(id("Unavailable"))("Unavailable", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the server is unavailable", "")
  }
}

/**
 * No answer within the time allowed.
 *
 * @since 0.1.0
 * @category errors
 */
export class TimedOut extends Schema.TaggedError<TimedOut>(id("TimedOut"))("TimedOut", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "timed out", "")
  }
}

/**
 * The exchange broke below HTTP: host unreachable, connection refused or reset, truncated body.
 *
 * @since 0.1.0
 * @category errors
 */
export class TransportFailed
  extends Schema.TaggedError<TransportFailed>(id("TransportFailed"))("TransportFailed", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the connection failed", "Check the base URL, the network and any proxy.")
  }
}

/**
 * The server responded with success, but not with what the wire promises.
 *
 * @since 0.1.0
 * @category errors
 */
export class MalformedResponse
  extends Schema.TaggedError<MalformedResponse>(id("MalformedResponse"))("MalformedResponse", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the response is malformed", "Is the base URL that of a Tinker-compatible server?")
  }
}

// -----------------------------------------------------------------------------
// The server accepted an operation, and there is no result.
// -----------------------------------------------------------------------------

/**
 * Who is to blame for a failed operation, in the server's words.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Category: Schema.Literal<["unknown", "server", "user"]> = Schema.Literal("unknown", "server", "user")

/**
 * Whose fault a failed operation is, in the server's eyes.
 *
 * @since 0.1.0
 * @category models
 */
export type Category = typeof Category.Type

/**
 * The server accepted the operation, ran it, and it failed there.
 *
 * @since 0.1.0
 * @category errors
 */
export class RequestFailed extends Schema.TaggedError<RequestFailed>(id("RequestFailed"))("RequestFailed", {
  ...common,
  category: Category
}) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, `the operation failed on the server [${this.category}]`, "")
  }
}

/**
 * The server no longer knows the result of this operation (410): it has to be submitted again.
 *
 * @since 0.1.0
 * @category errors
 */
export class FutureExpired extends Schema.TaggedError<FutureExpired>(id("FutureExpired"))("FutureExpired", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the result has expired on the server", "Submit the operation again.")
  }
}

/**
 * Nothing has moved for longer than the progress timeout.
 *
 * @since 0.1.0
 * @category errors
 */
export class Stuck extends Schema.TaggedError<Stuck>(id("Stuck"))("Stuck", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "no progress", "")
  }
}

/**
 * An earlier operation of the model failed, and nothing had observed that: neither its future nor one derived from it was
 * awaited or ignored. `cause` is the failure itself.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnobservedFailure
  extends Schema.TaggedError<UnobservedFailure>(id("UnobservedFailure"))("UnobservedFailure", {
    ...common,
    modelId: Schema.String,
    /** The operation that failed, e.g. `optimStep`. */
    operation: Schema.String,
    /** Its sequence number, if it had one. */
    seqId: Schema.optional(Schema.Number),
    /** How many other operations failed unobserved. */
    others: Schema.Number
  })
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    const { modelId, operation, others, seqId } = this
    const more = others === 0 ? "" : `, and so did ${others} other${others === 1 ? "" : "s"}`
    return render(
      this,
      `${operation}${seqId === undefined ? "" : ` (operation ${seqId})`} of model ${modelId} failed and nothing ` +
        `awaited it${more}`,
      "Await each operation with TinkerFuture.await, or opt out with TinkerFuture.ignore."
    )
  }
}

// -----------------------------------------------------------------------------
// All errors, by operation.
// -----------------------------------------------------------------------------

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
  typeof Unsupported,
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
  Unsupported,
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
 * Failures of any request: refused here or by the server, or no usable response.
 *
 * @since 0.1.0
 * @category errors
 */
export type RequestError =
  | Authentication
  | PermissionDenied
  | NotFound
  | Unsupported
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
 * Failures of each kind of operation.
 *
 * The groups are disjoint, and the types below are looked up here instead of being separate unions: so TypeScript
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
 * Failures of building a client: the configuration or the credential is unusable. Nothing is sent.
 *
 * @since 0.2.0
 * @category errors
 */
export type ConfigurationError = InvalidInput | MissingCredential | MalformedCredential

/**
 * Failures of creating a model or opening a sampler.
 *
 * @since 0.1.0
 * @category errors
 */
export type StartupError = Errors["startup"]

/**
 * Failures of an operation of a model in training.
 *
 * @since 0.1.0
 * @category errors
 */
export type TrainingError = Errors["training"]

/**
 * Failures of drawing or scoring samples.
 *
 * @since 0.1.0
 * @category errors
 */
export type SamplingError = Errors["sampling"]

/**
 * Failures of a call of the REST client.
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
 * connections, and an expired result (by submitting again). What the server or the endpoint says (`shouldRetry`) wins.
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
