/**
 * Interruption between any two operations of a fiber. It arrives wherever the scheduler lets others run, which on a busy
 * machine is everywhere; what waits for the same thing must go on.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, FiberId, Scheduler } from "effect"
import * as Engine from "../src/Engine.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import { micro } from "./engine/support.js"

const prompt = LocalTokenizer.encode("the river runs ")

/** Counts the operations of a fiber, yields before one of them and interrupts it there. */
class InterruptsAt extends Scheduler.MixedScheduler {
  operations = 0
  constructor(private readonly at: number) {
    super(2048)
  }
  override shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    if (++this.operations !== this.at) return super.shouldYield(fiber)
    fiber.unsafeInterruptAsFork(FiberId.none)
    return 0
  }
}

/** Interrupts the effect before its first operation, its second, and so on, and looks whether `after` ends each time. */
const interruptedEverywhere = <A, E, B, E2>(
  self: Effect.Effect<A, E>,
  after: Effect.Effect<B, E2>,
  most: number
) =>
  Effect.gen(function*() {
    const inherited = yield* Effect.fork(self).pipe(Effect.flatMap(Fiber.await))
    assert.isTrue(inherited._tag === "Success")
    for (let at = 1; at <= most; at++) {
      const scheduler = new InterruptsAt(at)
      const fiber = yield* Effect.fork(Effect.withScheduler(self, scheduler))
      const beside = yield* Effect.fork(after)
      const ended = yield* Effect.timeoutOption(Effect.zip(Fiber.join(beside), after), "5 seconds")
      assert.isTrue(ended._tag === "Some", `what comes after waits for what was interrupted at operation ${at}`)
      yield* Fiber.await(fiber)
      if (scheduler.operations < at) return at
    }
    return most
  })

describe("interruption at every operation", () => {
  it.live("of a sample: those drawn with it, and the next one, end", () =>
    Effect.gen(function*() {
      const engine = yield* Engine.make({ models: [micro] })
      const sampler = yield* engine.sampler(micro.name)
      const sample = sampler.sample({ prompt, params: { maxTokens: 20, seed: 1, stop: [] } })
      assert.isAbove(yield* interruptedEverywhere(sample, sample, 1000), 100)
    }))
})
