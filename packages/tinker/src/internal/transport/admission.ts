/**
 * Admission in strict arrival order: a FIFO semaphore, a byte budget, and a turnstile.
 *
 * `Effect.makeSemaphore` wakes every waiter at each release and lets a late caller overtake them; with thousands of
 * waiters it collapses. Here a release hands its permits to the head of the line, so order is kept and every step
 * costs O(1).
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"

type Restore = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

interface Gate {
  /** Runs the effect once `cost` has been admitted, and gives the cost back when it ends, however it ends. */
  readonly admit: (cost: number) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Waits for admission; the caller must then `release` the same cost. Interrupted while waiting, it must not.
   *
   * Must run in the uninterruptible region whose `restore` it is given: a wait that ended inside an interruptible
   * region could be interrupted after the grant and before its caller had seen it.
   */
  readonly enter: (restore: Restore, cost: number) => Effect.Effect<void>
  /** Gives back what `enter` admitted. */
  readonly release: (cost: number) => Effect.Effect<void>
  /**
   * Admits at once, or not at all: never before the waiters. An admitted caller must `leave`. Without an Effect, for
   * paths that are taken thousands of times a second.
   */
  readonly tryEnter: (cost: number) => boolean
  /** Gives back what `tryEnter` admitted. */
  readonly leave: (cost: number) => void
  /** Changes the total; what is already admitted stays admitted. */
  readonly resize: (size: number) => Effect.Effect<void>
  /** Rest of the total; negative while overdrawn or shrunk. */
  readonly balance: Effect.Effect<number>
  /** How many callers wait in line. */
  readonly waiting: Effect.Effect<number>
}

interface Waiter {
  readonly cost: number
  granted: boolean
  wake: (() => void) | undefined
  previous: Waiter | undefined
  next: Waiter | undefined
}

/**
 * Does something when the effect has ended, however it ended. For use in an uninterruptible region, of which
 * `Effect.ensuring` would open another one for each call.
 */
const finishing = <A, E, R>(self: Effect.Effect<A, E, R>, finish: () => void): Effect.Effect<A, E, R> =>
  Effect.matchCauseEffect(self, {
    onFailure: (cause) => {
      finish()
      return Effect.failCause(cause)
    },
    onSuccess: (value) => {
      finish()
      return Effect.succeed(value)
    }
  })

const makeGate = (options: {
  readonly size: number
  /** Whether a request of this cost may enter now. Must hold for some balance, or its caller would wait forever. */
  readonly admits: (balance: number, cost: number, size: number) => boolean
  /** Called with the permits in use, whenever that changes. */
  readonly onChange?: ((taken: number) => void) | undefined
}): Gate => {
  let size = options.size
  let balance = options.size
  let head: Waiter | undefined
  let tail: Waiter | undefined
  let length = 0

  const unlink = (waiter: Waiter) => {
    if (waiter.previous === undefined) head = waiter.next
    else waiter.previous.next = waiter.next
    if (waiter.next === undefined) tail = waiter.previous
    else waiter.next.previous = waiter.previous
    length--
  }

  const handOver = () => {
    while (head !== undefined && options.admits(balance, head.cost, size)) {
      const waiter = head
      unlink(waiter)
      balance -= waiter.cost
      options.onChange?.(size - balance)
      waiter.granted = true
      waiter.wake?.()
    }
  }

  const giveBack = (cost: number) => {
    balance += cost
    options.onChange?.(size - balance)
    handOver()
  }

  const enqueue = (cost: number): Waiter => {
    const waiter: Waiter = { cost, granted: false, next: undefined, previous: tail, wake: undefined }
    if (tail === undefined) head = waiter
    else tail.next = waiter
    tail = waiter
    length++
    return waiter
  }

  const wait = (waiter: Waiter): Effect.Effect<void> =>
    Effect.async<void>((resume) => {
      if (waiter.granted) resume(Effect.void)
      else waiter.wake = () => resume(Effect.void)
    })

  // Interruption may arrive between the grant and the wake-up: then the permit travels on to the next in line.
  const abandon = (waiter: Waiter) => {
    if (waiter.granted) {
      giveBack(waiter.cost)
    } else {
      unlink(waiter)
      // A departed head may have been the only thing too large to fit.
      handOver()
    }
  }

  const tryEnter = (cost: number): boolean => {
    if (head !== undefined || !options.admits(balance, cost, size)) return false
    balance -= cost
    options.onChange?.(size - balance)
    return true
  }

  const enter = (restore: Restore, cost: number): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (tryEnter(cost)) return Effect.void
      const waiter = enqueue(cost)
      return Effect.flatMap(Effect.exit(restore(wait(waiter))), (exit) => {
        if (Exit.isSuccess(exit)) return Effect.void
        abandon(waiter)
        return exit
      })
    })

  const release = (cost: number) => Effect.sync(() => giveBack(cost))

  return {
    admit: (cost) => (self) =>
      Effect.uninterruptibleMask((restore) => {
        const inside = () => finishing(restore(self), () => giveBack(cost))
        return tryEnter(cost) ? inside() : Effect.flatMap(enter(restore, cost), inside)
      }),
    enter,
    release,
    tryEnter,
    leave: giveBack,
    resize: (next) =>
      Effect.sync(() => {
        balance += next - size
        size = next
        handOver()
      }),
    balance: Effect.sync(() => balance),
    waiting: Effect.sync(() => length)
  }
}

