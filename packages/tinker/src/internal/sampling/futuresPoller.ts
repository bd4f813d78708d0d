/**
 * One poll for all samples of a sampler, instead of one for each.
 *
 * It runs only while someone waits or a fetched result has to be acknowledged. A final failure fails the current waiters;
 * the next waiter starts it again where it stopped.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import * as Scope from "effect/Scope"
import type * as QueueState from "../../QueueState.js"
import type * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { SamplingSessionTarget } from "../../wire/Future.js"
import { FutureCompletion, FuturesRetrieveRequest } from "../../wire/Future.js"
import type { RequestId } from "../../wire/Id.js"
import { forkQuietly } from "../transport/admission.js"
import type * as Calls from "../transport/calls.js"
import type * as Retry from "../transport/retry.js"

/** @internal */
export interface FuturesPoller {
  /** Waits until the operation has ended; what it ended with must still be fetched. */
  readonly waitFor: (requestId: RequestId) => Effect.Effect<FutureCompletion, TinkerError.TinkerError>
  /** The result has been fetched: the server may forget it. */
  readonly fetched: (requestId: RequestId) => Effect.Effect<void>
}

interface Options {
  readonly api: Calls.Calls & Retry.Retry
  readonly target: SamplingSessionTarget
  readonly scope: Scope.Scope
  /** Those of the client: the poll serves all samples, whatever policies a single one runs under. */
  readonly policies: RetryPolicy.Policies
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
  /** The server reports nothing about these waiters, so we do. */
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<void>
}

type Waiter = Deferred.Deferred<FutureCompletion, TinkerError.TinkerError>

const from = { module: "SamplingClient", method: "sample" }

const pause = Duration.seconds(1)
const reportEvery = 60_000

/** Answers faster than this without news come from a server that does not hold the request. */
const held = 1_000

/**
 * Completions without a waiter are kept for receipts still in transit; a receipt that arrives after its entry was evicted
 * polls for itself.
 */
const mostUnclaimed = 10_000

/** A poll that only acknowledges is answered at once. */
const acknowledgeWithin = Duration.seconds(5)

/**
 * Results not yet acknowledged when the scope closes are acknowledged then, if the server answers at once.
 *
 * @internal
 */
