/**
 * Sample requests waiting for the processor, first come first served.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import type { HttpFailure } from "./failure.js"
import { tooMany } from "./failure.js"
import type { Future, Outcome } from "./futures.js"
import { Futures } from "./futures.js"
import { Gate } from "./gate.js"
import type { OperationError } from "./outcomes.js"
import { toOutcome } from "./outcomes.js"
import { Settings } from "./settings.js"
import { Trace } from "./trace.js"

interface Job {
  readonly future: Future
  readonly run: Effect.Effect<Outcome, OperationError>
  readonly done: (outcome: Outcome) => Effect.Effect<void>
}

/** @internal */
export interface SamplePoolShape {
  /** Fails when too much is waiting already. */
  readonly admit: Effect.Effect<void, HttpFailure>
  readonly submit: (job: Job) => Effect.Effect<void>
}

/** @internal */
export class SamplePool extends Context.Tag("@effect-tinker/local/SamplePool")<SamplePool, SamplePoolShape>() {}

/** @internal */
export const layer: Layer.Layer<SamplePool, never, Futures | Gate | Settings | Trace> = Layer.scoped(
  SamplePool,
  Effect.gen(function*() {
    const futures = yield* Futures
    const gate = yield* Gate
    const { maxQueuedSamples, sampleConcurrency } = yield* Settings
    const trace = yield* Trace
    const queue = yield* Queue.unbounded<Job>()

    const work = Effect.fnUntraced(function*(job: Job, worker: number) {
      yield* gate.wait
      // settled from outside, it was cancelled: before its turn, or while it is computed
      if (job.future.outcome !== undefined) return
      const cancelled = Effect.as(Deferred.await(job.future.settled), undefined)
      const run = trace.span(job.future.sessionId, `sampling ${worker}`, job.future.requestId, toOutcome(job.run))
      const outcome = yield* Effect.raceFirst(run, cancelled)
      if (outcome === undefined) return
      yield* futures.settle(job.future, outcome)
      yield* job.done(outcome)
    })

    yield* Effect.forEach(
      Array.from({ length: sampleConcurrency }, (_, worker) => worker),
      (worker) => Effect.forkScoped(Effect.forever(Effect.flatMap(Queue.take(queue), (job) => work(job, worker)))),
      { discard: true }
    )

    return SamplePool.of({
      admit: Effect.flatMap(
        Queue.size(queue),
        (waiting) =>
          waiting < maxQueuedSamples ? Effect.void : tooMany(`${waiting} sample requests are waiting already`)
      ),
      submit: (job) => Effect.asVoid(Queue.offer(queue, job))
    })
  })
)
