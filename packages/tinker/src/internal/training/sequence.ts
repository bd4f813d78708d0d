/**
 * Sequence numbers of one model's requests: 1, 2, 3 … without gaps, even if requests fail or are interrupted.
 *
 * A number is allocated inside the turn, so an operation interrupted while queued uses none; it is allocated outside the
 * retries, so a resend carries the same one; and it is reused by the next request if the server cannot have seen it.
 *
 * A server that enforces the order waits indefinitely for a missing number. Two kinds of sequence numbers must therefore
 * be resent before the next request:
 *
 * - that of a request that may or may not have arrived: the same request is sent once more;
 * - that of a request that did not arrive while later ones did, as can happen among the chunks of a batch: its caller
 *   already knows that it failed, so a placeholder without effect takes the number.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerError from "../../TinkerError.js"
import type * as Future from "../../wire/Future.js"
import * as Tracing from "../observability/tracing.js"
import type * as ApiClient from "../transport/apiClient.js"

// -----------------------------------------------------------------------------
// Whether the server has seen the sequence number of a failed request.
// -----------------------------------------------------------------------------

/**
 * - `unseen`: the server never read the number, and waits for it.
 * - `refused`: the server read the request and rejected it; the number is used.
 * - `unknown`: the server may have accepted the request, or never received it.
 */
type Delivery = "unseen" | "refused" | "unknown"

const unsent = new Set<string>([
  "InvalidInput",
  "Closed",
  "MissingCredential",
  "MalformedCredential",
  "CredentialCommandFailed"
])

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> => typeof u === "object" && u !== null

/**
 * Whether the server read the request before rejecting it. An HTML page, plain text or an empty body comes from a proxy
 * or a gateway. Authentication, routing and validation errors come before the sequence number is looked at.
 */
