/**
 * Submits the operations of one model in the order in which they start, each in its turn, until it is accepted and there
 * is a future to await.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerFuture from "../../TinkerFuture.js"
import type * as Endpoint from "../../wire/Endpoint.js"
import type * as Future from "../../wire/Future.js"
import type * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as Accepted from "../polling/accepted.js"
import type * as Poll from "../polling/poll.js"
import type { ServiceContext } from "../session/session.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as Sequence from "./sequence.js"
import type * as Unobserved from "./unobserved.js"

/** An operation that returns a future. */
interface Operation<A> {
  readonly method: string
  /** The name the server knows it by. */
  readonly requestType: string
  readonly decoder: Poll.Decoder<A>
  /** For its span. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
  /** Called when its result has arrived. */
  readonly onResult?: ((now: number) => void) | undefined
  /** It fails if an earlier operation failed unobserved. */
  readonly isBarrier?: boolean | undefined
}

interface Numbered {
  readonly modelId?: string | undefined
  readonly seqId?: number | undefined
}

/** The fiber that started an operation: if it was interrupted before acceptance, it will never observe the outcome. */
interface Caller {
  hasLeft: boolean
  readonly futures: Array<Accepted.Accepted<unknown>>
}

type Acceptance<A> = Effect.Effect<TinkerFuture.TinkerFuture<A>, TinkerError.TinkerError>

/** @internal */
export interface Submission {
  /** One request in its turn. */
  readonly one: <A>(operation: Operation<A>, send: Sequence.Send) => Acceptance<A>
  /** Several requests of one operation in one turn; `first last` when they go in parallel. */
  readonly many: <A>(
    operation: Operation<A>,
    sends: ReadonlyArray<Sequence.Send>,
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
    method: string,
    options?: ApiClient.CallOptions
  ) => Effect.Effect<Future.UntypedFuture, TinkerError.TinkerError>
}

/** @internal */
export const make: (options: {
  readonly service: ServiceContext
  readonly module: string
  readonly report: Logs.Report
  /** Of every span. */
  readonly attributes: Readonly<Record<string, unknown>>
  /** A request of the model that changes nothing. */
  readonly placeholder: Sequence.Send
  readonly unobserved: Unobserved.Unobserved
}) => Effect.Effect<Submission, never, Scope.Scope> = Effect.fnUntraced(function*({
  attributes,
  module,
  placeholder,
  report,
  service,
  unobserved
}) {
  const { api, budgets } = service
  const scope = yield* Effect.scope
  const line = yield* Admission.makeTurnstile(
    new TinkerError.Closed({ module, method: "submit", description: "the scope closed before the server responded" })
  )
  const numbering = Sequence.make({ api, placeholder })

  /** A function of its own: a closure in it would keep whatever the function around it knows as long as the future. */
  const accept = <A>(
    operation: Operation<A>,
    requestId: string,
    seqId: number,
    started: number,
    now: number
  ): Accepted.Accepted<A> =>
    new Accepted.Accepted({
      api,
      scope,
      inflight: budgets.inflight,
      requestId,
      requestType: operation.requestType,
      from: { module, method: operation.method },
      decoder: operation.decoder,
      roundtrip: (now - started) / 1000,
      started,
      seqId,
      onEvent: report,
      onObserved: unobserved.observed,
      onResult: operation.onResult
    })

  const future = <A>(
    operation: Operation<A>,
    accepted: Future.UntypedFuture,
    seqId: number,
    started: number,
    caller: Caller
  ): Effect.Effect<TinkerFuture.TinkerFuture<A>> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const future = accept(operation, accepted.requestId, seqId, started, now)
      const tracked = unobserved.track(operation.method, seqId, future)
      caller.futures.push(future)
      if (caller.hasLeft) future.observe()
      return Effect.as(
        tracked,
        operation.isBarrier === true ? unobserved.barrier(operation.method, seqId, future) : future
      )
    })

  /** The sequence number a request was sent with, for its future. */
  const noted = (send: Sequence.Send) => {
    const note = { seqId: 0, send: (seqId: number) => send(note.seqId = seqId) }
    return note
  }

  const sendOne = <A>(
    operation: Operation<A>,
    send: Sequence.Send,
    started: number,
    caller: Caller
  ): Acceptance<A> =>
    Effect.suspend(() => {
      const note = noted(send)
      const sent = Effect.flatMap(
        numbering.one(note.send),
        (accepted) => future(operation, accepted, note.seqId, started, caller)
      )
      return operation.isBarrier === true ? Effect.zipRight(unobserved.raiseKnown(operation.method), sent) : sent
    })

  const sendMany = <A>(
    operation: Operation<A>,
    sends: ReadonlyArray<Sequence.Send>,
    parallel: boolean,
    started: number,
    caller: Caller
  ) =>
    Effect.suspend(() => {
      const notes = sends.map(noted)
      const numbered = notes.map(({ send }) => send)
      return Effect.flatMap(
        parallel && sends.length > 1 ? numbering.parallel(numbered) : numbering.serial(numbered),
        Effect.forEach((accepted, i) => future(operation, accepted, notes[i]?.seqId ?? 0, started, caller))
      )
    })

  const call: Submission["call"] = (endpoint, request, method, options) =>
    api.call(endpoint, request, {
      ...options,
      from: { module, method },
      idempotencyKey: `effect-tinker-${request.modelId}-${request.seqId}`,
      onFailed: (error) => {
        if (request.seqId !== undefined) numbering.attemptFailed(request.seqId, error)
      }
    })

  const within = (
    turn: <A>(
      operation: Pick<Operation<A>, "method" | "attributes">,
      send: (caller: Caller) => Effect.Effect<A, TinkerError.TinkerError>
    ) => Effect.Effect<A, TinkerError.TinkerError>
  ): Submission => ({
    one: (operation, send) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (started) => turn(operation, (caller) => sendOne(operation, send, started, caller))
      ),
    many: (operation, sends, parallel) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (started) => turn(operation, (caller) => sendMany(operation, sends, parallel, started, caller))
      ),
    together: (method, run) => turn({ method }, (caller) => run(within((_, send) => send(caller)))),
    call
  })

  /** In its turn, the wait for which is counted. */
  const queued = <A>(send: Effect.Effect<A, TinkerError.TinkerError>): Effect.Effect<A, TinkerError.TinkerError> =>
    Effect.clockWith((clock) => {
      const asked = clock.unsafeCurrentTimeMillis()
      const admitted = Effect.suspend(() => {
        Observer.waited("turn", clock.unsafeCurrentTimeMillis() - asked)
        return send
      })
      return api.tracing.spans ? Tracing.queued("turn", line.take, admitted) : line.take(admitted)
    })

  return within((operation, send) =>
    Effect.suspend(() => {
      const caller: Caller = { hasLeft: false, futures: [] }
      const turn = Effect.onInterrupt(Observer.reported(api.emit, queued(send(caller))), () =>
        Effect.sync(() => {
          caller.hasLeft = true
          for (const future of caller.futures) future.observe()
        }))
      return api.tracing.spans
        ? Tracing.within(`${module}.${operation.method}`, { ...attributes, ...operation.attributes }, turn)
        : turn
    })
  )
})
