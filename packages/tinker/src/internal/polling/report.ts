/**
 * What telemetry is told of polls that went wrong, under the names the service knows; never the request's headers, which
 * hold the key.
 *
 * @since 0.1.0
 */
import * as TinkerError from "../../TinkerError.js"
import type { Options } from "./request.js"

/** How far the wait is. */
interface Progress {
  readonly iteration: number
  /** In milliseconds. */
  readonly elapsed: number
}

/** @internal */
export type Kind = "fatal" | "retry" | "retry_if_budget" | "retry_with_backoff" | "retryable_exception"

/** @internal */
export interface Report {
  /** Something came that is no result. */
  readonly answer: (
    name: string,
    severity: "WARNING" | "ERROR",
    error: TinkerError.TinkerError,
    data: Readonly<Record<string, unknown>>
  ) => void
  /** A status that means failure, or no answer at all, and what is done about it. */
  readonly status: (
    error: TinkerError.TinkerError,
    kind: Kind,
    counts: { readonly bad: number; readonly failures: number }
  ) => void
}

/** @internal */
export const make = <A>(
  { api, requestId, requestType }: Options<A>,
  progress: () => Progress
): Report => {
  const answer: Report["answer"] = (name, severity, error, data) => {
    const { elapsed, iteration } = progress()
    api.emit({
      _tag: "FutureFailed",
      name,
      severity,
      error,
      data: { request_id: requestId, request_type: requestType, iteration, elapsed_time: elapsed / 1000, ...data }
    })
  }
  return {
    answer,
    status: (error, kind, { bad, failures }) =>
      answer(
        error.status === undefined ? "connection_error" : "api_status_error",
        kind === "fatal" || kind === "retry_if_budget" ? "ERROR" : "WARNING",
        error,
        {
          status_code: error.status ?? 0,
          kind,
          should_retry: kind !== "fatal",
          is_user_error: TinkerError.isUserError(error),
          bad_request_retries: bad,
          connection_error_retries: failures
        }
      )
  }
}
