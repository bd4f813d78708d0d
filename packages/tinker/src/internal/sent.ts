/**
 * Tells whoever pays whether an operation has left this process: what was never sent costs nothing.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FiberRef from "effect/FiberRef"
import * as GlobalValue from "effect/GlobalValue"
import type { Pool } from "../Endpoint.js"

const listener: FiberRef.FiberRef<(() => void) | undefined> = GlobalValue.globalValue(
  "effect-tinker/internal/sent",
  () => FiberRef.unsafeMake<(() => void) | undefined>(undefined)
)

const paid: ReadonlySet<Pool> = new Set<Pool>(["training", "sampling", "completions"])

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

/** @internal */
export const mark = <A, E, R>(pool: Pool, send: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  paid.has(pool)
    ? Effect.withFiberRuntime((fiber) => {
      fiber.getFiberRef(listener)?.()
      return send
    })
    : send
