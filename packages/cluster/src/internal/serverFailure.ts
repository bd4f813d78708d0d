import * as TinkerError from "effect-tinker/TinkerError"

const lost: ReadonlySet<string> = new Set([
  "Closed",
  "Conflict",
  "FutureExpired",
  "MalformedResponse",
  "NotFound",
  "RequestFailed",
  "Stuck",
  "UnobservedFailure"
])

/**
 * Answers of a server that has lost a model or a sampler, and those which a request that makes no sense may be answered with
 * too. @internal
 */
export const isLost = (error: unknown): boolean => TinkerError.isTinkerError(error) && lost.has(error._tag)

/** Failures of the network, and of a server that is busy. @internal */
export const isRetryable = (error: unknown): boolean =>
  TinkerError.isTinkerError(error) && TinkerError.isRetryable(error)
