/**
 * One poll for all samples of a sampler, instead of one for each.
 *
 * It runs only while someone waits. A failure that is final fails those who wait now; the next one who waits starts it
 * again where it stopped.
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
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Api from "../Api.js"
import type { SamplingSessionTarget } from "../Future.js"
import { FutureCompletion, FuturesRetrieveRequest } from "../Future.js"
import type { RequestId } from "../Id.js"
import type * as QueueState from "../QueueState.js"
import * as RetryPolicy from "../RetryPolicy.js"
import * as TinkerError from "../TinkerError.js"
import * as Drive from "./drive.js"
import type * as Transport from "./transport.js"
import { forkQuietly } from "./turnstile.js"

/** @internal */
export interface FuturesPoller {
  /** Waits until the operation has ended; what it ended with must still be fetched. */
  readonly waitFor: (requestId: RequestId) => Effect.Effect<FutureCompletion, TinkerError.TinkerError>
  /** The result has been fetched: the server may forget it. */
  readonly fetched: (requestId: RequestId) => void
}

/** @internal */
export interface Options {
  readonly transport: Transport.Service
  readonly target: SamplingSessionTarget
  readonly scope: Scope.Scope
  /** Of failures in a row. One for all who wait: that of the client, whatever a single call runs under. */
  readonly policy: RetryPolicy.Policy
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
  /** The server says nothing about those who wait here, so we do. */
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<void>
}

type Waiter = Deferred.Deferred<FutureCompletion, TinkerError.TinkerError>

const from = { module: "SamplingClient", method: "sample" }

const badRequests = 3
const pause = Duration.seconds(1)
const reportEvery = 60_000

/** Answers faster than this without news come from a server that does not hold the request. */
const held = 1_000

/** What comes for nobody is kept for receipts still on the way; one that is so late as to be displaced polls for itself. */
const mostUnclaimed = 10_000

/** @internal */
export const make = (options: Options): FuturesPoller => {
  const { giveUp, onEvent, policy, scope, target, transport } = options
  const waiters = new Map<RequestId, Waiter>()
  /** Completions nobody waits for yet. */
  const unclaimed = new Map<RequestId, FutureCompletion>()
  const done = new Set<RequestId>()
  let cursor = 0
  let isRunning = false

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

  const failures = () => {
    let bad = 0
    let count = 0
    let drive: Drive.Drive | undefined
    return {
      reset: () => {
        bad = 0
        count = 0
        drive = undefined
      },
      /** Waits as the policy says, or gives up. */
      retry: Effect.fnUntraced(function*(error: TinkerError.TinkerError, now: number, waited: number) {
        if (yield* transport.pauseForBilling(error, Api.retrieveFutures.name)) return
        const isBad = error.status === 400
        if (isBad && bad++ >= badRequests) return yield* error
        drive ??= Drive.make(policy)
        const wait = isBad ? Option.some(Duration.toMillis(pause)) : yield* drive.next(now, error)
        if (Option.isNone(wait)) return yield* error
        const delay = Duration.millis(wait.value)
        const attempt = ++count
        transport.emit({
          _tag: "RetryScheduled",
          endpoint: Api.retrieveFutures.name,
          attempt,
          delay: wait.value,
          error
        })
        yield* tell({ _tag: "Retrying", error, attempt, delay }, waited)
        yield* Effect.sleep(delay)
      })
    }
  }

  const loop = Effect.gen(function*() {
    const failed = failures()
    let quickly = 0
    let heard = yield* Clock.currentTimeMillis
    let reported = heard
    while (waiters.size > 0) {
      const sent = yield* Clock.currentTimeMillis
      const stuck = giveUp(sent)
      if (stuck !== undefined) return yield* stuck
      const acknowledged = [...done]
      const answer = yield* Effect.either(transport.call(
        Api.retrieveFutures,
        new FuturesRetrieveRequest({
          target,
          prevCursor: cursor,
          retrievedRequestIds: acknowledged.length === 0 ? undefined : acknowledged
        }),
        { from, retry: RetryPolicy.never }
      ))
      const now = yield* Clock.currentTimeMillis
      // A 408 is no failure: the request was held as long as the server holds one.
      if (Either.isLeft(answer) && answer.left.status !== 408) {
        yield* failed.retry(answer.left, now, now - heard)
        continue
      }
      failed.reset()
      if (Either.isRight(answer)) {
        if (answer.right.cursor < cursor) {
          // The server counts anew, and what it had to say before is lost: everyone looks for their own result.
          for (const requestId of [...waiters.keys()]) complete(new FutureCompletion({ state: "finished", requestId }))
        }
        cursor = answer.right.cursor
        for (const requestId of acknowledged) done.delete(requestId)
        for (const completion of answer.right.completions) complete(completion)
        if (answer.right.completions.length > 0) {
          heard = now
          quickly = 0
          continue
        }
      }
      if (now - reported >= reportEvery) {
        reported = now
        yield* tell({ _tag: "Queued", state: "unknown", reason: `${waiters.size} samples without news` }, now - heard)
      }
      quickly = now - sent < held ? quickly + 1 : 0
      if (quickly > 1) yield* Effect.sleep(pause)
    }
    // In one step with the look at those who wait: whoever comes next starts the loop again.
    isRunning = false
  })

  const polling = Effect.onError(loop, (cause) =>
    Effect.sync(() => {
      isRunning = false
      failAll(
        Cause.isInterruptedOnly(cause)
          ? Cause.fail(new TinkerError.Closed({ ...from, description: "its scope closed while a sample was awaited" }))
          : cause
      )
    }))

  const tell = (
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

  const ensureRunning = Effect.suspend(() => {
    if (isRunning) return Effect.void
    isRunning = true
    return Effect.asVoid(forkQuietly(Effect.interruptible(polling), scope))
  })

  return {
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
    fetched: (requestId) => {
      done.add(requestId)
    }
  }
}
