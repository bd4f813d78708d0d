/**
 * How fibers and the engine share Node's event loop with timers and sockets.
 */
import * as Effect from "effect/Effect"
import type { RuntimeFiber } from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import { globalValue } from "effect/GlobalValue"
import type { Scheduler, Task } from "effect/Scheduler"
import { PriorityBuckets } from "effect/Scheduler"

/**
 * Work between two turns of the loop: long enough for the turns to cost nothing, and about as long as Linux lets a thread
 * run while others wait for its core.
 *
 * @internal
 */
export const sliceMillis = 3

/** One turn of the loop, without the millisecond that the shortest timer takes. @internal */
export const turn: Effect.Effect<void> = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

class TimeSlicedScheduler implements Scheduler {
  private readonly waiting = new PriorityBuckets()
  private round: ReadonlyArray<Task> = []
  private next = 0
  private active = false
  /** When the first fiber ran after the loop's last turn. */
  private since: number | undefined

  /**
   * By the number of operations alone, as Effect's own scheduler. By the clock, a fiber on a busy machine would yield at any
   * operation, and some in Effect (3.22) cannot be interrupted safely: `Effect.all` with concurrency never ends, and a
   * semaphore loses its permits. Slices end between two runs of fibers, and work of the engine has slices of its own.
   */
  shouldYield(fiber: RuntimeFiber<unknown, unknown>): number | false {
    return fiber.currentOpCount > fiber.getFiberRef(FiberRef.currentMaxOpsBeforeYield)
      ? fiber.getFiberRef(FiberRef.currentSchedulingPriority)
      : false
  }

  scheduleTask(task: Task, priority: number): void {
    this.waiting.scheduleTask(task, priority)
    if (this.active) return
    this.active = true
    queueMicrotask(this.run)
  }

  private isDue(): boolean {
    return this.since !== undefined && performance.now() - this.since >= sliceMillis
  }

  private readonly turned = (): void => {
    this.since = undefined
  }

  private readonly runAfterTurn = (): void => {
    this.since = undefined
    this.run()
  }

  private readonly run = (): void => {
    if (this.since === undefined) {
      this.since = performance.now()
      setImmediate(this.turned)
    }
    try {
      while (!this.isDue()) {
        if (this.next === this.round.length) {
          this.round = this.waiting.buckets.flatMap(([, tasks]) => tasks)
          this.waiting.buckets = []
          this.next = 0
        }
        const task = this.round[this.next]
        if (task === undefined) {
          this.active = false
          return
        }
        this.next++
        task()
        // promises of others have their turn between two rounds
        if (this.next === this.round.length) return queueMicrotask(this.run)
      }
    } catch (defect) {
      setImmediate(this.runAfterTurn)
      throw defect
    }
    setImmediate(this.runAfterTurn)
  }
}

/**
 * Runs fibers until a slice is over, then lets the loop turn. Effect's own scheduler counts rounds of microtasks instead,
 * thousands of them: with the clients, the server and the engine in one process, fibers that wake one another keep timers
 * waiting for hundreds of milliseconds. There is one for the process, as there is one loop.
 *
 * @internal
 */
export const timeSlicedScheduler: Scheduler = globalValue(
  "@effect-tinker/local/timeSlicedScheduler",
  () => new TimeSlicedScheduler()
)
