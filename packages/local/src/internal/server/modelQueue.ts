/**
 * The work of models: for each a queue of operations whose turn has come, and the fiber that makes the adapter and then runs
 * them one after the other.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type { Adapter } from "../../LocalAdapter.js"
import type { Future, OperationError, Outcome } from "./futures.js"
import { Futures, Gate, toOutcome } from "./futures.js"
import type { HttpFailure } from "./message.js"
import { tooMany } from "./message.js"
import { Settings } from "./settings.js"
import { Trace } from "./trace.js"

/** @internal */
export type Operation = (adapter: Adapter) => Effect.Effect<Outcome, OperationError>

/** @internal */
export interface Job {
  /** Its name in a trace. */
  readonly name: string
  /** Bytes of its request in memory. */
  readonly bytes: number
  readonly run: Operation
}

/** @internal */
export interface ModelQueue {
  /** Whether everything it accepted has an outcome. */
  readonly isIdle: () => boolean
  /** Makes the adapter, then runs what is offered, until it is stopped. */
  readonly start: Effect.Effect<void>
  /** Accepts an operation, whose turn may come later. */
  readonly accept: (future: Future, job: Job) => void
  /** The turn of these has come. */
  readonly offer: (ready: ReadonlyArray<Future>) => Effect.Effect<void>
  /** Ends the fiber; what has no outcome is gone. */
  readonly stop: (why: string) => Effect.Effect<void>
}

/** @internal */
export interface ModelQueues {
  /** Refuses a request for which there is no room beside those that wait. A single one is never too large. */
  readonly admit: (bytes: number) => Effect.Effect<void, HttpFailure>
  readonly make: (options: {
    readonly id: string
    readonly sessionId: string
    /** The future of its creation. */
    readonly created: Future
    readonly create: Effect.Effect<{ readonly adapter: Adapter; readonly outcome: Outcome }, OperationError>
  }) => Effect.Effect<ModelQueue>
}

/** The queues of a server's models, which have a budget of bytes in common. @internal */
export const make: Effect.Effect<ModelQueues, never, Futures | Gate | Settings | Trace | Scope.Scope> = Effect.gen(
  function*() {
    const futures = yield* Futures
    const gate = yield* Gate
    const trace = yield* Trace
    const { limits } = yield* Settings
    const scope = yield* Effect.scope
    let queuedBytes = 0

    return {
      admit: (bytes) =>
        queuedBytes > 0 && queuedBytes + bytes > limits.queuedBytes
          ? tooMany(`${queuedBytes} bytes of training requests are waiting; send more as they finish`)
          : Effect.void,
      make: Effect.fnUntraced(function*({ create, created, id, sessionId }) {
        const queue = yield* Queue.unbounded<Future>()
        const adapter = yield* Deferred.make<Adapter, string>()
        // Operations without an outcome, and the work for each (none for the creation).
        const open = new Map<Future, Job | undefined>([[created, undefined]])
        let worker: Fiber.RuntimeFiber<void> | undefined

        const settle = (future: Future, outcome: Outcome) =>
          Effect.suspend(() => {
            queuedBytes -= open.get(future)?.bytes ?? 0
            open.delete(future)
            return futures.settle(future, outcome)
          })

        const creation = Effect.zipRight(gate.wait, create).pipe(
          Effect.tap((made) => Deferred.succeed(adapter, made.adapter)),
          Effect.map(({ outcome }) => outcome),
          toOutcome,
          Effect.tap((outcome) => outcome._tag === "Failed" ? Deferred.fail(adapter, outcome.error) : Effect.void),
          Effect.flatMap((outcome) => settle(created, outcome))
        )

        const run = Effect.fnUntraced(function*(future: Future) {
          yield* gate.wait
          const job = open.get(future)
          if (job === undefined) return
          const made = yield* Effect.either(Deferred.await(adapter))
          yield* settle(
            future,
            made._tag === "Left"
              ? { _tag: "Failed", error: `The model could not be created: ${made.left}`, category: "user" }
              : yield* trace.span(sessionId, id, job.name, toOutcome(job.run(made.right)))
          )
        })

        const work = Effect.zipRight(creation, Effect.forever(Effect.flatMap(Queue.take(queue), run)))
        return {
          isIdle: () => open.size === 0,
          start: Effect.map(Effect.forkIn(Effect.interruptible(work), scope), (fiber) => {
            worker = fiber
          }),
          accept: (future, job) => {
            open.set(future, job)
            queuedBytes += job.bytes
          },
          offer: (ready) => Effect.asVoid(Queue.offerAll(queue, ready)),
          stop: Effect.fnUntraced(function*(why: string) {
            if (worker !== undefined) yield* Fiber.interrupt(worker)
            for (const future of Array.from(open.keys())) yield* settle(future, { _tag: "Gone", why })
          })
        }
      })
    }
  }
)
