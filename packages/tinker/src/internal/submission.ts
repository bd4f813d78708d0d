/**
 * The operations of one model on their way to the server: in the order in which they start, numbered without a gap.
 *
 * A number is taken inside the turn, so an operation that leaves the line takes none; it is taken outside the retries,
 * so a resend carries the same one; and it is given back when nothing has left this process.
 *
 * A request that got no final answer may never have arrived, and a server that keeps the order would wait for its number
 * for ever. So it is owed: sent once more, as it was, before the next one.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type * as Endpoint from "../Endpoint.js"
import type * as Future from "../Future.js"
import * as RetryPolicy from "../RetryPolicy.js"
import type * as ServiceClient from "../ServiceClient.js"
import * as TinkerError from "../TinkerError.js"
import * as TinkerFuture from "../TinkerFuture.js"
import * as Meters from "./meters.js"
import * as Observer from "./observer.js"
import type * as Poll from "./poll.js"
import type * as QueueLog from "./queueLog.js"
import * as Tracing from "./tracing.js"
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
  /** For its span. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
  /** Told when its result has come. */
  readonly onResult?: ((now: number) => void) | undefined
}

interface Numbered {
  readonly modelId?: string | undefined
  readonly seqId?: number | undefined
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
    method: string,
    run: (line: Submission) => Effect.Effect<A, TinkerError.TinkerError>
  ) => Effect.Effect<A, TinkerError.TinkerError>
  /** One request, retried by the policy of its endpoint; whenever it is sent, under the same key. */
  readonly call: <Request extends Numbered>(
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

/** Neither accepted nor refused: whether the server knows of it is unknown. */
const unanswered = (error: TinkerError.TinkerError): boolean =>
  error._tag === "BillingBlocked" || TinkerError.isRetryable(error)

/** Tries of a request that is owed, after the first; the policy in force may allow fewer. */
const resends = 3

/** More than a pass has pieces is owed only while nothing gets through at all. */
const mostOwed = 16

/** @internal */
export const make: (options: {
  readonly service: ServiceClient.Internals
  readonly module: string
  readonly report: QueueLog.Report
  /** Of every span. */
  readonly attributes: Readonly<Record<string, unknown>>
}) => Effect.Effect<Submission, never, Scope.Scope> = Effect.fnUntraced(function*({
  attributes,
  module,
  report,
  service
}) {
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
        onEvent: report,
        onResult: (end) => {
          Meters.finished(operation.requestType, end - started)
          operation.onResult?.(end)
        }
      }))

  /** In the order of their numbers. */
  let owed: ReadonlyArray<ReturnType<Send>> = []
  const owe = (sends: ReadonlyArray<ReturnType<Send>>) => {
    owed = [...owed, ...sends].slice(-mostOwed)
  }

  /** Sends what is owed, until something does not get through; what follows must not wait for it any longer. */
  const catchUp = Effect.gen(function*() {
    const { submit } = yield* transport.policies
    const bounded = RetryPolicy.provide({ submit: Schedule.intersect(submit, Schedule.recurs(resends)) })
    for (let [first] = owed; first !== undefined; [first] = owed) {
      const result = yield* Effect.either(bounded(first))
      if (Either.isLeft(result) && unanswered(result.left)) return
      owed = owed.slice(1)
    }
  })

  /** Whoever gets through settles the debt: a request the server does not take is not worth a third round. */
  const afterOwed = <A>(send: Effect.Effect<A, TinkerError.TinkerError>): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.suspend(() =>
      owed.length === 0 ? send : Effect.zipRight(
        catchUp,
        Effect.tap(send, () => {
          owed = []
        })
      )
    )

  const marked = (number: number, self: ReturnType<Send>): ReturnType<Send> =>
    transport.tracing.spans
      ? Effect.tap(
        Effect.zipRight(Tracing.annotate({ "tinker.seq_id": number }), self),
        ({ requestId }) => Tracing.annotate({ "tinker.request_id": requestId })
      )
      : self

  const numbered = (send: Send): ReturnType<Send> =>
    Effect.suspend(() => {
      const number = ++seq
      const sent = send(number)
      return Effect.tapError(marked(number, sent), (error) =>
        Effect.sync(() => {
          if (neverSent.has(error._tag) && seq === number) seq--
          else if (unanswered(error)) owe([sent])
        }))
    })

  const sendOne = <A>(operation: Operation<A>, send: Send, started: number): Accepted<A> =>
    Effect.flatMap(afterOwed(numbered(send)), (accepted) => future(operation, accepted, started))

  /**
   * The server holds later numbers until the first has come: sent last, it finds its batch complete. It is sent even if
   * another one failed, for a number that never comes could hold up everything after it.
   */
  const sendParallel = (sends: ReadonlyArray<Send>) =>
    Effect.suspend(() => {
      const base = seq
      seq += sends.length
      const numberedSends = sends.map((send, i) => send(base + 1 + i))
      const [first, ...rest] = numberedSends.map((send, i) => Effect.exit(marked(base + 1 + i, send)))
      if (first === undefined) return Effect.succeed([])
      return Effect.flatMap(Effect.all(rest, { concurrency: "unbounded" }), (others) =>
        Effect.flatMap(first, (own) => {
          const exits = [own, ...others]
          if (exits.every((exit) => failedWith(exit, ({ _tag }) => neverSent.has(_tag)))) seq = base
          else owe(numberedSends.filter((_, i) => exits.some((exit, j) => i === j && failedWith(exit, unanswered))))
          return Effect.all(exits)
        }))
    })

  const sendMany = <A>(operation: Operation<A>, sends: ReadonlyArray<Send>, parallel: boolean, started: number) =>
    Effect.flatMap(
      afterOwed(parallel && sends.length > 1 ? sendParallel(sends) : Effect.forEach(sends, numbered)),
      Effect.forEach((accepted) => future(operation, accepted, started))
    )

  const call: Submission["call"] = (endpoint, request, method) =>
    transport.call(endpoint, request, {
      from: { module, method },
      idempotencyKey: `effect-tinker-${request.modelId}-${request.seqId}`
    })

  const within = (
    turn: <A>(
      operation: Pick<Operation<A>, "method" | "attributes">,
      send: Effect.Effect<A, TinkerError.TinkerError>
    ) => Effect.Effect<A, TinkerError.TinkerError>
  ) =>
    ({
      one: (operation, send) =>
        Effect.flatMap(Clock.currentTimeMillis, (started) => turn(operation, sendOne(operation, send, started))),
      many: (operation, sends, parallel) =>
        Effect.flatMap(
          Clock.currentTimeMillis,
          (started) => turn(operation, sendMany(operation, sends, parallel, started))
        ),
      together: (method, run) => turn({ method }, run(inTurn)),
      call
    }) satisfies Submission

  const inTurn: Submission = within((_, send) => send)

  /** In its turn, the wait for which is counted. */
  const queued = <A>(send: Effect.Effect<A, TinkerError.TinkerError>): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.clockWith((clock) => {
      const asked = clock.unsafeCurrentTimeMillis()
      const admitted = Effect.suspend(() => {
        Meters.waited("turn", clock.unsafeCurrentTimeMillis() - asked)
        return send
      })
      return transport.tracing.spans ? Tracing.queued("turn", line.take, admitted) : line.take(admitted)
    })

  return within((operation, send) => {
    const turn = Observer.reported(transport.emit, queued(send))
    return transport.tracing.spans
      ? Tracing.within(`${module}.${operation.method}`, { ...attributes, ...operation.attributes }, turn)
      : turn
  })
})

const failedWith = <A>(
  exit: Exit.Exit<A, TinkerError.TinkerError>,
  is: (error: TinkerError.TinkerError) => boolean
): boolean => Exit.isFailure(exit) && exit.cause._tag === "Fail" && is(exit.cause.error)
