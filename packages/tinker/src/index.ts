/**
 * Everything that can go wrong, cut by what it means to the caller: flat tagged errors for `Effect.catchTag`, each with
 * the operation that failed, the HTTP status, the request id, a retry hint and the cause.
 *
 * @since 0.1.0
 */
export * as TinkerError from "./TinkerError.js"
