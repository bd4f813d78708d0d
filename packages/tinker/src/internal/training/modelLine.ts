/**
 * The line of one model: sends its operations one after another in the order in which they start, until each is accepted
 * and there is a future to await.
 *
 * Sequence numbers are 1, 2, 3 … without gaps, even if requests fail or are interrupted. A number is allocated inside the
 * turn, so an operation interrupted while queued uses none; it is allocated outside the retries, so a resend carries the
 * same one; and it is reused by the next request if the server cannot have seen it.
 *
 * A server that enforces the order waits indefinitely for a missing number. Two kinds of sequence numbers must therefore
 * be resent before the next request:
 *
 * - that of a request that may or may not have arrived: the same request is sent once more;
 * - that of a request that did not arrive while later ones did, as can happen among the chunks of a batch: its caller
 *   already knows that it failed, so a placeholder without effect takes the number.
 *
 * @since 0.2.0
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as FiberRef from "effect/FiberRef"
import * as GlobalValue from "effect/GlobalValue"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerFuture from "../../TinkerFuture.js"
import type * as Endpoint from "../../wire/Endpoint.js"
import type * as Future from "../../wire/Future.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as Accepted from "../polling/accepted.js"
import type * as Poll from "../polling/poll.js"
import type { ServiceContext } from "../session/session.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import type { PassForm } from "../transport/serverFacts.js"
import * as Delivery from "./delivery.js"
import type * as Unobserved from "./unobserved.js"

// -----------------------------------------------------------------------------
// Requests and operations as values.
// -----------------------------------------------------------------------------

interface Numbered {
  readonly seqId?: number | undefined
}

type Accepting<Body> = Endpoint.Endpoint<Body, Future.UntypedFuture>

/**
 * The endpoints of a request that servers read in different forms.
 *
 * @internal
 */
export interface Forms<Body> extends Readonly<Record<PassForm, Accepting<Body>>> {
  readonly forwardOnly: boolean
}

/**
 * A request that has no number yet.
 *
 * @internal
 */
export interface Request<Body> {
  readonly endpoint: Accepting<Body> | Forms<Body>
  readonly body: Body
  /** Estimated size, for the budget of bytes in flight. Defaults to nothing. */
  readonly bytes?: number | undefined
}

/**
 * An operation that returns a future for each of its requests.
 *
 * @internal
 */
export interface Operation<A, Body> {
  readonly method: string
  /** The name the server knows it by. */
  readonly requestType: string
  readonly decoder: Poll.Decoder<A>
  readonly requests: Arr.NonEmptyReadonlyArray<Request<Body>>
  /** Sends all requests at once, the first last. Defaults to one after another. */
  readonly parallel?: boolean | undefined
  /** For its span. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined
  /** Records the time at which a result arrived. */
  readonly onResult?: ((now: number) => void) | undefined
  /** It fails if an earlier operation failed unobserved. */
  readonly isBarrier?: boolean | undefined
}

type Futures<A> = Arr.NonEmptyReadonlyArray<TinkerFuture.TinkerFuture<A>>

type Sending<A> = Effect.Effect<A, TinkerError.TinkerError>

/** @internal */
export interface ModelLine {
  /** Sends an operation in its turn. */
  readonly send: <A, Body extends Numbered>(operation: Operation<A, Body>) => Sending<Futures<A>>
  /** Sends two operations in one turn, so that nothing comes between them; the second only if the first is accepted. */
  readonly sendBoth: <A, B, First extends Numbered, Second extends Numbered>(
    method: string,
    first: Operation<A, First>,
    second: Operation<B, Second>
  ) => Sending<readonly [Futures<A>, Futures<B>]>
  /**
   * The same, where the second is made from the results of the first: the turn is kept meanwhile, so that what was started
   * later comes after both. If making it fails, or its caller leaves, the turn goes on to the next; the second has taken
   * no number then.
   */
  readonly sendThrough: <A, B, E, R, First extends Numbered, Second extends Numbered>(
    method: string,
    first: Operation<A, First>,
    second: (results: Futures<A>) => Effect.Effect<Operation<B, Second>, E, R>
  ) => Effect.Effect<Futures<B>, TinkerError.TinkerError | E, R>
}

/** The model whose turn the fiber holds while it makes the second half of an operation. */
const holdsTurn: FiberRef.FiberRef<string | undefined> = GlobalValue.globalValue(
  "effect-tinker/internal/holdsTurn",
  () => FiberRef.unsafeMake<string | undefined>(undefined)
)

