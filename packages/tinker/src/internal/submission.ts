/**
 * The operations of one model on their way to the server: in the order in which they start, each in its turn, until it is
 * accepted and there is a future to await.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Endpoint from "../Endpoint.js"
import type * as Future from "../Future.js"
import * as TinkerError from "../TinkerError.js"
import * as TinkerFuture from "../TinkerFuture.js"
import * as Meters from "./meters.js"
import * as Numbering from "./numbering.js"
import * as Observer from "./observer.js"
import type * as Decoder from "./poll/decoder.js"
import type * as QueueLog from "./queueLog.js"
import type { ServiceContext } from "./serviceContext.js"
import * as Tracing from "./tracing.js"
import * as Turnstile from "./turnstile.js"

/** An operation that answers with a future. */
interface Operation<A> {
  readonly method: string
  /** The name the server knows it by. */
  readonly requestType: string
  readonly decoder: Decoder.Decoder<A>
  /** For its span. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
  /** Told when its result has come. */
  readonly onResult?: ((now: number) => void) | undefined
}

interface Numbered {
  readonly modelId?: string | undefined
  readonly seqId?: number | undefined
}

type Accepted<A> = Effect.Effect<TinkerFuture.TinkerFuture<A>, TinkerError.TinkerError>

/** @internal */
export interface Submission {
  /** One request in its turn. */
  readonly one: <A>(operation: Operation<A>, send: Numbering.Send) => Accepted<A>
  /** Several requests of one operation in one turn; `first last` when they go in parallel. */
  readonly many: <A>(
    operation: Operation<A>,
    sends: ReadonlyArray<Numbering.Send>,
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

/** @internal */
export const make: (options: {
  readonly service: ServiceContext
  readonly module: string
  readonly report: QueueLog.Report
  /** Of every span. */
  readonly attributes: Readonly<Record<string, unknown>>
  /** A request of the model that changes nothing. */
  readonly placeholder: Numbering.Send
}) => Effect.Effect<Submission, never, Scope.Scope> = Effect.fnUntraced(function*({
  attributes,
  module,
  placeholder,
  report,
  service
}) {
  const { api, budgets } = service
  const scope = yield* Effect.scope
  const line = yield* Turnstile.make(
    new TinkerError.Closed({ module, method: "submit", description: "its scope closed before the server answered" })
  )
  const numbering = Numbering.make({ api, placeholder })

  const future = <A>(operation: Operation<A>, accepted: Future.UntypedFuture, started: number) =>
    Effect.map(Clock.currentTimeMillis, (now) =>
      TinkerFuture.make({
        api,
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

  const sendOne = <A>(operation: Operation<A>, send: Numbering.Send, started: number): Accepted<A> =>
    Effect.flatMap(numbering.one(send), (accepted) => future(operation, accepted, started))

  const sendMany = <A>(
    operation: Operation<A>,
    sends: ReadonlyArray<Numbering.Send>,
    parallel: boolean,
    started: number
  ) =>
    Effect.flatMap(
      parallel && sends.length > 1 ? numbering.parallel(sends) : numbering.serial(sends),
      Effect.forEach((accepted) => future(operation, accepted, started))
    )

  const call: Submission["call"] = (endpoint, request, method) =>
    api.call(endpoint, request, {
      from: { module, method },
      idempotencyKey: `effect-tinker-${request.modelId}-${request.seqId}`,
      onFailed: (error) => {
        if (request.seqId !== undefined) numbering.attemptFailed(request.seqId, error)
      }
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
      return api.tracing.spans ? Tracing.queued("turn", line.take, admitted) : line.take(admitted)
    })

  return within((operation, send) => {
    const turn = Observer.reported(api.emit, queued(send))
    return api.tracing.spans
      ? Tracing.within(`${module}.${operation.method}`, { ...attributes, ...operation.attributes }, turn)
      : turn
  })
})
