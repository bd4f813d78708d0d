import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Random, TestClock } from "effect"
import * as fairTurns from "../src/internal/fairTurns.js"

const places = 8

/** Seconds from asking to the end of each rollout, of a run that keeps some at a worker until it has had enough. */
const run = Effect.fnUntraced(function*(
  turns: fairTurns.FairTurns,
  options: { readonly name: string; readonly weight?: number; readonly atOnce: number; readonly count: number }
) {
  const took: Array<number> = []
  yield* Effect.forEach(Array.from({ length: options.count }), () =>
    Effect.gen(function*() {
      const asked = yield* Clock.currentTimeMillis
      // 4 to 12 s
      const seconds = 4 + 8 * (yield* Random.next)
      yield* turns.withTurn(options.name, options.weight ?? 1)(Effect.sleep(`${Math.round(2 * seconds) / 2} seconds`))
      took.push(((yield* Clock.currentTimeMillis) - asked) / 1000)
    }), { concurrency: options.atOnce, discard: true })
  return took
})

const advance = Effect.forever(Effect.zipRight(TestClock.adjust("500 millis"), Effect.yieldNow()))

const elapse = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.zipRight(Effect.forkScoped(advance), effect)).pipe(Effect.withRandom(Random.make("rollouts")))

const p99 = (values: ReadonlyArray<number>) =>
  Array.from(values).sort((a, b) => a - b)[Math.ceil(0.99 * values.length) - 1] ?? NaN

