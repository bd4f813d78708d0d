/**
 * One send at a time, in the order in which the callers started.
 *
 * Left while queued, a caller simply disappears from the line. Left while sending, the send belongs to the turnstile's
 * scope and settles there, so a request is never half sent; the caller itself returns at once.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as FifoSemaphore from "./fifoSemaphore.js"

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

/** @internal */
export interface Turnstile<E0> {
  readonly take: <A, E, R>(send: Effect.Effect<A, E, R>) => Effect.Effect<A, E | E0, R>
  /** How many callers wait for their turn. */
  readonly waiting: Effect.Effect<number>
}

/**
 * @param closed what a caller gets when the scope closes before its send has settled
 * @internal
 */
export const make: <E0>(closed: Effect.Effect<never, E0>) => Effect.Effect<Turnstile<E0>, never, Scope.Scope> = Effect
  .fnUntraced(function*<E0>(closed: Effect.Effect<never, E0>) {
    const scope = yield* Effect.scope
    const line = FifoSemaphore.make(1)

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
