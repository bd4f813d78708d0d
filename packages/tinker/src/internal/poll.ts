/**
 * Waiting for the result of one accepted operation: the whole state machine, as one interruptible Effect.
 *
 * | answer | what happens |
 * | --- | --- |
 * | result, protobuf or JSON | decoded: done |
 * | `try_again`, or 408 | the queue state is told; asked again at once, slower when the server does not hold the request |
 * | `complete_metadata` | the size is reserved in the byte budget, then the result is fetched |
 * | `error` | `RequestFailed` |
 * | 402 | the billing pause, within its bound |
 * | 429, 5xx, time-out, broken connection | the poll policy, its budget counted in failures in a row |
 * | 400 | three more tries, then `BadRequest` (or `RequestFailed` where the server says it so) |
 * | 410 | `FutureExpired` |
 * | anything else | the tagged error |
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as ScheduleDecision from "effect/ScheduleDecision"
import * as ScheduleIntervals from "effect/ScheduleIntervals"
import type * as Schema from "effect/Schema"
import * as Api from "../Api.js"
import { parseJson } from "../Endpoint.js"
import * as Future from "../Future.js"
import type * as QueueState from "../QueueState.js"
import type * as RetryPolicy from "../RetryPolicy.js"
import * as TinkerError from "../TinkerError.js"
import type * as ByteBudget from "./byteBudget.js"
import type * as Wire from "./exchange.js"
import * as Tracing from "./tracing.js"
import type * as Transport from "./transport.js"

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
export const jsonDecoder = <A, I>(schema: Schema.Schema<A, I>): Decoder<A> => {
  const decode = ParseResult.decodeUnknownEither(schema)
  return { json: (json) => Either.mapLeft(decode(json), ParseResult.TreeFormatter.formatIssueSync) }
}

/** @internal */
export interface Options<A> {
  readonly transport: Transport.Service
  /** Bytes of large results being fetched at once. */
  readonly inflight: ByteBudget.ByteBudget
  readonly requestId: string
  /** The name the server knows the operation by, e.g. `OptimStep`. */
  readonly requestType: string
  readonly from: { readonly module: string; readonly method: string }
  readonly decoder: Decoder<A>
  /** Seconds from the start of the operation to its acceptance. */
  readonly roundtrip: number
  /** Number of the first poll. Defaults to 0. */
  readonly iteration?: number | undefined
  /** Size of a result known to be ready: fetched without asking for its size first. */
  readonly ready?: number | undefined
  readonly onIteration?: ((iteration: number) => void) | undefined
  /** Asked before every poll: the reason to stop waiting, if there is one. */
  readonly giveUp?: ((now: number) => TinkerError.TinkerError | undefined) | undefined
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<void>
  /** See `Transport.CallOptions`. */
  readonly custody?: Transport.Custody | undefined
}

const badRequests = 3

/** Below this a server does not hold our request, and asking at once would be a hot loop. */
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

/** What came of a poll: an answer of some kind, or a failure. */
interface Outcome {
  readonly sent: number
  readonly result: Either.Either<Wire.Response, TinkerError.TinkerError>
}

const ask = <A>(
  { custody, decoder, from, onIteration, requestId, requestType, roundtrip, transport }: Options<A>,
  iteration: number,
  allowMetadataOnly: boolean
): Effect.Effect<Wire.Response, TinkerError.TinkerError> => {
  onIteration?.(iteration + 1)
  return transport.attempt(Api.retrieveFuture, { requestId, allowMetadataOnly }, {
    from,
    custody,
    requestId,
    headers: {
      accept: decoder.protobuf === undefined ? "application/json" : "application/x-protobuf, application/json",
      "x-stainless-raw-response": "raw",
      "x-tinker-request-iteration": String(iteration),
      "x-tinker-request-type": requestType,
      ...(iteration === 0 ? { "x-tinker-create-promise-roundtrip-time": String(roundtrip) } : {})
    }
  })
}