export const make = (options: Options): Effect.Effect<FuturesPoller> => {
  const { api, giveUp, onEvent, policies, scope, target } = options
  const waiters = new Map<RequestId, Waiter>()
  /** Completions nobody waits for yet. */
  const unclaimed = new Map<RequestId, FutureCompletion>()
  const done = new Set<RequestId>()
  let cursor = 0
  /** The newest cursor the server has had from us. */
  let reported = 0
  let isRunning = false

  const hasUnreported = () => done.size > 0 || cursor > reported

  const failAll = (cause: Cause.Cause<TinkerError.TinkerError>) => {
    const all = [...waiters.values()]
    waiters.clear()
    for (const waiter of all) Deferred.unsafeDone(waiter, Effect.failCause(cause))
  }

  const complete = (completion: FutureCompletion) => {
    const { requestId, state } = completion
    if (state !== "finished" && state !== "failed") return
    const waiter = waiters.get(requestId)
    if (waiter !== undefined) {
      waiters.delete(requestId)
      Deferred.unsafeDone(waiter, Effect.succeed(completion))
      return
    }
    unclaimed.set(requestId, completion)
    const [oldest] = unclaimed.keys()
    if (oldest !== undefined && unclaimed.size > mostUnclaimed) unclaimed.delete(oldest)
  }

  /** Changes since the last poll; `undefined` when there are none. */
  const ask = (acknowledged: ReadonlyArray<RequestId>, prevCursor: number, onlyAcknowledges: boolean) =>
    api.attempt(
      Api.retrieveFutures,
      new FuturesRetrieveRequest({
        target,
        prevCursor,
        timeout: onlyAcknowledges ? 0 : undefined,
        retrievedRequestIds: acknowledged.length === 0 ? undefined : acknowledged
      }),
      { from, background: true, timeout: onlyAcknowledges ? acknowledgeWithin : undefined }
    ).pipe(
      Effect.flatMap(({ body, headers, status }) =>
        Either.mapLeft(
          Api.retrieveFutures.response.decode(body, headers["content-type"]),
          (description) => new TinkerError.MalformedResponse({ ...from, status, description })
        )
      ),
      // Not a failure: the request was held as long as the server holds one.
      Effect.catchIf((error) => error.status === 408, () => Effect.succeed(undefined))
    )

  const retried = (acknowledged: ReadonlyArray<RequestId>, prevCursor: number, heard: number) =>
    Effect.catchAll(ask(acknowledged, prevCursor, false), (error) =>
      api.again({
        name: Api.retrieveFutures.name,
        class: Api.retrieveFutures.retry,
        error,
        policies,
        run: () =>
          Effect.flatMap(Clock.currentTimeMillis, (now) => {
            const stuck = giveUp(now)
            return stuck === undefined ? ask(acknowledged, prevCursor, false) : Effect.fail(stuck)
          }),
        onDecision: ({ delay, error, failures }) =>
          delay === undefined
            ? Effect.void
            : Effect.flatMap(
              Clock.currentTimeMillis,
              (now) =>
                publish({ _tag: "Retrying", error, attempt: failures, delay: Duration.millis(delay) }, now - heard)
            )
      }))

  const accept = (next: number, prevCursor: number, acknowledged: ReadonlyArray<RequestId>) => {
    reported = next < cursor ? 0 : Math.max(reported, prevCursor)
    cursor = next
    for (const requestId of acknowledged) done.delete(requestId)
  }

  /** Once, and without a retry: what the server has not heard it hears with the next poll. */
  const acknowledge: Effect.Effect<void, TinkerError.TinkerError> = Effect.suspend(() => {
    if (!hasUnreported()) return Effect.void
    const acknowledged = [...done]
    const prevCursor = cursor
    return Effect.map(ask(acknowledged, prevCursor, true), (news) => {
      if (news === undefined) return
      accept(news.cursor, prevCursor, acknowledged)
      for (const completion of news.completions) complete(completion)
    })
  })

  const loop: Effect.Effect<void, TinkerError.TinkerError> = Effect.gen(function*() {
    let quickly = 0
    let heard = yield* Clock.currentTimeMillis
    let published = heard
    while (waiters.size > 0) {
      const sent = yield* Clock.currentTimeMillis
      const stuck = giveUp(sent)
      if (stuck !== undefined) return yield* stuck
      const acknowledged = [...done]
      const prevCursor = cursor
      const news = yield* retried(acknowledged, prevCursor, heard)
      const now = yield* Clock.currentTimeMillis
      if (news !== undefined) {
        if (news.cursor < cursor) {
          // The server has restarted its cursor, and earlier completions are lost: every sample polls for its own result.
          for (const requestId of [...waiters.keys()]) complete(new FutureCompletion({ state: "finished", requestId }))
        }
        accept(news.cursor, prevCursor, acknowledged)
        for (const completion of news.completions) complete(completion)
        if (news.completions.length > 0) {
          heard = now
          quickly = 0
          continue
        }
      }
      if (now - published >= reportEvery) {
        published = now
        yield* publish(
          { _tag: "Queued", state: "unknown", reason: `${waiters.size} samples without news` },
          now - heard
        )
      }
      quickly = now - sent < held ? quickly + 1 : 0
      if (quickly > 1) yield* Effect.sleep(pause)
    }
    // One that failed is made up for by the next poll, or at the end.
    const acknowledged = done.size > 0 && (yield* Effect.isSuccess(acknowledge))
    if (waiters.size > 0 || (acknowledged && done.size > 0)) return yield* Effect.suspend(() => loop)
    // In one step with the check for waiters: the next one starts the loop again.
    isRunning = false
  })

  // The handler is there before the loop can be interrupted, as it is where the scope has closed already.
  const polling = Effect.onError(Effect.interruptible(loop), (cause) =>
    Effect.sync(() => {
      isRunning = false
      failAll(
        Cause.isInterruptedOnly(cause)
          ? Cause.fail(new TinkerError.Closed({ ...from, description: "the scope closed while a sample was awaited" }))
          : cause
      )
    }))

  const publish = (
    what:
      | { readonly _tag: "Queued"; readonly state: QueueState.QueueState; readonly reason: string }
      | {
        readonly _tag: "Retrying"
        readonly error: TinkerError.TinkerError
        readonly attempt: number
        readonly delay: Duration.Duration
      },
    elapsed: number
  ): Effect.Effect<void> =>
    onEvent({ ...what, requestId: target.samplingSessionId, requestType: "Sample", elapsed: Duration.millis(elapsed) })

  const ensureRunning = Effect.uninterruptible(Effect.suspend(() => {
    if (isRunning) return Effect.void
    isRunning = true
    return Effect.asVoid(forkQuietly(polling, scope))
  }))

  const poller: FuturesPoller = {
    waitFor: (requestId) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const known = unclaimed.get(requestId)
          if (known !== undefined) {
            unclaimed.delete(requestId)
            return Effect.succeed(known)
          }
          const waiter: Waiter = Deferred.unsafeMake(FiberId.none)
          waiters.set(requestId, waiter)
          return Effect.zipRight(
            ensureRunning,
            Effect.onInterrupt(restore(Deferred.await(waiter)), () => Effect.sync(() => waiters.delete(requestId)))
          )
        })
      ),
    fetched: (requestId) =>
      Effect.suspend(() => {
        done.add(requestId)
        return ensureRunning
      })
  }
  return Effect.as(
    // Finalizers are uninterruptible, and a timeout cannot end an uninterruptible effect.
    Scope.addFinalizer(scope, Effect.ignore(Effect.timeout(Effect.interruptible(acknowledge), acknowledgeWithin))),
    poller
  )
}
