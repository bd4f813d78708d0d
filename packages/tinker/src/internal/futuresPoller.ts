/**
 * One poll for all samples of a sampler, instead of one for each.
 *
 * It runs only while someone waits. A failure that is final fails those who wait now; the next one who waits starts it
 * again where it stopped.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FiberId from "effect/FiberId"
import type * as Scope from "effect/Scope"
import * as Api from "../Api.js"
import type { SamplingSessionTarget } from "../Future.js"
import { FutureCompletion, FuturesRetrieveRequest } from "../Future.js"
import type { RequestId } from "../Id.js"
import type * as QueueState from "../QueueState.js"
import * as RetryPolicy from "../RetryPolicy.js"
import * as TinkerError from "../TinkerError.js"
import type * as Transport from "./transport.js"

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

/** @internal */
export const make = (options: Options): FuturesPoller => {
  const { giveUp, onEvent, scope, target, transport } = options
  const waiters = new Map<RequestId, Waiter>()
  const completions = new Map<RequestId, FutureCompletion>()
  const done = new Set<RequestId>()
  let cursor = 0
  let running = false

  const failAll = (error: TinkerError.TinkerError) => {
    const all = [...waiters.values()]
    waiters.clear()
    for (const waiter of all) Deferred.unsafeDone(waiter, Effect.fail(error))
  }

  const complete = (completion: FutureCompletion) => {
    if (completion.state !== "finished" && completion.state !== "failed") return
    const waiter = waiters.get(completion.requestId)
    if (waiter === undefined) {
      // Its receipt may still be on the way.
      completions.set(completion.requestId, completion)
    } else {
      waiters.delete(completion.requestId)
      Deferred.unsafeDone(waiter, Effect.succeed(completion))
    }
  }

  const loop = Effect.gen(function*() {
    let bad = 0
    let quickly = 0
    let heard = yield* Clock.currentTimeMillis
    let reported = heard
    while (waiters.size > 0) {
      const sent = yield* Clock.currentTimeMillis
      const stuck = giveUp(sent)
      if (stuck !== undefined) {
        failAll(stuck)
        break
      }
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
      if (Either.isLeft(answer)) {
        const error = answer.left
        if (yield* transport.pauseForBilling(error, Api.retrieveFutures.name)) continue
        const again = error.status === 400 ? bad++ < badRequests : TinkerError.isRetryable(error)
        if (!again) {
          failAll(error)
          break
        }
        yield* tell({ _tag: "Retrying", error, attempt: ++quickly, delay: pause }, now - heard)
        yield* Effect.sleep(pause)
        continue
      }
      bad = 0
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
      } else {
        if (now - reported >= reportEvery) {
          reported = now
          yield* tell({ _tag: "Queued", state: "unknown", reason: `${waiters.size} samples without news` }, now - heard)
        }
        quickly = now - sent < held ? quickly + 1 : 0
        if (quickly > 1) yield* Effect.sleep(pause)
      }
    }
    // In one step with the look at those who wait: whoever comes next starts the loop again.
    running = false
  }).pipe(
    Effect.onInterrupt(() =>
      Effect.sync(() =>
        failAll(new TinkerError.Closed({ ...from, description: "its scope closed while a sample was awaited" }))
      )
    )
  )

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
    if (running) return Effect.void
    running = true
    return Effect.asVoid(Effect.forkIn(Effect.interruptible(loop), scope))
  })

  return {
    waitFor: (requestId) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const known = completions.get(requestId)
          if (known !== undefined) {
            completions.delete(requestId)
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
