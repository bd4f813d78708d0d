/**
 * The operations of one model on their way to the server: in the order in which they start, numbered without a gap.
 *
 * A number is taken inside the turn, so an operation that leaves the line takes none; it is taken outside the retries,
 * so a resend carries the same one; and it is given back when nothing has left this process.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import type * as Endpoint from "../Endpoint.js"
import type * as Future from "../Future.js"
import type * as ServiceClient from "../ServiceClient.js"
import * as TinkerError from "../TinkerError.js"
import * as TinkerFuture from "../TinkerFuture.js"
import * as Observer from "./observer.js"
import type * as Poll from "./poll.js"
import type * as QueueLog from "./queueLog.js"
import * as Turnstile from "./turnstile.js"

/** @internal */
export interface Origin {
  readonly module: string
  readonly method: string
}

/** An operation that answers with a future. */
interface Operation<A> {
  readonly method: string
  /** The name the server knows it by. */
  readonly requestType: string
  readonly decoder: Poll.Decoder<A>
}

/** Sends one request under the number it is given. */
type Send = (seqId: number) => Effect.Effect<Future.UntypedFuture, TinkerError.TinkerError>

type Accepted<A> = Effect.Effect<TinkerFuture.TinkerFuture<A>, TinkerError.TinkerError>

/** @internal */
export interface Submission {
  /** One request in its turn. */
  readonly one: <A>(operation: Operation<A>, send: Send) => Accepted<A>
  /** Several requests of one operation in one turn; `first last` when they go in parallel. */
  readonly many: <A>(
    operation: Operation<A>,
    sends: ReadonlyArray<Send>,
    parallel: boolean
  ) => Effect.Effect<ReadonlyArray<TinkerFuture.TinkerFuture<A>>, TinkerError.TinkerError>
  /** Runs several submissions in one turn, so that nothing comes between them. */
  readonly together: <A>(
    run: (line: Submission) => Effect.Effect<A, TinkerError.TinkerError>
  ) => Effect.Effect<A, TinkerError.TinkerError>
  /** One request, retried by the policy of its endpoint. */
  readonly call: <Request>(
    endpoint: Endpoint.Endpoint<Request, Future.UntypedFuture>,
    request: Request,
    method: string
  ) => Effect.Effect<Future.UntypedFuture, TinkerError.TinkerError>
}

const neverSent = new Set<string>([
  "InvalidInput",
  "Closed",
  "MissingCredential",
  "MalformedCredential",
  "CredentialCommandFailed"
])

/** @internal */
export const make: (options: {
  readonly service: ServiceClient.Internals
  readonly module: string
  readonly report: QueueLog.Report
}) => Effect.Effect<Submission, never, Scope.Scope> = Effect.fnUntraced(function*({ module, report, service }) {
  const { budgets, transport } = service
  const scope = yield* Effect.scope
  const line = yield* Turnstile.make(
    new TinkerError.Closed({ module, method: "submit", description: "its scope closed before the server answered" })
  )
  let seq = 0

  const future = <A>(operation: Operation<A>, accepted: Future.UntypedFuture, started: number) =>
    Effect.map(Clock.currentTimeMillis, (now) =>
      TinkerFuture.make({
        transport,
        scope,
        inflight: budgets.inflight,
        requestId: accepted.requestId,
        requestType: operation.requestType,
        from: { module, method: operation.method },
        decoder: operation.decoder,
        roundtrip: (now - started) / 1000,
        onEvent: report
      }))

  const numbered = (send: Send): ReturnType<Send> =>
    Effect.suspend(() => {
      const number = ++seq
      return Effect.tapError(send(number), (error) =>
        Effect.sync(() => {
          if (neverSent.has(error._tag) && seq === number) seq--
        }))
    })

  const sendOne = <A>(operation: Operation<A>, send: Send, started: number): Accepted<A> =>
    Effect.flatMap(numbered(send), (accepted) => future(operation, accepted, started))

  /**
   * The server holds later numbers until the first has come: sent last, it finds its batch complete. It is sent even if
   * another one failed, for a number that never comes could hold up everything after it.
   */
  const sendParallel = (sends: ReadonlyArray<Send>) =>
    Effect.suspend(() => {
      const base = seq
      seq += sends.length
      const [first, ...rest] = sends.map((send, i) => Effect.exit(send(base + 1 + i)))
      if (first === undefined) return Effect.succeed([])
      return Effect.flatMap(Effect.all(rest, { concurrency: "unbounded" }), (others) =>
        Effect.flatMap(first, (own) => {
          const exits = [own, ...others]
          if (exits.every((exit) => Exit.isFailure(exit) && neverSentCause(exit))) seq = base
          return Effect.all(exits)
        }))
    })

  const sendMany = <A>(operation: Operation<A>, sends: ReadonlyArray<Send>, parallel: boolean, started: number) =>
    Effect.flatMap(
      parallel && sends.length > 1 ? sendParallel(sends) : Effect.forEach(sends, numbered),
      Effect.forEach((accepted) => future(operation, accepted, started))
    )

  const call: Submission["call"] = (endpoint, request, method) =>
    transport.call(endpoint, request, { from: { module, method } })

  const within = (
    turn: <A>(send: Effect.Effect<A, TinkerError.TinkerError>) => Effect.Effect<A, TinkerError.TinkerError>
  ) =>
    ({
      one: (operation, send) =>
        Effect.flatMap(Clock.currentTimeMillis, (started) => turn(sendOne(operation, send, started))),
      many: (operation, sends, parallel) =>
        Effect.flatMap(Clock.currentTimeMillis, (started) => turn(sendMany(operation, sends, parallel, started))),
      together: (run) => turn(run(inTurn)),
      call
    }) satisfies Submission

  const inTurn: Submission = within((send) => send)

  return within((send) => Observer.reported(transport.emit, line.take(send)))
})

const neverSentCause = (exit: Exit.Failure<unknown, TinkerError.TinkerError>): boolean =>
  exit.cause._tag === "Fail" && neverSent.has(exit.cause.error._tag)
