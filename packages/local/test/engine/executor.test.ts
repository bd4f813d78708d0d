import * as Worker from "@effect/platform/Worker"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as Engine from "../../src/Engine.js"
import type { Answer, Message } from "../../src/internal/engine/executor.js"
import { micro } from "./support.js"

type Pass = Extract<Message, { readonly _tag: "Pass" }>

/** A worker thread that does what the test says. */
class FakeThread {
  /** Parts of passes that were sent to it and not answered yet. */
  readonly parts: Array<{ readonly id: number; readonly job: Pass["job"] }> = []
  emit: (data: unknown) => void = () => {}

  readonly postMessage = ([, request]: readonly [0 | 1, (readonly [number, 0 | 1, Message])?]): void => {
    if (request === undefined || request[1] === 1) return
    const [id, , message] = request
    if (message._tag === "Pass") this.parts.push({ id, job: message.job })
    else this.answer(id, { _tag: "Ready" })
  }

  answer(id: number, answer: Answer): void {
    this.emit([1, [id, 0, [answer]]])
  }

  /** Answers a part, whose gradient is the same number everywhere. */
  finish(index: number, slope: number): void {
    const [part] = this.parts.splice(index, 1)
    if (part === undefined) return assert.fail("there is no such part")
    const { examples, gradient } = part.job
    gradient.fill(slope)
    const results = examples.map(({ tokens: { length } }) => ({
      logprobs: new Float32Array(length),
      elementwise: new Float32Array(length),
      loss: 0
    }))
    this.answer(part.id, { _tag: "Passed", results })
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
  return { threads, adapter }
})

/** Lets fibers run until nothing is left to do but to wait for threads. */
const settle = Effect.replicateEffect(Effect.yieldNow(), 200, { discard: true })

const assigned = (threads: ReadonlyArray<FakeThread>) => threads.map(({ parts }) => parts.length)

describe("the engine on threads", () => {
  it.scoped("every thread has its next part before it is done with the one before", () =>
    Effect.gen(function*() {
      const { adapter, threads } = yield* withThreads(2)
      const [first, second] = threads
      if (first === undefined || second === undefined) return assert.fail()
      const pass = yield* Effect.fork(adapter.forwardBackward(batch(8)))
      yield* settle
      assert.deepStrictEqual(assigned(threads), [2, 2])
      // only the thread that has finished a part gets another one
      first.finish(0, 1)
      yield* settle
      assert.deepStrictEqual(assigned(threads), [2, 2])
      second.finish(0, 1)
      yield* settle
      assert.deepStrictEqual(assigned(threads), [2, 2])
      for (let part = 0; part < 3; part++) {
        first.finish(0, 1)
        second.finish(0, 1)
        yield* settle
      }
      yield* Fiber.join(pass)
      assert.deepStrictEqual(assigned(threads), [0, 0])
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
        for (const part of order) {
          threads[part]?.finish(0, slopes[part] ?? NaN)
          yield* settle
        }
        yield* Fiber.join(pass)
        norms.push((yield* adapter.optimStep()).metrics)
      }
      assert.deepStrictEqual(norms, [{ grad_norm: 0 }, { grad_norm: 0 }, { grad_norm: 0 }])
    }))

  it.scoped("a part that is not finite fails the pass, and what was added before is forgotten", () =>
    Effect.gen(function*() {
      const { adapter, threads } = yield* withThreads(1)
      const [thread] = threads
      const pass = yield* Effect.fork(adapter.forwardBackward(batch(2)))
      yield* settle
      thread?.finish(0, 1)
      const [last] = thread?.parts ?? []
      if (thread === undefined || last === undefined) return assert.fail()
      thread.answer(last.id, { _tag: "Passed", results: undefined })
      assert.strictEqual((yield* Effect.flip(Fiber.join(pass)))._tag, "NotFinite")
      assert.deepStrictEqual((yield* adapter.optimStep()).metrics, { grad_norm: 0 })
    }))

  it.scoped("a thread that ends without an answer fails what it was asked for", () =>
    Effect.gen(function*() {
      const { adapter, threads } = yield* withThreads(1)
      const [thread] = threads
      const pass = yield* Effect.fork(adapter.forwardBackward(batch(1)))
      yield* settle
      const [part] = thread?.parts ?? []
      if (part === undefined) return assert.fail()
      // the end of an answer that never came
      thread?.emit([1, [part.id, 1]])
      assert.strictEqual((yield* Effect.flip(Fiber.join(pass)))._tag, "ThreadLost")
    }))
})
