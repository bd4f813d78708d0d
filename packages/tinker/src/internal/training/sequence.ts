/**
 * The numbers of one model's requests: 1, 2, 3 … as the server gets to see them, whatever becomes of a request.
 *
 * A number is taken inside the turn, so an operation that leaves the line takes none; it is taken outside the retries,
 * so a resend carries the same one; and the next request takes it again when the server cannot have seen it.
 *
 * A server that keeps the order waits for ever for a number that never comes. So two kinds of numbers are owed to it, and
 * paid before the next request is sent:
 *
 * - that of a request which may or may not have arrived: the request is sent once more, as it was;
 * - that of a request which did not arrive while later ones did, as happens among the pieces of a pass: nothing of it is
 *   done, for its caller knows that it failed. A placeholder without effect takes the number.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Future from "../../Future.js"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerError from "../../TinkerError.js"
import * as Tracing from "../observability/tracing.js"
import type * as ApiClient from "../transport/apiClient.js"

// -----------------------------------------------------------------------------
// What became of a request that carries a number, in the eyes of a server that keeps the order of numbers.
// -----------------------------------------------------------------------------

/**
 * - `unseen`: the server never read the number, and waits for it.
 * - `refused`: it read the request and turned it down; the number is used.
 * - `unknown`: it may have accepted it, or never have heard of it.
 *
 * @internal
 */
export type Delivery = "unseen" | "refused" | "unknown"

const unsent = new Set<string>([
  "InvalidInput",
  "Closed",
  "MissingCredential",
  "MalformedCredential",
  "CredentialCommandFailed"
])

const isRecord = (u: unknown): u is Readonly<Record<string, unknown>> => typeof u === "object" && u !== null

/**
 * Whether an operation was looked at before it was turned down. A page, a plain word or silence is the answer of a proxy
 * or a gateway. And a server says who you are not, that it has no such path, and that a body is not of the right shape
 * before it asks what the request is about.
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

/** @internal */
export const deliveryOf = (error: TinkerError.TinkerError): Delivery => {
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

/** What the server answers to a request it accepts. */
type Accepted = Effect.Effect<Future.UntypedFuture, TinkerError.TinkerError>

/**
 * Sends one request under the number it is given.
 *
 * @internal
 */
export type Send = (seqId: number) => Accepted

/** @internal */
export interface Numbering {
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
  /** To be told of every attempt that failed, also of those that are tried again. */
  readonly attemptFailed: (seqId: number, error: TinkerError.TinkerError) => void
}

/** Tries of a request that is owed, after the first; the policy in force may allow fewer. */
const resends = 3

/** How many requests are kept to be sent as they were, with all their data; placeholders stand for older ones. */
const mostKept = 16

interface Owed {
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
  const doubtful = new Set<number>()
  /** In the order of their numbers. */
  let owed: ReadonlyArray<Owed> = []

  const owe = (debts: ReadonlyArray<Owed>) => {
    const all = [...owed, ...debts]
    owed = all.map((one, i) => i < all.length - mostKept ? replaced(one) : one)
  }

  const replaced = ({ number }: Owed): Owed => ({ number, send: placeholder(number) })

  const fateOf = (number: number, error: TinkerError.TinkerError): Delivery => {
    const fate = deliveryOf(error)
    return fate === "unseen" && doubtful.has(number) ? "unknown" : fate
  }

  /** Takes back the numbers the server has not seen, from the last one down, and owes what it may be waiting for. */
  const settle = (failed: ReadonlyArray<Owed & { readonly fate: Delivery }>) => {
    const debts: Array<Owed> = []
    for (const { fate, number, send } of [...failed].reverse()) {
      if (fate === "unknown") debts.unshift({ number, send })
      else if (fate === "unseen" && number === last) last--
      else if (fate === "unseen") debts.unshift({ number, send: placeholder(number) })
    }
    owe(debts)
  }

  const pay = ({ number, send }: Owed): Effect.Effect<boolean> =>
    Effect.map(
      Effect.either(send),
      (result) => Either.isRight(result) || fateOf(number, result.left) === "refused"
    )

  /** Pays in order, until something does not get through: what follows must not wait for it any longer. */
  const catchUp = Effect.gen(function*() {
    const { submit } = yield* api.policies
    const bounded = RetryPolicy.provide({ submit: Schedule.intersect(submit, Schedule.recurs(resends)) })
    for (let [first] = owed; first !== undefined; [first] = owed) {
      if (!(yield* bounded(pay(first)))) return
      owed = owed.slice(1)
    }
  })

  /**
   * The server takes requests, but not the one it should get first: whatever it has against that one, it has not against
   * a placeholder. Each is tried once; what is still not taken is not worth another round.
   */
  const passOver = Effect.suspend(() => {
    const rest = owed
    owed = []
    return RetryPolicy.provide({ submit: RetryPolicy.never })(Effect.forEach(rest, (one) => pay(replaced(one))))
  })

  const afterOwed = <A>(send: Effect.Effect<A, TinkerError.TinkerError>): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.suspend(() => {
      if (owed.length > 0) return Effect.zipRight(catchUp, Effect.tap(send, passOver))
      doubtful.clear()
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
        (error) => Effect.sync(() => settle([{ number, send: sent, fate: fateOf(number, error) }]))
      )
    })

  /**
   * The server holds later numbers until the first has come: sent last, it finds its batch complete. It is sent even if
   * another one failed, for a number that never comes could hold up everything after it.
   */
  const together = (sends: ReadonlyArray<Send>) =>
    Effect.suspend(() => {
      const all = sends.map((send): Owed => {
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
              onSome: (error) => [{ ...one, fate: fateOf(one.number, error) }]
            })
          ))
          return Effect.all(exits)
        }))
    })

  return {
    one: (send) => afterOwed(numbered(send)),
    serial: (sends) => afterOwed(Effect.forEach(sends, numbered)),
    parallel: (sends) => afterOwed(together(sends)),
    attemptFailed: (seqId, error) => {
      if (deliveryOf(error) === "unknown") doubtful.add(seqId)
    }
  }
}

const failureOf = <A>(
  exit: Exit.Exit<A, TinkerError.TinkerError> | undefined
): Option.Option<TinkerError.TinkerError> =>
  exit !== undefined && Exit.isFailure(exit) && exit.cause._tag === "Fail"
    ? Option.some(exit.cause.error)
    : Option.none()