describe("places of a worker", () => {
  it.effect("a small run waits at most three times as long beside a large one as alone", () =>
    Effect.gen(function*() {
      const small = { name: "small", atOnce: 8, count: 100 }
      const alone = yield* elapse(run(fairTurns.make(places), small))
      const turns = fairTurns.make(places)
      const beside = yield* elapse(Effect.gen(function*() {
        const large = yield* Effect.fork(run(turns, { name: "large", atOnce: 128, count: 100_000 }))
        yield* Effect.sleep("30 seconds")
        assert.strictEqual(turns.load().waiting, 120)
        const found = yield* run(turns, small)
        yield* Fiber.interrupt(large)
        return found
      }))
      assert.strictEqual(beside.length, 100)
      assert.isAtMost(p99(beside), 3 * p99(alone))
      // With one queue for both it would wait for the 120 before it, eight at a time: two minutes.
      assert.isBelow(p99(alone), 12.2)
      assert.deepStrictEqual(turns.load(), { running: 0, waiting: 0 })
    }))

  it.effect("are shared by weight, and what one run does not need the other one gets", () =>
    Effect.gen(function*() {
      const turns = fairTurns.make(places)
      const held = new Map<string, number>()
      const hold = (name: string, weight: number) =>
        Effect.fork(
          turns.withTurn(name, weight)(
            Effect.acquireUseRelease(
              Effect.sync(() => held.set(name, (held.get(name) ?? 0) + 1)),
              () => Effect.sleep("1 second"),
              () => Effect.sync(() => held.set(name, (held.get(name) ?? 0) - 1))
            )
          )
        )
      yield* Effect.replicateEffect(hold("a", 3), 40)
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(Array.from(held), [["a", 8]])
      yield* Effect.replicateEffect(hold("b", 1), 40)
      yield* TestClock.adjust("1 second")
      // six and two of eight: three to one
      assert.deepStrictEqual(Array.from(held), [["a", 6], ["b", 2]])
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(Array.from(held), [["a", 6], ["b", 2]])
      // a: 40 - 8 - 6 - 6 = 20 after three seconds, of which it runs six a second
      yield* TestClock.adjust("4 seconds")
      assert.isAbove(held.get("b") ?? 0, 2)
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual(turns.load(), { running: 0, waiting: 0 })
    }))

  it.effect("what a run was given is counted as long as it has something waiting, and not when it comes again", () =>
    Effect.gen(function*() {
      const turns = fairTurns.make(1)
      const order: Array<string> = []
      const ends: Array<Deferred.Deferred<void>> = []
      const ask = (name: string) =>
        Effect.zipRight(
          Effect.fork(
            turns.withTurn(name, 1)(Effect.gen(function*() {
              order.push(name)
              const end = yield* Deferred.make<void>()
              ends.push(end)
              yield* Deferred.await(end)
            }))
          ),
          Effect.repeatN(Effect.yieldNow(), 5)
        )
      const next = Effect.suspend(() => {
        const end = ends.at(-1)
        return Effect.zipRight(
          end === undefined ? Effect.void : Deferred.succeed(end, undefined),
          Effect.repeatN(Effect.yieldNow(), 10)
        )
      })
      for (const name of ["a", "a", "a", "a", "b", "b"]) yield* ask(name)
      // a has been given one place when b comes, which begins there: then they take turns, whoever came first.
      for (const _ of [1, 2, 3]) yield* next
      assert.deepStrictEqual(order, ["a", "a", "b", "a"])
      yield* next
      yield* next
      assert.deepStrictEqual(order, ["a", "a", "b", "a", "b", "a"])
      yield* next
      assert.deepStrictEqual(turns.load(), { running: 0, waiting: 0 })
      // Both are forgotten, so that a has nothing to make up for.
      for (const name of ["c", "b", "a"]) yield* ask(name)
      yield* next
      assert.strictEqual(order.at(-1), "b")
      yield* next
      assert.strictEqual(order.at(-1), "a")
      yield* next
    }))

  it.effect("who gives up while waiting leaves the others in their order, and every place where it is", () =>
    Effect.gen(function*() {
      const turns = fairTurns.make(1)
      const running = yield* Effect.fork(turns.withTurn("a", 1)(Effect.never))
      yield* Effect.repeatN(Effect.yieldNow(), 5)
      const waiting = yield* Effect.forEach([1, 2, 3], () => Effect.fork(turns.withTurn("b", 1)(Effect.never)))
      yield* Effect.repeatN(Effect.yieldNow(), 5)
      for (const [left, fiber] of [[2, waiting[0]], [1, waiting[2]], [0, waiting[1]]] as const) {
        assert(fiber !== undefined)
        yield* Fiber.interrupt(fiber)
        assert.deepStrictEqual(turns.load(), { running: 1, waiting: left })
      }
      yield* Fiber.interrupt(running)
      assert.deepStrictEqual(turns.load(), { running: 0, waiting: 0 })
    }))

  it.effect("a worker that is opened lets everybody in", () =>
    Effect.gen(function*() {
      const turns = fairTurns.make(1)
      const fibers = yield* Effect.forEach(
        ["a", "b", "a"],
        (name) => Effect.fork(turns.withTurn(name, 1)(Effect.never))
      )
      yield* Effect.repeatN(Effect.yieldNow(), 5)
      assert.deepStrictEqual(turns.load(), { running: 1, waiting: 2 })
      turns.open()
      assert.deepStrictEqual(turns.load(), { running: 3, waiting: 0 })
      yield* Effect.forEach(fibers, Fiber.interrupt)
      assert.deepStrictEqual(turns.load(), { running: 0, waiting: 0 })
    }))

  it.effect("none is lost to a rollout that is given up just when its turn comes", () =>
    Effect.gen(function*() {
      const turns = fairTurns.make(1)
      for (let later = 0; later < 20; later++) {
        const end = yield* Deferred.make<void>()
        const first = yield* Effect.fork(turns.withTurn("a", 1)(Deferred.await(end)))
        yield* Effect.repeatN(Effect.yieldNow(), 5)
        const waiting = yield* Effect.fork(turns.withTurn("b", 1)(Effect.never))
        yield* Effect.repeatN(Effect.yieldNow(), 5)
        assert.deepStrictEqual(turns.load(), { running: 1, waiting: 1 })
        yield* Deferred.succeed(end, undefined)
        yield* Effect.repeatN(Effect.yieldNow(), later)
        yield* Fiber.interrupt(waiting)
        yield* Fiber.join(first)
        assert.deepStrictEqual(turns.load(), { running: 0, waiting: 0 }, `given up ${later} yields later`)
      }
    }))
})
