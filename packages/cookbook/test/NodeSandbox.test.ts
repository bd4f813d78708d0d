import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"

const reasonOf = (source: string, calls: ReadonlyArray<ReadonlyArray<unknown>> = [[]]) =>
  Effect.gen(function*() {
    const sandbox = yield* NodeSandbox.NodeSandbox
    return (yield* Effect.flip(sandbox.call(source, calls))).reason
  })

const limits = { memory: 32, maxOutput: 1000, threads: 2 }

/** Patient, so that a busy machine does not decide which limit is reached first. */
const Live = NodeSandbox.layer({ ...limits, timeout: "1 minute" })

describe("NodeSandbox", () => {
  it.live("calls a function with each list of arguments", () =>
    Effect.gen(function*() {
      const sandbox = yield* NodeSandbox.NodeSandbox
      assert.deepStrictEqual(yield* sandbox.call("(a, b) => a + b", [[1, 2], ["x", "y"]]), [3, "xy"])
      assert.deepStrictEqual(yield* sandbox.call("function (x) { return { x: [x] } }", [[null]]), [{ x: [null] }])
      assert.deepStrictEqual(yield* sandbox.call("() => undefined // nothing", [[]]), [null])
    }).pipe(Effect.provide(Live)))

  it.live("limits time, and is ready for the next program", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* reasonOf("() => { for (;;) {} }"), "Timeout")
      assert.strictEqual(yield* reasonOf("() => { throw new Error('no') }"), "Thrown")
    }).pipe(Effect.provide(NodeSandbox.layer({ ...limits, timeout: "2 seconds" }))))

  it.live("limits memory and output, and is ready for the next program", () =>
    Effect.gen(function*() {
      const sandbox = yield* NodeSandbox.NodeSandbox
      assert.strictEqual(
        yield* reasonOf("() => { const all = []; for (;;) all.push(new Array(10000).fill(all.length)) }"),
        "OutOfMemory"
      )
      assert.strictEqual(yield* reasonOf("() => 'x'.repeat(2000)"), "Unserializable")
      assert.strictEqual(yield* reasonOf("() => 1n"), "Thrown")
      assert.strictEqual(yield* reasonOf("() => { throw new Error('no') }"), "Thrown")
      assert.strictEqual(yield* reasonOf("this is no program"), "Thrown")
      const many = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => n),
        (n) => sandbox.call("(n) => n * 2", [[n]]),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(many.flat(), Array.from({ length: 20 }, (_, n) => 2 * n))
    }).pipe(Effect.provide(Live)))

  it.live("a program sees nothing but the language", () =>
    Effect.gen(function*() {
      const sandbox = yield* NodeSandbox.NodeSandbox
      const names = ["process", "require", "fetch", "setTimeout"]
      for (const name of names) {
        assert.deepStrictEqual(yield* sandbox.call(`() => typeof ${name}`, [[]]), ["undefined"])
      }
      // no way to code from strings, which is the usual way out
      assert.strictEqual(yield* reasonOf("() => (() => {}).constructor('return process')()"), "Thrown")
    }).pipe(Effect.provide(Live)))
})
