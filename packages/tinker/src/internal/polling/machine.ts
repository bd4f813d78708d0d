/**
 * Polls for a result until there is one or a final failure.
 *
 * | response to a poll | what happens |
 * | --- | --- |
 * | result, protobuf or JSON | decoded: done |
 * | `try_again`, or 408 | the queue state is published; polled again at once, slower when the server does not hold requests |
 * | `complete_metadata` | the size is reserved in the byte budget, then the result is fetched |
 * | `error` | `RequestFailed` |
 * | 402 | retried by the `billing` policy |
 * | 400 | retried by the `refusedPoll` policy (`RequestFailed` where the server means that) |
 * | 429, 5xx, timeout, broken connection | retried by the `poll` policy, its budget counted in failures in a row |
 * | 410 | `FutureExpired` |
 * | anything else | the tagged error |
 *
 * @since 0.1.0
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Api from "../../Api.js"
import { parseJson } from "../../Endpoint.js"
import * as Future from "../../Future.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import type * as Retry from "../transport/retry.js"
import * as Report from "./report.js"
import * as Request from "./request.js"

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

/** @internal */
export const waitFrom = <A>(
  options: Request.Options<A>,
  clock: Clock.Clock,
  started: number,
  first: Outcome | undefined
): Effect.Effect<A, TinkerError.TinkerError> => {
  const { api, decoder, from, inflight, onEvent, requestId, requestType } = options
  let iteration = (options.iteration ?? 0) + (first === undefined ? 0 : 1)
  let metadata = options.ready === undefined
  // Responses in a row that came faster than from a server that holds requests.
  let fast = 0

  const now = () => clock.unsafeCurrentTimeMillis()
  const elapsed = () => Duration.millis(now() - started)
  const report = Report.make(options, () => ({ iteration: iteration - 1, elapsed: now() - started }))

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
    api.emit({ _tag: "QueueState", requestId, requestType, state, reason, elapsed: Duration.toMillis(since) })
    return Effect.zipRight(
      onEvent({ _tag: "Queued", requestId, requestType, state, reason, elapsed: since }),
      Effect.suspend(() => paced(sent))
    )
  }

  const answered = (
    response: TinkerTransport.Response,
    sent: number
  ): Effect.Effect<Step<A>, TinkerError.TinkerError> => {
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
        return error.status === 400 && api.config.compatibility.failedFutureIsBadRequest
          ? Effect.succeed({ _tag: "Refused", sent, error })
          : Effect.fail(error)
      }
    })

  const once: Effect.Effect<Responded, TinkerError.TinkerError> = Effect.suspend(() => {
    const sent = now()
    const reason = options.giveUp?.(sent)
    return reason === undefined ? responded(Request.ask(options, iteration++, metadata), sent) : Effect.fail(reason)
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
