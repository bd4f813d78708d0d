/**
 * A budget of bytes in flight that can be overdrawn once.
 *
 * A caller waits only while the balance is negative, so a request larger than the whole budget is admitted alone
 * instead of waiting for ever. Waiters are served in arrival order.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type { Gate } from "./fifoSemaphore.js"
import { makeGate } from "./fifoSemaphore.js"

/** @internal */
export interface ByteBudget extends Gate {
  readonly withBytes: (bytes: number) => <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** @internal */
export const make = (bytes: number): ByteBudget => {
  const gate = makeGate({ size: bytes, admits: (balance) => balance >= 0 })
  return { ...gate, withBytes: gate.admit }
}
