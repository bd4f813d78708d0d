/**
 * Tells whoever pays whether an operation has left this process: what was never sent costs nothing.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as FiberRef from "effect/FiberRef"
import * as GlobalValue from "effect/GlobalValue"
import type { Pool } from "../../Endpoint.js"

const listener: FiberRef.FiberRef<(() => void) | undefined> = GlobalValue.globalValue(
  "effect-tinker/internal/sent",
  () => FiberRef.unsafeMake<(() => void) | undefined>(undefined)
)

const paid: ReadonlySet<Pool> = new Set<Pool>(["training", "sampling"])

/**
 * Calls `onSent` when the effect, or a fiber it starts, sends a request of a kind that is paid for.
 *
 * @internal
 */
export const listen = (onSent: () => void) => <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.locallyWith(self, listener, (outer) => () => {
    outer?.()
    onSent()
  })

/**
 * Says that the fiber sends such a request now.
 *
 * @internal
 */
export const tell = (pool: Pool, fiber: Pick<Fiber.RuntimeFiber<unknown, unknown>, "getFiberRef">): void => {
  if (paid.has(pool)) fiber.getFiberRef(listener)?.()
}

/** @internal */
export const mark = <A, E, R>(pool: Pool, send: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  paid.has(pool)
    ? Effect.withFiberRuntime((fiber) => {
      tell(pool, fiber)
      return send
    })
    : send