/** @internal */
export interface FifoSemaphore extends Gate {
  readonly withPermit: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/**
 * A semaphore that serves callers strictly in the order in which they asked. A request for more than the total waits
 * for the whole total instead of forever.
 *
 * @internal
 */
export const makeSemaphore = (permits: number, onChange?: (taken: number) => void): FifoSemaphore => {
  const gate = makeGate({ size: permits, admits: (balance, cost, size) => balance >= Math.min(cost, size), onChange })
  return { ...gate, withPermit: gate.admit(1) }
}

// -----------------------------------------------------------------------------
// A budget of bytes in flight that can be overdrawn once.
//
// A caller waits only while the balance is negative, so a request larger than the whole budget is admitted alone
// instead of waiting forever. Waiters are served in arrival order.
// -----------------------------------------------------------------------------

/** @internal */
export interface ByteBudget extends Gate {
  readonly withBytes: (bytes: number) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** @internal */
export const makeByteBudget = (bytes: number): ByteBudget => {
  const gate = makeGate({ size: bytes, admits: (balance) => balance >= 0 })
  return { ...gate, withBytes: gate.admit }
}

// -----------------------------------------------------------------------------
// One send at a time, in the order in which the callers started.
//
// Left while queued, a caller simply disappears from the line. Left while sending, the send belongs to the turnstile's
// scope and settles there, so a request is never half sent; the caller itself returns at once.
// -----------------------------------------------------------------------------

/**
 * A fiber whose failure someone awaits: the runtime would log it as unhandled, with all that a server said.
 *
 * @internal
 */
export const forkQuietly = <A, E, R>(
  self: Effect.Effect<A, E, R>,
  scope: Scope.Scope
): Effect.Effect<Fiber.RuntimeFiber<A, E>, never, R> =>
  Effect.withUnhandledErrorLogLevel(Effect.forkIn(self, scope), Option.none())

interface Turnstile<E0> {
  readonly take: <A, E, R>(send: Effect.Effect<A, E, R>) => Effect.Effect<A, E | E0, R>
  /** How many callers wait for their turn. */
  readonly waiting: Effect.Effect<number>
}

/**
 * @param closed what a caller gets when the scope closes before its send has settled
 * @internal
 */
export const makeTurnstile: <E0>(closed: Effect.Effect<never, E0>) => Effect.Effect<Turnstile<E0>, never, Scope.Scope> =
  Effect
    .fnUntraced(function*<E0>(closed: Effect.Effect<never, E0>) {
      const scope = yield* Effect.scope
      const line = makeSemaphore(1)

      const settled = <A, E>(fiber: Fiber.RuntimeFiber<A, E>) => (exit: Exit.Exit<A, E>): Effect.Effect<A, E | E0> => {
        if (Exit.isSuccess(exit)) return Effect.as(Fiber.inheritAll(fiber), exit.value)
        // Nobody but the scope interrupts a send.
        return Cause.isInterruptedOnly(exit.cause) ? closed : exit
      }

      const take = <A, E, R>(send: Effect.Effect<A, E, R>): Effect.Effect<A, E | E0, R> =>
        Effect.uninterruptibleMask((restore) =>
          line.enter(restore, 1).pipe(
            // In a closed scope the fiber is interrupted before it starts, and still gives its turn back.
            Effect.zipRight(
              forkQuietly(Effect.ensuring(Effect.interruptible(send), line.release(1)), scope)
            ),
            Effect.flatMap((fiber) => Effect.flatMap(restore(Fiber.await(fiber)), settled(fiber)))
          )
        )

      return { take, waiting: line.waiting }
    })
