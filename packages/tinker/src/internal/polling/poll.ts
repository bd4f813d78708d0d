/**
 * Awaits the result of one accepted operation, as one interruptible Effect. Most results arrive with the first poll; a
 * loop handles the rest.
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"
import type * as QueueState from "../../QueueState.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import * as Api from "../../wire/Api.js"
import { parseJson } from "../../wire/Endpoint.js"
import * as Future from "../../wire/Future.js"
import { saidLines } from "../observability/logs.js"
import * as Tracing from "../observability/tracing.js"
import type * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import type { Cancellation } from "../transport/cancellation.js"
import type * as Retry from "../transport/retry.js"

// -----------------------------------------------------------------------------
// Telemetry about failed polls, under the names the service knows; never the request's headers, which
// hold the key.
// -----------------------------------------------------------------------------

/** How far the wait is. */
interface PollProgress {
  readonly iteration: number
  /** In milliseconds. */
  readonly elapsed: number
}

type Kind = "fatal" | "retry" | "retry_if_budget" | "retry_with_backoff" | "retryable_exception"

interface Report {
  /** A response that is not a result. */
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

const makeReport = <A>(
  { api, requestId, requestType }: Options<A>,
  progress: () => PollProgress
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

// -----------------------------------------------------------------------------
// One poll request.
// -----------------------------------------------------------------------------

/** @internal */
export interface Options<A> {
  readonly api: ApiClient.Service
  /** Bytes of large results being fetched at once. */
  readonly inflight: Admission.ByteBudget
  readonly requestId: string
  /** The name the server knows the operation by, e.g. `OptimStep`. */
  readonly requestType: string
  readonly from: { readonly module: string; readonly method: string }
  readonly decoder: Decoder<A>
  /** Seconds from the start of the operation to its acceptance. */
  readonly roundtrip: number
  /** Counts the polls, over several waits. */
  readonly polls?: { iteration: number } | undefined
  /** Size of a result known to be ready: fetched without asking for its size first. */
  readonly ready?: number | undefined
  /** Asked before every poll: the reason to stop waiting, if there is one. */
  readonly giveUp?: ((now: number) => TinkerError.TinkerError | undefined) | undefined
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<void>
  /** See `CallOptions`. */
  readonly cancellation?: Cancellation | undefined
}

type Headers = Readonly<Record<string, string>>

const headersOf = (type: string, accept: string, iteration: number, roundtrip: number): Headers => ({
  accept,
  "x-stainless-raw-response": "raw",
  "x-tinker-request-iteration": String(iteration),
  "x-tinker-request-type": type,
  ...(iteration === 0 ? { "x-tinker-create-promise-roundtrip-time": String(roundtrip) } : {})
})

/** The first poll of every sample has the same headers, thousands of times a second. */
const first = new Map<string, Headers>()

const firstOf = (type: string, accept: string): Headers => {
  const key = `${type} ${accept}`
  let found = first.get(key)
  if (found === undefined) first.set(key, found = headersOf(type, accept, 0, 0))
  return found
}

const ask = <A>(
  { api, decoder, from, polls, requestId, requestType, roundtrip, cancellation }: Options<A>,
  iteration: number,
  allowMetadataOnly: boolean
): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
  if (polls !== undefined) polls.iteration = iteration + 1
  const accept = decoder.protobuf === undefined ? "application/json" : "application/x-protobuf, application/json"
  return api.attempt(Api.retrieveFuture, { requestId, allowMetadataOnly }, {
    from,
    cancellation,
    requestId,
    timeout: api.serverFacts.pollTimeout(),
    headers: iteration === 0 && roundtrip === 0
      ? firstOf(requestType, accept)
      : headersOf(requestType, accept, iteration, roundtrip)
  })
}

// -----------------------------------------------------------------------------
// Polls for a result until there is one or a final failure.
//
// | response to a poll | what happens |
// | --- | --- |
// | result, protobuf or JSON | decoded: done |
// | `try_again`, or 408 | the queue state is published; polled again at once, slower when the server does not hold requests |
// | `complete_metadata` | the size is reserved in the byte budget, then the result is fetched |
// | `error` | `RequestFailed` |
// | 402 | retried by the `billing` policy |
// | 400 | retried by the `refusedPoll` policy (`RequestFailed` where the server means that) |
// | 429, 5xx, timeout, broken connection | retried by the `poll` policy, its budget counted in failures in a row |
// | 410 | `FutureExpired` |
// | anything else | the tagged error |
// -----------------------------------------------------------------------------

/** A response faster than this means that the server does not hold requests, and polling at once would be a hot loop. */
const held = 1_000
const slowest = 1_000
const pace = (fast: number) => Math.min(50 * 2 ** Math.min(fast, 10), slowest)

const TryAgain = ParseResult.decodeUnknownEither(Future.TryAgain)
const Metadata = ParseResult.decodeUnknownEither(Future.CompleteMetadata)
const Failed = ParseResult.decodeUnknownEither(Future.RequestFailed)

type Step<A> =
  | { readonly _tag: "Done"; readonly value: A }
  | { readonly _tag: "Again" }
  | { readonly _tag: "Fetch"; readonly bytes: number }

const again = { _tag: "Again" } as const

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> => typeof u === "object" && u !== null

/** How a poll went, and when it was sent. */
interface Outcome {
  readonly sent: number
  readonly result: Either.Either<TinkerTransport.Response, TinkerError.TinkerError>
}

/** A poll that the server has responded to, with a result or with news of the queue. */
type Responded =
  | { readonly _tag: "Response"; readonly sent: number; readonly response: TinkerTransport.Response }
  | { readonly _tag: "Held"; readonly sent: number; readonly body: unknown }
  | { readonly _tag: "Refused"; readonly sent: number; readonly error: TinkerError.TinkerError }

const waitFrom = <A>(
  options: Options<A>,
  clock: Clock.Clock,
  started: number,
  first: Outcome | undefined
): Effect.Effect<A, TinkerError.TinkerError> => {
  const { api, decoder, from, inflight, onEvent, requestId, requestType } = options
  let iteration = options.polls?.iteration ?? (first === undefined ? 0 : 1)
  let metadata = options.ready === undefined
  // Responses in a row that came faster than from a server that holds requests.
  let fast = 0

  const now = () => clock.unsafeCurrentTimeMillis()
  const elapsed = () => Duration.millis(now() - started)
  const report = makeReport(options, () => ({ iteration: iteration - 1, elapsed: now() - started }))

  const malformed = (
    name: string,
    description: string,
    data: Readonly<Record<string, unknown>> = {}
  ): Effect.Effect<never, TinkerError.TinkerError> => {
    const error = new TinkerError.MalformedResponse({ ...from, requestId, description })
    report.answer(name, "ERROR", error, data)
    return Effect.fail(error)
  }

  const decoded = (
    name: string,
    result: Either.Either<A, string>,
    data?: Readonly<Record<string, unknown>>
  ): Effect.Effect<Step<A>, TinkerError.TinkerError> =>
    Either.isRight(result) ? Effect.succeed({ _tag: "Done", value: result.right }) : malformed(name, result.left, data)

  const requestFailed = (json: unknown): Effect.Effect<never, TinkerError.TinkerError> => {
    const parsed = Failed(json)
    const { category, error } = Either.isRight(parsed) ? parsed.right : { category: "unknown" as const, error: "" }
    const user = category === "user"
    const failure = new TinkerError.RequestFailed({
      ...from,
      requestId,
      description: saidLines(error),
      category,
      body: json
    })
    report.answer("application_error", user ? "WARNING" : "ERROR", failure, {
      error_category: category.charAt(0).toUpperCase() + category.slice(1),
      is_user_error: user
    })
    return Effect.fail(failure)
  }

  /** Asks again at once when the server held the request, and ever slower while it does not. */
  const paced = (sent: number): Effect.Effect<typeof again> => {
    fast = now() - sent < held ? fast + 1 : 0
    // A single fast response may be a coincidence.
    return fast < 2 ? Effect.succeed(again) : Effect.as(Effect.sleep(pace(fast - 2)), again)
  }

  const queued = (json: unknown, sent: number): Effect.Effect<typeof again> => {
    const parsed = TryAgain(isRecord(json) ? { ...json, type: "try_again" } : {})
    if (Either.isLeft(parsed)) return paced(sent)
    const { queueState: state, queueStateReason: given } = parsed.right
    if (state === "unknown" && given === undefined) return paced(sent)
    return Effect.flatMap(given === undefined ? Effect.succeed(given) : api.said(given), (reason) => {
      const since = elapsed()
      api.emit({ _tag: "QueueState", requestId, requestType, state, reason, elapsed: Duration.toMillis(since) })
      return Effect.zipRight(
        onEvent({ _tag: "Queued", requestId, requestType, state, reason, elapsed: since }),
        Effect.suspend(() => paced(sent))
      )
    })
  }

  const answered = (
    response: TinkerTransport.Response,
    sent: number
  ): Effect.Effect<Step<A>, TinkerError.TinkerError> => {
    const contentType = response.headers["content-type"] ?? ""
    if (contentType.includes("application/x-protobuf")) {
      return decoder.protobuf === undefined
        ? malformed("proto_deserialization_error", "received protobuf where JSON was requested")
        : decoded("proto_deserialization_error", decoder.protobuf(response.body), {
          proto_bytes_len: response.body.length
        })
    }
    const parsed = parseJson(response.body)
    if (Either.isLeft(parsed)) {
      return malformed(
        "validation_error",
        `${parsed.left} (content type: ${contentType === "" ? "none" : contentType})`
      )
    }
    const answer = Future.classify(parsed.right)
    switch (answer._tag) {
      case "TryAgain":
        return queued(answer.json, sent)
      case "CompleteMetadata": {
        if (!metadata) {
          return malformed("validation_error", "the server sent the size of the result instead of the result")
        }
        const size = Metadata(answer.json)
        return Effect.succeed({
          _tag: "Fetch",
          bytes: Either.isRight(size) ? Math.max(0, size.right.responsePayloadSize) : 0
        })
      }
      case "RequestFailed":
        return requestFailed(answer.json)
      case "Completed":
        return decoded("validation_error", decoder.json(answer.json))
    }
  }

  const decided = () => {
    let bad = 0
    let failures = 0
    return ({ class: decider, delay, error }: Retry.Decision): Effect.Effect<void> => {
      if (decider === "billing") {
        if (delay === undefined) report.status(error, "fatal", { bad, failures })
        return onEvent({ _tag: "BillingPaused", requestId, requestType, error, elapsed: elapsed() })
      }
      if (decider === "refusedPoll") {
        report.status(error, "retry_if_budget", { bad: bad++, failures })
      } else if (delay === undefined) {
        report.status(error, error._tag === "FutureExpired" ? "retryable_exception" : "fatal", { bad, failures })
      } else {
        const kind = error.status === undefined || error.status === 429 ? "retry_with_backoff" : "retry"
        report.status(error, kind, { bad, failures: failures++ })
      }
      if (delay === undefined) return Effect.void
      return onEvent({
        _tag: "Retrying",
        requestId,
        requestType,
        error,
        attempt: bad + failures,
        delay: Duration.millis(Math.ceil(delay)),
        elapsed: elapsed()
      })
    }
  }

  const responded = (
    self: Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>,
    sent: number
  ): Effect.Effect<Responded, TinkerError.TinkerError> =>
    Effect.matchEffect(self, {
      onSuccess: (response) => Effect.succeed<Responded>({ _tag: "Response", sent, response }),
      onFailure: (error): Effect.Effect<Responded, TinkerError.TinkerError> => {
        // Not a failure: the request was held as long as the server holds one.
        if (error.status === 408) return Effect.succeed({ _tag: "Held", sent, body: error.body })
        return error.status === 400 && api.serverFacts.failedFutureIsBadRequest()
          ? Effect.succeed({ _tag: "Refused", sent, error })
          : Effect.fail(error)
      }
    })

  const once: Effect.Effect<Responded, TinkerError.TinkerError> = Effect.suspend(() => {
    const sent = now()
    const reason = options.giveUp?.(sent)
    return reason === undefined ? responded(ask(options, iteration++, metadata), sent) : Effect.fail(reason)
  })

  const retried = (self: Effect.Effect<Responded, TinkerError.TinkerError>) =>
    Effect.catchAll(self, (error) =>
      api.again({
        name: Api.retrieveFuture.name,
        class: Api.retrieveFuture.retry,
        error,
        run: () => once,
        onDecision: decided()
      }))

  const interpret = (poll: Responded): Effect.Effect<Step<A>, TinkerError.TinkerError> => {
    switch (poll._tag) {
      case "Response":
        return answered(poll.response, poll.sent)
      case "Held":
        return queued(poll.body, poll.sent)
      case "Refused":
        return requestFailed({ error: poll.error.description ?? "" })
    }
  }

  const step = (self: Effect.Effect<Responded, TinkerError.TinkerError>): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.flatMap(Effect.flatMap(retried(self), interpret), next)

  const next = (step: Step<A>): Effect.Effect<A, TinkerError.TinkerError> => {
    switch (step._tag) {
      case "Done":
        return Effect.succeed(step.value)
      case "Fetch":
        return fetch(step.bytes)
      case "Again":
        return loop
    }
  }

  const loop: Effect.Effect<A, TinkerError.TinkerError> = Effect.suspend(() => step(once))

  /** The budget is held until the result has been decoded, or given up. */
  const fetch = (bytes: number): Effect.Effect<A, TinkerError.TinkerError> => {
    metadata = false
    return inflight.withBytes(bytes)(loop)
  }

  if (options.ready !== undefined) return fetch(options.ready)
  if (first === undefined) return loop
  return step(responded(first.result, first.sent))
}

// -----------------------------------------------------------------------------
// Decodes a response body to the result of an operation.
// -----------------------------------------------------------------------------

/**
 * How to read the result. JSON is read for every type, also for those newer servers only send as protobuf.
 *
 * @internal
 */
export interface Decoder<A> {
  readonly protobuf?: ((body: Uint8Array) => Either.Either<A, string>) | undefined
  readonly json: (json: unknown) => Either.Either<A, string>
}

/** @internal */
export const fromSchema = <A, I>(schema: Schema.Schema<A, I>): Decoder<A> => {
  const decode = ParseResult.decodeUnknownEither(schema)
  return { json: (json) => Either.mapLeft(decode(json), ParseResult.TreeFormatter.formatIssueSync) }
}

// -----------------------------------------------------------------------------
// One interruptible Effect for the whole wait.
// -----------------------------------------------------------------------------

/** @internal */
export const poll = <A>(options: Options<A>): Effect.Effect<A, TinkerError.TinkerError> =>
  options.api.tracing.spans ? traced(options) : untraced(options)

const traced = <A>(options: Options<A>): Effect.Effect<A, TinkerError.TinkerError> => {
  const { json, protobuf } = options.decoder
  return Tracing.result({
    "tinker.request_id": options.requestId,
    "tinker.request_type": options.requestType
  }, (timed) =>
    untraced({
      ...options,
      decoder: { json: timed(json), protobuf: protobuf === undefined ? undefined : timed(protobuf) },
      onEvent: (event) =>
        Effect.zipRight(
          Tracing.annotate(
            event._tag === "Queued"
              ? { "tinker.queue_state": event.state, "tinker.queue_reason": event.reason }
              : { "tinker.queue_state": event._tag }
          ),
          options.onEvent(event)
        )
    }))
}

const untraced = <A>(options: Options<A>): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.clockWith((clock) => {
    const started = clock.unsafeCurrentTimeMillis()
    const reason = options.giveUp?.(started)
    if (reason !== undefined) return Effect.fail(reason)
    if (options.ready !== undefined) return waitFrom(options, clock, started, undefined)
    // Most results arrive with the first poll, as protobuf: then the state for all other cases is never built.
    return Effect.matchEffect(ask(options, options.polls?.iteration ?? 0, true), {
      onFailure: (error) => waitFrom(options, clock, started, { sent: started, result: Either.left(error) }),
      onSuccess: (response) => {
        const value = response.headers["content-type"] === "application/x-protobuf"
          ? options.decoder.protobuf?.(response.body)
          : undefined
        return value !== undefined && Either.isRight(value)
          ? Effect.succeed(value.right)
          : waitFrom(options, clock, started, { sent: started, result: Either.right(response) })
      }
    })
  })
