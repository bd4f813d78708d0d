/**
 * What follows from an answer to a poll, until there is a result or a final failure.
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
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Api from "../../Api.js"
import { parseJson } from "../../Endpoint.js"
import * as Future from "../../Future.js"
import * as TinkerError from "../../TinkerError.js"
import * as Drive from "../drive.js"
import type * as Wire from "../exchange.js"
import * as Report from "./report.js"
import * as Request from "./request.js"

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

/** @internal */
export const waitFrom = <A>(
  options: Request.Options<A>,
  clock: Clock.Clock,
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
  let policy: Drive.Drive | undefined

  const now = () => clock.unsafeCurrentTimeMillis()
  const elapsed = () => Duration.millis(now() - started)
  const report = Report.make(options, () => ({ iteration: iteration - 1, elapsed: now() - started }))

  const answeredByServer = () => {
    failures = 0
    policy = undefined
  }

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
    const failure = new TinkerError.RequestFailed({ ...from, requestId, description: error, category, body: json })
    report.answer("application_error", user ? "WARNING" : "ERROR", failure, {
      error_category: category.charAt(0).toUpperCase() + category.slice(1),
      is_user_error: user
    })
    return Effect.fail(failure)
  }

  /** Asks again at once when the server held the request, and ever slower while it does not. */
  const paced = (sent: number): Effect.Effect<typeof again> => {
    fast = now() - sent < held ? fast + 1 : 0
    // One quick answer may be chance.
    return fast < 2 ? Effect.succeed(again) : Effect.as(Effect.sleep(pace(fast - 2)), again)
  }

  const queued = (json: unknown, sent: number): Effect.Effect<typeof again> => {
    const parsed = TryAgain(isRecord(json) ? { ...json, type: "try_again" } : {})
    if (Either.isLeft(parsed)) return paced(sent)
    const { queueState: state, queueStateReason: reason } = parsed.right
    if (state === "unknown" && reason === undefined) return paced(sent)
    const since = elapsed()
    transport.emit({ _tag: "QueueState", requestId, requestType, state, reason, elapsed: Duration.toMillis(since) })
    return Effect.zipRight(
      onEvent({ _tag: "Queued", requestId, requestType, state, reason, elapsed: since }),
      Effect.suspend(() => paced(sent))
    )
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

  const fatal = (error: TinkerError.TinkerError): Effect.Effect<never, TinkerError.TinkerError> => {
    report.status(error, error._tag === "FutureExpired" ? "retryable_exception" : "fatal", { bad, failures })
    return Effect.fail(error)
  }

  const billing = (error: TinkerError.TinkerError): Effect.Effect<Step<A>, TinkerError.TinkerError> =>
    onEvent({ _tag: "BillingPaused", requestId, requestType, error, elapsed: elapsed() }).pipe(
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
    report.status(error, "retry_if_budget", { bad, failures })
    return bad++ < badRequests ? paced(sent) : Effect.fail(error)
  }

  const retried = Effect.fnUntraced(function*(error: TinkerError.TinkerError) {
    policy ??= Drive.make((yield* transport.policies).poll)
    const wait = yield* policy.next(now(), error)
    if (Option.isNone(wait)) return yield* fatal(error)
    report.status(error, error.status === undefined || error.status === 429 ? "retry_with_backoff" : "retry", {
      bad,
      failures
    })
    const delay = Math.ceil(wait.value)
    const attempt = ++failures
    transport.emit({ _tag: "RetryScheduled", endpoint: Api.retrieveFuture.name, attempt, delay, error })
    yield* onEvent({
      _tag: "Retrying",
      requestId,
      requestType,
      error,
      attempt,
      delay: Duration.millis(delay),
      elapsed: elapsed()
    })
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

  const once: Effect.Effect<Step<A>, TinkerError.TinkerError> = Effect.suspend(() => {
    const sent = now()
    const reason = options.giveUp?.(sent)
    if (reason !== undefined) return Effect.fail(reason)
    return Effect.matchEffect(Request.ask(options, iteration++, metadata), {
      onFailure: (error) => failed(error, sent),
      onSuccess: (response) => answered(response, sent)
    })
  })

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
