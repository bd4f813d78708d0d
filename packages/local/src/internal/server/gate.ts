/**
 * Holds work back on request, so that clients can be seen waiting.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { QueueReport } from "./futures.js"

/** @internal */
export interface GateShape {
  readonly wait: Effect.Effect<void>
  /** Why work is held back, if it is. */
  readonly report: () => QueueReport | undefined
  readonly pause: (report: QueueReport) => Effect.Effect<void>
  readonly resume: Effect.Effect<void>
}

/** @internal */
export class Gate extends Context.Tag("@effect-tinker/local/Gate")<Gate, GateShape>() {}

/** @internal */
export const layer: Layer.Layer<Gate> = Layer.effect(
  Gate,
  Effect.map(Effect.makeLatch(true), (latch) => {
    let current: QueueReport | undefined
    return Gate.of({
      wait: latch.await,
      report: () => current,
      pause: (report) => Effect.zipRight(Effect.sync(() => current = report), Effect.asVoid(latch.close)),
      resume: Effect.zipRight(Effect.sync(() => current = undefined), Effect.asVoid(latch.open))
    })
  })
)