/** @internal */
export const poll = <A>(options: Options<A>): Effect.Effect<A, TinkerError.TinkerError> =>
  options.transport.tracing.spans ? traced(options) : untraced(options)

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
    if (options.ready !== undefined) return waitFrom(options, started, undefined)
    // Most results are there at the first poll, as protobuf: then the machine for all the rest is never built.
    return Effect.matchEffect(ask(options, options.iteration ?? 0, true), {
      onFailure: (error) => waitFrom(options, started, { sent: started, result: Either.left(error) }),
      onSuccess: (response) => {
        const value = response.headers["content-type"] === "application/x-protobuf"
          ? options.decoder.protobuf?.(response.body)
          : undefined
        return value !== undefined && Either.isRight(value)
          ? Effect.succeed(value.right)
          : waitFrom(options, started, { sent: started, result: Either.right(response) })
      }
    })
  })

const waitFrom = <A>(
  options: Options<A>,
  started: number,
  first: Outcome | undefined
): Effect.Effect<A, TinkerError.TinkerError> => {
  const { decoder, from, inflight, onEvent, requestId, requestType, transport } = options
  let iteration = (options.iteration ?? 0) + (first === undefined ? 0 : 1)
  let metadata = options.ready === undefined
  let bad = 0
  // Answers in a row that came faster than a held request would.
  let fast = 0
  let failures = 0
  let policy: { readonly schedule: RetryPolicy.Policy; state: unknown } | undefined

  const elapsed = Effect.map(Clock.currentTimeMillis, (now) => now - started)

  /** For telemetry, under the names the service knows; never the request's headers, which hold the key. */
  const tell = (
    name: string,
    severity: "WARNING" | "ERROR",
    error: TinkerError.TinkerError,
    data: Readonly<Record<string, unknown>>
  ): Effect.Effect<void> =>
    Effect.map(elapsed, (millis) =>
      transport.emit({
        _tag: "FutureFailed",
        name,
        severity,
        error,
        data: {
          request_id: requestId,
          request_type: requestType,
          iteration: iteration - 1,
          elapsed_time: millis / 1000,
          ...data
        }
      }))

  const tellStatus = (error: TinkerError.TinkerError, kind: string): Effect.Effect<void> =>
    tell(
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

  const answeredByServer = () => {
    failures = 0
    policy = undefined
  }

  const attempt = Effect.suspend(() => ask(options, iteration++, metadata))

  const malformed = (name: string, description: string, data: Readonly<Record<string, unknown>> = {}) => {
    const error = new TinkerError.MalformedResponse({ ...from, requestId, description })
    return Effect.zipRight(tell(name, "ERROR", error, data), error)
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
    const failure = new TinkerError.RequestFailed({ ...from, requestId, description: error, category, body: json })
    return Effect.zipRight(
      tell("application_error", user ? "WARNING" : "ERROR", failure, {
        error_category: category.charAt(0).toUpperCase() + category.slice(1),
        is_user_error: user
      }),
      failure
    )
  }

  /** Asks again at once when the server held the request, and ever slower while it does not. */
  const paced = (sent: number): Effect.Effect<typeof again> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      fast = now - sent < held ? fast + 1 : 0
      // One quick answer may be chance.
      return Effect.as(fast < 2 ? Effect.void : Effect.sleep(pace(fast - 2)), again)
    })

  const queued = (json: unknown, sent: number): Effect.Effect<typeof again> => {
    const parsed = TryAgain(isRecord(json) ? { ...json, type: "try_again" } : {})
    if (Either.isLeft(parsed)) return paced(sent)
    const { queueState: state, queueStateReason: reason } = parsed.right
    if (state === "unknown" && reason === undefined) return paced(sent)
    return Effect.flatMap(elapsed, (millis) => {
      transport.emit({ _tag: "QueueState", requestId, requestType, state, reason, elapsed: millis })
      return onEvent({ _tag: "Queued", requestId, requestType, state, reason, elapsed: Duration.millis(millis) })
    }).pipe(Effect.zipRight(paced(sent)))
  }

  const answered = (response: Wire.Response, sent: number): Effect.Effect<Step<A>, TinkerError.TinkerError> => {
    answeredByServer()
    const contentType = response.headers["content-type"] ?? ""
    if (contentType.includes("application/x-protobuf")) {
      return decoder.protobuf === undefined
        ? malformed("proto_deserialization_error", "protobuf came where JSON was asked for")
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
        if (!metadata) return malformed("validation_error", "the size of the result came instead of the result")
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

  const fatal = (error: TinkerError.TinkerError): Effect.Effect<never, TinkerError.TinkerError> =>
    Effect.zipRight(
      tellStatus(error, error._tag === "FutureExpired" ? "retryable_exception" : "fatal"),
      Effect.fail(error)
    )

  const billing = (error: TinkerError.TinkerError): Effect.Effect<Step<A>, TinkerError.TinkerError> =>
    Effect.flatMap(
      elapsed,
      (millis) => onEvent({ _tag: "BillingPaused", requestId, requestType, error, elapsed: Duration.millis(millis) })
    ).pipe(
      Effect.zipRight(transport.pauseForBilling(error, Api.retrieveFuture.name)),
      Effect.flatMap((waited) => waited ? Effect.succeed(again) : fatal(error))
    )

  const badRequest = (
    error: TinkerError.TinkerError,
    sent: number
  ): Effect.Effect<Step<A>, TinkerError.TinkerError> => {
    if (transport.config.compatibility.failedFutureIsBadRequest) {
      return requestFailed({ error: error.description ?? "" })
    }
    answeredByServer()
    return Effect.zipRight(
      tellStatus(error, "retry_if_budget"),
      bad++ < badRequests ? paced(sent) : Effect.fail(error)
    )
  }

  const retried = Effect.fnUntraced(function*(error: TinkerError.TinkerError) {
    if (policy === undefined) {
      const schedule = (yield* transport.policies).poll
      policy = { schedule, state: schedule.initial }
    }
    const now = yield* Clock.currentTimeMillis
    const [state, , decision] = yield* policy.schedule.step(now, error, policy.state)
    policy.state = state
    if (ScheduleDecision.isDone(decision)) return yield* fatal(error)
    yield* tellStatus(error, error.status === undefined || error.status === 429 ? "retry_with_backoff" : "retry")
    failures++
    const delay = Duration.millis(Math.max(0, Math.ceil(ScheduleIntervals.start(decision.intervals) - now)))
    const since = Duration.millis(now - started)
    transport.emit({
      _tag: "RetryScheduled",
      endpoint: Api.retrieveFuture.name,
      attempt: failures,
      delay: Duration.toMillis(delay),
      error
    })
    yield* onEvent({ _tag: "Retrying", requestId, requestType, error, attempt: failures, delay, elapsed: since })
    yield* Effect.sleep(delay)
    return again
  })

  const failed = (error: TinkerError.TinkerError, sent: number): Effect.Effect<Step<A>, TinkerError.TinkerError> => {
    if (error._tag === "BillingBlocked") return billing(error)
    if (error.status === 400) return badRequest(error, sent)
    if (error.status !== 408) return retried(error)
    // Not a failure: the request was held as long as the server holds one.
    answeredByServer()
    if (error.body !== undefined) bad = 0
    return queued(error.body, sent)
  }

  const once: Effect.Effect<Step<A>, TinkerError.TinkerError> = Effect.flatMap(
    Clock.currentTimeMillis,
    (sent) => {
      const reason = options.giveUp?.(sent)
      if (reason !== undefined) return Effect.fail(reason)
      return Effect.matchEffect(attempt, {
        onFailure: (error) => failed(error, sent),
        onSuccess: (response) => answered(response, sent)
      })
    }
  )

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

  const loop: Effect.Effect<A, TinkerError.TinkerError> = Effect.suspend(() => Effect.flatMap(once, next))

  /** The budget is held until the result has been decoded, or given up. */
  const fetch = (bytes: number): Effect.Effect<A, TinkerError.TinkerError> => {
    metadata = false
    return inflight.withBytes(bytes)(loop)
  }

  if (options.ready !== undefined) return fetch(options.ready)
  if (first === undefined) return loop
  const { result, sent } = first
  return Effect.flatMap(Either.isLeft(result) ? failed(result.left, sent) : answered(result.right, sent), next)
}