/** A copy of the request with its number, of the same class. */
const withNumber = <Body extends Numbered>(body: Body, seqId: number): Body =>
  Object.assign(Object.create(Object.getPrototypeOf(body)), body, { seqId })

// -----------------------------------------------------------------------------
// The line.
// -----------------------------------------------------------------------------

type Outcome = ApiClient.Outcome<Future.UntypedFuture>

/** A request under its number. It never fails: the error is part of the outcome. */
interface Submitted {
  readonly number: number
  readonly send: Effect.Effect<Outcome>
}

interface Receipt {
  readonly seqId: number
  readonly requestId: string
}

/** The fiber that started an operation: if it was interrupted before acceptance, it will never observe the outcome. */
interface Caller {
  hasLeft: boolean
  readonly left: Deferred.Deferred<void>
  readonly futures: Array<Accepted.Accepted<unknown>>
}

/** Retries of a request that must be resent; the policy in force may allow fewer. */
const resends = 3

/** Number of requests kept with all their data to be resent; older ones are replaced by placeholders. */
const mostKept = 16

const module = "TrainingClient"

const later = (first: Outcome, second: Outcome): Outcome => ({
  result: second.result,
  failures: [...first.failures, ...second.failures]
})

/** @internal */
export const make: <Body extends Numbered>(options: {
  readonly service: ServiceContext
  readonly modelId: string
  /** A request of the model that changes nothing. */
  readonly placeholder: Request<Body>
  readonly unobserved: Unobserved.Unobserved
}) => Effect.Effect<ModelLine, never, Scope.Scope> = Effect.fnUntraced(function*<Body extends Numbered>({
  modelId,
  placeholder,
  service,
  unobserved
}: {
  readonly service: ServiceContext
  readonly modelId: string
  readonly placeholder: Request<Body>
  readonly unobserved: Unobserved.Unobserved
}) {
  const { api, budgets } = service
  const { serverFacts } = api
  const scope = yield* Effect.scope
  const turns = yield* Admission.makeTurnstile(
    new TinkerError.Closed({ module, method: "submit", description: "the scope closed before the server responded" })
  )
  const report = Logs.makeQueueLog(`Training of ${modelId}`)

  // ---------------------------------------------------------------------------
  // One request under its number.
  // ---------------------------------------------------------------------------

  /**
   * In the form the server reads. A form that is refused is replaced by the other under the same number and key, without
   * a wait, and the tenant remembers which one was accepted.
   */
  const inForm = <Body>(
    forms: Forms<Body>,
    body: Body,
    options: ApiClient.CallOptions
  ): Effect.Effect<Outcome> =>
    Effect.suspend(() => {
      const form = serverFacts.passForm(forms.forwardOnly)
      const other: PassForm = form === "json" ? "protobuf" : "json"
      const isCertain = serverFacts.isCertain(form)
      const send = api.outcome(forms[form], body, options)
      // A 500 may be a refusal as long as the form is not known to work: then it is not retried.
      const first = isCertain ?
        send :
        Effect.flatMap(api.policies, (policies) =>
          Effect.provideService(send, RetryPolicy.RetryPolicy, {
            ...policies,
            submit: Schedule.whileInput(policies.submit, (error) => !serverFacts.refusesForm(form, error))
          }))

      return Effect.flatMap(first, (outcome) => {
        if (Either.isRight(outcome.result)) {
          if (!isCertain) serverFacts.acceptedPass(form)
          return Effect.succeed(outcome)
        }
        const refusal = outcome.result.left
        if (!serverFacts.refusesForm(form, refusal)) return Effect.succeed(outcome)
        return Effect.flatMap(api.outcome(forms[other], body, { ...options, retry: RetryPolicy.never }), (second) => {
          if (Either.isRight(second.result)) {
            serverFacts.acceptedPass(other)
            serverFacts.settledPasses(other)
            return Effect.as(
              serverFacts.note("passes", `The server reads passes as ${other}, not as ${form}`),
              later(outcome, second)
            )
          }
          // Both forms were refused, so the form was not the problem.
          const both: Outcome = { ...later(outcome, second), result: outcome.result }
          return refusal._tag === "Unavailable"
            ? Effect.map(send, (third) => later(both, third))
            : Effect.succeed(both)
        })
      })
    })

  const submitted = <Body extends Numbered>(
    number: number,
    { body, bytes, endpoint }: Request<Body>,
    method: string,
    key = `effect-tinker-${modelId}-${number}`
  ): Submitted => {
    const numbered = withNumber(body, number)
    const options: ApiClient.CallOptions = { from: { module, method }, idempotencyKey: key }
    const send = "forwardOnly" in endpoint
      ? inForm(endpoint, numbered, options)
      : api.outcome(endpoint, numbered, options)
    return { number, send: bytes === undefined ? send : budgets.dispatch.withBytes(bytes)(send) }
  }

  /** It has a key of its own, because it is not the request whose number it takes. */
  const replaced = (number: number): Submitted =>
    submitted(number, placeholder, "submit", `effect-tinker-${modelId}-${number}-placeholder`)

  // ---------------------------------------------------------------------------
  // Numbers without gaps.
  // ---------------------------------------------------------------------------

  let last = 0
  /** Requests to resend before the next one, in the order of their numbers. */
  let unsettled: ReadonlyArray<Submitted> = []

  /** Releases the numbers the server has not seen, from the last one down, and queues those it may be waiting for. */
  const settle = (failed: ReadonlyArray<readonly [request: Submitted, delivery: Delivery.Delivery]>) => {
    if (failed.length === 0) return
    const missing: Array<Submitted> = []
    for (const [request, delivery] of [...failed].reverse()) {
      if (delivery === "unknown") missing.unshift(request)
      else if (delivery === "unseen" && request.number === last) last--
      else if (delivery === "unseen") missing.unshift(replaced(request.number))
    }
    const all = [...unsettled, ...missing]
    unsettled = all.map((request, i) => i < all.length - mostKept ? replaced(request.number) : request)
  }

  /** Whether the server has the number now. */
  const resend = ({ send }: Submitted): Effect.Effect<boolean> =>
    Effect.map(
      send,
      ({ failures, result }) => Either.isRight(result) || Delivery.of(result.left, failures) === "refused"
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
   * Sends placeholders, each once, where the server accepts requests but not the one it should get first. Those that
   * still fail are given up.
   */
  const replaceRemaining = Effect.suspend(() => {
    const rest = unsettled
    unsettled = []
    return RetryPolicy.provide({ submit: RetryPolicy.never })(
      Effect.forEach(rest, ({ number }) => resend(replaced(number)))
    )
  })

  const afterUnsettled = <A>(send: Sending<A>): Sending<A> =>
    Effect.suspend(() => unsettled.length > 0 ? Effect.zipRight(catchUp, Effect.tap(send, replaceRemaining)) : send)

  const traced = ({ number, send }: Submitted): Effect.Effect<Outcome> =>
    api.tracing.spans
      ? Effect.tap(
        Effect.zipRight(Tracing.annotate({ "tinker.seq_id": number }), send),
        ({ result }) =>
          Either.isRight(result) ? Tracing.annotate({ "tinker.request_id": result.right.requestId }) : Effect.void
      )
      : send

  const receiptOf = ({ number }: Submitted, { result }: Outcome): Either.Either<Receipt, TinkerError.TinkerError> =>
    Either.map(result, ({ requestId }) => ({ seqId: number, requestId }))

  const failureOf = (request: Submitted, { failures, result }: Outcome) =>
    Either.isLeft(result) ? [[request, Delivery.of(result.left, failures)] as const] : []

  /** Sends requests in order; none after one that failed, so that no number is lost. */
  const oneByOne = <Body extends Numbered>({ method, requests }: Operation<unknown, Body>) =>
    Effect.forEach(requests, (one) =>
      Effect.suspend(() => {
        const request = submitted(++last, one, method)
        return Effect.flatMap(traced(request), (outcome) => {
          settle(failureOf(request, outcome))
          return receiptOf(request, outcome)
        })
      }))

  /**
   * The server holds later numbers until the first has come: sent last, it finds its batch complete. It is sent even if
   * another one failed, for a number that never comes could hold up everything after it.
   */
  const together = <Body extends Numbered>({ method, requests }: Operation<unknown, Body>) =>
    Effect.suspend(() => {
      const all = Arr.map(requests, (one) => submitted(++last, one, method))
      const exitOf = (request: Submitted) => Effect.map(Effect.exit(traced(request)), (exit) => ({ request, exit }))
      const [first, ...rest] = all
      return Effect.flatMap(
        Effect.forEach(rest, exitOf, { concurrency: "unbounded" }),
        (others) =>
          Effect.flatMap(exitOf(first), (own) => {
            const ended = Arr.prepend(others, own)
            settle(ended.flatMap(({ exit, request }) => Exit.isSuccess(exit) ? failureOf(request, exit.value) : []))
            return Effect.forEach(
              ended,
              ({ exit, request }) => Effect.flatMap(exit, (outcome) => receiptOf(request, outcome))
            )
          })
      )
    })

  // ---------------------------------------------------------------------------
  // Futures of accepted requests.
  // ---------------------------------------------------------------------------

  /** A function of its own: a closure in it would keep the requests as long as the future. */
  const accept = <A>(
    operation: Omit<Operation<A, never>, "requests">,
    { requestId, seqId }: Receipt,
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

  const future = <A, Body>(
    operation: Operation<A, Body>,
    receipt: Receipt,
    started: number,
    caller: Caller
  ): Effect.Effect<TinkerFuture.TinkerFuture<A>> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const future = accept(operation, receipt, started, now)
      const tracked = unobserved.track(operation.method, receipt.seqId, future)
      caller.futures.push(future)
      if (caller.hasLeft) future.observe()
      return Effect.as(
        tracked,
        operation.isBarrier === true ? unobserved.barrier(operation.method, receipt.seqId, future) : future
      )
    })

  const sendNow = <A, Body extends Numbered>(
    operation: Operation<A, Body>,
    started: number,
    caller: Caller
  ): Sending<Futures<A>> => {
    const receipts = operation.parallel === true && operation.requests.length > 1
      ? together(operation)
      : oneByOne(operation)
    const sent = Effect.flatMap(
      afterUnsettled(receipts),
      Effect.forEach((receipt) => future(operation, receipt, started, caller))
    )
    return operation.isBarrier === true ? Effect.zipRight(unobserved.raiseKnown(operation.method), sent) : sent
  }

  // ---------------------------------------------------------------------------
  // Turns.
  // ---------------------------------------------------------------------------

  /** In its turn, the wait for which is counted. */
  const queued = <A, E, R>(send: Effect.Effect<A, E, R>): Effect.Effect<A, E | TinkerError.TinkerError, R> =>
    Effect.clockWith((clock) => {
      const asked = clock.unsafeCurrentTimeMillis()
      const admitted = Effect.suspend(() => {
        Observer.waited("turn", clock.unsafeCurrentTimeMillis() - asked)
        return send
      })
      return api.tracing.spans ? Tracing.queued("turn", turns.take, admitted) : turns.take(admitted)
    })

  const inTurn = <A, E, R>(
    { attributes, method }: Pick<Operation<never, never>, "method" | "attributes">,
    send: (started: number, caller: Caller) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | TinkerError.TinkerError, R> =>
    Effect.flatMap(Clock.currentTimeMillis, (started) => {
      const caller: Caller = { hasLeft: false, left: Deferred.unsafeMake(FiberId.none), futures: [] }
      const sent = Effect.flatMap(FiberRef.get(holdsTurn), (holder) =>
        holder === modelId
          ? new TinkerError.InvalidInput({
            module,
            method,
            description:
              "started inside a custom loss of the same model, it would wait for the turn that the loss holds"
          })
          : queued(send(started, caller)))
      const turn = Effect.onInterrupt(reported(sent), () =>
        Effect.sync(() => {
          caller.hasLeft = true
          Deferred.unsafeDone(caller.left, Effect.void)
          for (const future of caller.futures) {
            future.observe()
          }
        }))
      return api.tracing.spans
        ? Tracing.within(`${module}.${method}`, { "tinker.model_id": modelId, ...attributes }, turn)
        : turn
    })

  /** A failure of ours, as opposed to one of the caller's own code. */
  const reported = <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.tapError(
      self,
      (error) =>
        TinkerError.isTinkerError(error)
          ? Effect.sync(() => api.emit({ _tag: "OperationFailed", error }))
          : Effect.void
    )

  const line: ModelLine = {
    send: (operation) => inTurn(operation, (started, caller) => sendNow(operation, started, caller)),
    sendBoth: (method, first, second) =>
      inTurn(
        { method },
        (started, caller) => Effect.zip(sendNow(first, started, caller), sendNow(second, started, caller))
      ),
    sendThrough: (method, first, second) =>
      inTurn({ method }, (started, caller) =>
        Effect.flatMap(sendNow(first, started, caller), (results) => {
          const made = Effect.locally(second(results), holdsTurn, modelId)
          // The turn belongs to the line, but what the caller computes in it belongs to the caller.
          return Effect.flatMap(
            Effect.raceFirst(made, Effect.zipRight(Deferred.await(caller.left), Effect.interrupt)),
            (operation) => sendNow(operation, started, caller)
          )
        }))
  }
  return line
})
