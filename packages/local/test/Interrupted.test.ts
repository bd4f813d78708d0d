/**
 * Interruption between any two operations of a fiber. It arrives wherever the scheduler lets others run, which on a busy
 * machine is everywhere; what waits for the same thing must go on.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, FiberId, Scheduler } from "effect"
import { Datum, ModelInput, SamplingClient, TrainingClient } from "effect-tinker"
import * as Engine from "../src/Engine.js"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"
import { micro } from "./engine/support.js"

const prompt = LocalTokenizer.encode("the river runs ")

/** Counts the operations of a fiber, yields before one of them and interrupts it there. Others that it starts are left alone. */
class InterruptsAt extends Scheduler.MixedScheduler {
  operations = 0
  private fiber: Fiber.RuntimeFiber<unknown, unknown> | undefined
  constructor(private readonly at: number) {
    super(2048)
  }
  override shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    this.fiber ??= fiber
    if (fiber !== this.fiber || ++this.operations !== this.at) return super.shouldYield(fiber)
    fiber.unsafeInterruptAsFork(FiberId.none)
    return 0
  }
}

/** Interrupts the effect before its first operation, its second, and so on, and looks whether what comes after ends each time. */
const interruptedEverywhere = <A, E, R, B, E2, R2>(
  self: Effect.Effect<A, E, R>,
  after: Effect.Effect<B, E2, R2>,
  stride = 1
) =>
  Effect.gen(function*() {
    for (let at = 1;; at += stride) {
      const scheduler = new InterruptsAt(at)
      yield* Effect.forkDaemon(Effect.withScheduler(self, scheduler))
      const beside = yield* Effect.fork(after)
      const ended = yield* Effect.timeoutOption(Effect.zip(Fiber.join(beside), after), "10 seconds")
      assert.isTrue(ended._tag === "Some", `what comes after waits for what was interrupted at operation ${at}`)
      if (scheduler.operations < at) return at
    }
  })

describe("interruption at every operation", () => {
  it.live("of a sample: those drawn with it, and the next one, end", () =>
    Effect.gen(function*() {
      const engine = yield* Engine.make({ models: [micro] })
      const sampler = yield* engine.sampler(micro.name)
      const sample = sampler.sample({ prompt, params: { maxTokens: 20, seed: 1, stop: [] } })
      assert.isAbove(yield* interruptedEverywhere(sample, sample), 100)
    }))

  it.live("of a pass: the next one, and a step, end", () =>
    Effect.gen(function*() {
      const engine = yield* Engine.make({ models: [micro] })
      const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 2, seed: 1 })
      const pass = adapter.forwardBackward({
        data: [{ tokens: prompt, lossInputs: { target_tokens: { data: Array.from(prompt), shape: [prompt.length] } } }],
        loss: "cross_entropy"
      })
      assert.isAbove(yield* interruptedEverywhere(pass, Effect.zipRight(pass, adapter.optimStep())), 50)
    }))

  it.live("of a client's operations: those that were started beside them, and later ones, end", () =>
    Effect.gen(function*() {
      const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 2, seed: 1 })
      const data = [yield* Datum.fromTokens(Array.from(prompt))]
      const pass = Effect.flatten(training.forwardBackward(data, "cross_entropy"))
      const step = Effect.flatten(training.optimStep({ learningRate: 1e-4 }))
      assert.isAbove(yield* interruptedEverywhere(pass, Effect.zipRight(pass, step), 7), 100)
      const sampler = yield* SamplingClient.make({ baseModel: "local/tiny" })
      const sample = sampler.sample({ prompt: ModelInput.fromInts(Array.from(prompt)), maxTokens: 4, seed: 1 })
      assert.isAbove(yield* interruptedEverywhere(sample, sample, 7), 100)
    }).pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
})
