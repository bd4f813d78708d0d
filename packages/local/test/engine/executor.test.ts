import * as Worker from "@effect/platform/Worker"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as Engine from "../../src/Engine.js"
import type { Answer, Message } from "../../src/internal/engine/executor.js"
import { addPart, failPass, gradientOf, takePart } from "../../src/internal/engine/parts.js"
import type { SharedPass } from "../../src/internal/engine/parts.js"
import { makeAddInto } from "../../src/internal/engine/vectors.js"
import { drain, micro } from "./support.js"

type Pass = Extract<Message, { readonly _tag: "Pass" }>

/** A worker thread that does what the test says. */
class FakeThread {
  /** Passes that were sent to it and not answered yet. */
  readonly passes: Array<{ readonly id: number; readonly job: Pass["job"] }> = []
  emit: (data: unknown) => void = () => {}

  readonly postMessage = ([, request]: readonly [0 | 1, (readonly [number, 0 | 1, Message])?]): void => {
    if (request === undefined || request[1] === 1) return
    const [id, , message] = request
    if (message._tag === "Pass") this.passes.push({ id, job: message.job })
    else this.answer(id, { _tag: "Ready" })
  }

  answer(id: number, answer: Answer): void {
    this.emit([1, [id, 0, [answer]]])
  }

  get shared(): SharedPass {
    return this.passes[0]?.job.shared ?? assert.fail("there is no pass")
  }

  take(): number {
    const part = takePart(this.shared)
    return typeof part === "number" ? part : assert.fail(`there is no part: ${part}`)
  }

  /** Is done with a part, whose gradient is the same number everywhere. */
  finish(part: number, slope: number): void {
    gradientOf(this.shared, part).fill(slope)
    drain(addPart(this.shared, part, makeAddInto(undefined)))
  }

  /** Says that nothing is left to take. */
  end(): void {
    const pass = this.passes.shift() ?? assert.fail("there is no pass")
    this.answer(pass.id, { _tag: "Passed" })
  }
}

const fakes = (threads: ReadonlyArray<FakeThread>) =>
  Layer.merge(
    Layer.provide(
      Worker.layerManager,
      Layer.succeed(
        Worker.PlatformWorker,
        Worker.makePlatform<FakeThread>()({
          setup: ({ worker }) => Effect.succeed(worker),
          listen: ({ emit, port }) =>
            Effect.sync(() => {
              port.emit = emit
              emit([0])
            })
        })
      )
    ),
    Worker.layerSpawner((id) => threads[id])
  )

const length = 64

/** A batch of so many parts. */
const batch = (parts: number) => ({
  data: Array.from({ length: parts }, (_, index) => ({
    tokens: Array.from({ length }, (_, i) => (i + index) % 256),
    lossInputs: { target_tokens: { data: Array.from({ length }, () => 1), shape: [length] } }
  })),
  loss: "cross_entropy"
} as const)

const withThreads = Effect.fnUntraced(function*(count: number) {
  const threads = Array.from({ length: count }, () => new FakeThread())
  const engine = yield* Effect.provide(
    Engine.makeThreaded({ models: [micro], threads: count, partTokens: length }),
    fakes(threads)
  )
  const adapter = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 1 })
  const other = yield* engine.createAdapter({ baseModel: micro.name, rank: 4, seed: 2 })
  return { threads, adapter, other }
})

/** Lets fibers run until nothing is left to do but to wait for threads. */
const settle = Effect.replicateEffect(Effect.yieldNow(), 200, { discard: true })

describe("the engine on threads", () => {
  it.scoped("a pass is sent to every thread once; one with fewer parts to those that have no other", () =>
    Effect.gen(function*() {
      const { adapter, other, threads } = yield* withThreads(3)
      const assigned = () => threads.map(({ passes }) => passes.length)
      const first = yield* Effect.fork(adapter.forwardBackward(batch(2)))
      yield* settle
      assert.deepStrictEqual(assigned(), [1, 1, 0])
      const second = yield* Effect.fork(other.forwardBackward(batch(1)))
      yield* settle
      assert.deepStrictEqual(assigned(), [1, 1, 1])
      for (const thread of threads) {
        const part = thread.take()
        thread.finish(part, 1)
        thread.end()
      }
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      const third = yield* Effect.fork(adapter.forwardBackward(batch(8)))
      yield* settle
      assert.deepStrictEqual(assigned(), [1, 1, 1])
      yield* Fiber.interrupt(third)
    }))

  it.scoped("gradients are added in the order of the parts, whichever is done first", () =>
    Effect.gen(function*() {
      // in this order one is lost beside the large number; in another one it would be left over
      const slopes = [1, 1e8, -1e8]
      const norms: Array<unknown> = []
      for (const order of [[0, 1, 2], [2, 1, 0], [1, 2, 0]]) {
        const { adapter, threads } = yield* withThreads(3)
        const pass = yield* Effect.fork(adapter.forwardBackward(batch(3)))
        yield* settle
        assert.deepStrictEqual(threads.map((thread) => thread.take()), [0, 1, 2])
        for (const part of order) {
          threads[part]?.finish(part, slopes[part] ?? NaN)
          threads[part]?.end()
          yield* settle
        }
        yield* Fiber.join(pass)
        norms.push((yield* adapter.optimStep()).metrics)
      }
      assert.deepStrictEqual(norms, [{ grad_norm: 0 }, { grad_norm: 0 }, { grad_norm: 0 }])
    }))

  it.scoped("a part that is not finite fails the pass, and what was added before is forgotten", () =>
    Effect.gen(function*() {
      const { adapter, threads: [thread = assert.fail()] } = yield* withThreads(1)
      const pass = yield* Effect.fork(adapter.forwardBackward(batch(3)))
      yield* settle
      thread.finish(thread.take(), 1)
      thread.take()
      failPass(thread.shared)
      // no other part is begun
      assert.strictEqual(takePart(thread.shared), "none")
      thread.end()
      assert.strictEqual((yield* Effect.flip(Fiber.join(pass)))._tag, "NotFinite")
      assert.deepStrictEqual((yield* adapter.optimStep()).metrics, { grad_norm: 0 })
    }))

  it.scoped("a thread that ends without an answer fails what it was asked for", () =>
    Effect.gen(function*() {
      const { adapter, threads: [thread = assert.fail()] } = yield* withThreads(1)
      const pass = yield* Effect.fork(adapter.forwardBackward(batch(1)))
      yield* settle
      // the end of an answer that never came
      thread.emit([1, [thread.passes[0]?.id, 1]])
      assert.strictEqual((yield* Effect.flip(Fiber.join(pass)))._tag, "ThreadLost")
    }))
})