const wasRead = (status: number, body: unknown): boolean => {
  // A body too large or too deep to be parsed is kept as text.
  if (typeof body === "string") return /^\s*\{\s*"(?:detail|error)"/.test(body)
  if (!isRecord(body) || !("detail" in body || "error" in body)) return false
  switch (status) {
    case 401:
    case 405:
      return false
    case 404:
      return body["detail"] !== "Not Found"
    case 422:
      return !Array.isArray(body["detail"])
    default:
      return true
  }
}

const deliveryOf = (error: TinkerError.TinkerError): Delivery => {
  if (unsent.has(error._tag)) return "unseen"
  const { status } = error
  if (status === undefined) {
    // As things are configured, no connection can be made.
    return error._tag === "TransportFailed" && error.shouldRetry === false ? "unseen" : "unknown"
  }
  // What the server says about trying again does not say what became of this one.
  if (status < 300 || status >= 500 || status === 402 || status === 408 || status === 429) return "unknown"
  if (TinkerError.isRetryable(error)) return "unknown"
  return wasRead(status, error.body) ? "refused" : "unseen"
}

// -----------------------------------------------------------------------------
// Sequence numbers.
// -----------------------------------------------------------------------------

/** The server's response to a request it accepts. */
type Accepted = Effect.Effect<Future.UntypedFuture, TinkerError.TinkerError>

/**
 * Sends one request under the number it is given.
 *
 * @internal
 */
export type Send = (seqId: number) => Accepted

interface Numbering {
  /** Sends one request. */
  readonly one: (send: Send) => Accepted
  /** Sends several requests in order; none after one that failed, so that no number is lost. */
  readonly serial: (
    sends: ReadonlyArray<Send>
  ) => Effect.Effect<ReadonlyArray<Future.UntypedFuture>, TinkerError.TinkerError>
  /** Sends several requests at once, the first last. */
  readonly parallel: (
    sends: ReadonlyArray<Send>
  ) => Effect.Effect<ReadonlyArray<Future.UntypedFuture>, TinkerError.TinkerError>
  /** Must be called for every failed attempt, retried or not. */
  readonly attemptFailed: (seqId: number, error: TinkerError.TinkerError) => void
}

/** Retries of a request that must be resent; the policy in force may allow fewer. */
const resends = 3

/** How many requests are kept with all their data to be resent; older ones are replaced by placeholders. */
const mostKept = 16

interface Unsettled {
  readonly number: number
  readonly send: Accepted
}

/** @internal */
export const make = ({ placeholder, api }: {
  readonly api: ApiClient.Service
  /** A request that changes nothing. */
  readonly placeholder: Send
}): Numbering => {
  let last = 0
  /** Numbers under which some attempt may have arrived. */
  const maybeReceived = new Set<number>()
  /** In the order of their numbers. */
  let unsettled: ReadonlyArray<Unsettled> = []

  const enqueue = (missing: ReadonlyArray<Unsettled>) => {
    const all = [...unsettled, ...missing]
    unsettled = all.map((one, i) => i < all.length - mostKept ? replaced(one) : one)
  }

  const replaced = ({ number }: Unsettled): Unsettled => ({ number, send: placeholder(number) })

  const outcomeOf = (number: number, error: TinkerError.TinkerError): Delivery => {
    const delivery = deliveryOf(error)
    return delivery === "unseen" && maybeReceived.has(number) ? "unknown" : delivery
  }

  /** Releases the numbers the server has not seen, from the last one down, and queues those it may be waiting for. */
  const settle = (failed: ReadonlyArray<Unsettled & { readonly delivery: Delivery }>) => {
    const missing: Array<Unsettled> = []
    for (const { delivery, number, send } of [...failed].reverse()) {
      if (delivery === "unknown") missing.unshift({ number, send })
      else if (delivery === "unseen" && number === last) last--
      else if (delivery === "unseen") missing.unshift({ number, send: placeholder(number) })
    }
    enqueue(missing)
  }

  const resend = ({ number, send }: Unsettled): Effect.Effect<boolean> =>
    Effect.map(
      Effect.either(send),
      (result) => Either.isRight(result) || outcomeOf(number, result.left) === "refused"
    )

  /** Resends in order and stops at the first failure, so that the next request does not wait any longer. */
  const catchUp = Effect.gen(function*() {
    const { submit } = yield* api.policies
    const bounded = RetryPolicy.provide({ submit: Schedule.intersect(submit, Schedule.recurs(resends)) })
    for (let [first] = unsettled; first !== undefined; [first] = unsettled) {
      if (!(yield* bounded(resend(first)))) return
      unsettled = unsettled.slice(1)
    }
  })

  /**
   * The server accepts requests, but not the one it should get first: send placeholders instead, each once, and give up
   * on those that still fail.
   */
  const replaceRemaining = Effect.suspend(() => {
    const rest = unsettled
    unsettled = []
    return RetryPolicy.provide({ submit: RetryPolicy.never })(Effect.forEach(rest, (one) => resend(replaced(one))))
  })

  const afterUnsettled = <A>(
    send: Effect.Effect<A, TinkerError.TinkerError>
  ): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.suspend(() => {
      if (unsettled.length > 0) return Effect.zipRight(catchUp, Effect.tap(send, replaceRemaining))
      maybeReceived.clear()
      return send
    })

  const marked = (number: number, self: Accepted): Accepted =>
    api.tracing.spans
      ? Effect.tap(
        Effect.zipRight(Tracing.annotate({ "tinker.seq_id": number }), self),
        ({ requestId }) => Tracing.annotate({ "tinker.request_id": requestId })
      )
      : self

  const numbered = (send: Send): Accepted =>
    Effect.suspend(() => {
      const number = ++last
      const sent = send(number)
      return Effect.tapError(
        marked(number, sent),
        (error) => Effect.sync(() => settle([{ number, send: sent, delivery: outcomeOf(number, error) }]))
      )
    })

  /**
   * The server holds later numbers until the first has come: sent last, it finds its batch complete. It is sent even if
   * another one failed, for a number that never comes could hold up everything after it.
   */
  const together = (sends: ReadonlyArray<Send>) =>
    Effect.suspend(() => {
      const all = sends.map((send): Unsettled => {
        const number = ++last
        return { number, send: send(number) }
      })
      const [first, ...rest] = all.map(({ number, send }) => Effect.exit(marked(number, send)))
      if (first === undefined) return Effect.succeed([])
      return Effect.flatMap(Effect.all(rest, { concurrency: "unbounded" }), (others) =>
        Effect.flatMap(first, (own) => {
          const exits = [own, ...others]
          settle(all.flatMap((one, i) =>
            Option.match(failureOf(exits[i]), {
              onNone: () => [],
              onSome: (error) => [{ ...one, delivery: outcomeOf(one.number, error) }]
            })
          ))
          return Effect.all(exits)
        }))
    })

  return {
    one: (send) => afterUnsettled(numbered(send)),
    serial: (sends) => afterUnsettled(Effect.forEach(sends, numbered)),
    parallel: (sends) => afterUnsettled(together(sends)),
    attemptFailed: (seqId, error) => {
      if (deliveryOf(error) === "unknown") maybeReceived.add(seqId)
    }
  }
}

const failureOf = <A>(
  exit: Exit.Exit<A, TinkerError.TinkerError> | undefined
): Option.Option<TinkerError.TinkerError> =>
  exit !== undefined && Exit.isFailure(exit) && exit.cause._tag === "Fail"
    ? Option.some(exit.cause.error)
    : Option.none()
