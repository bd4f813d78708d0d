import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Encoding, Fiber, Random, Redacted, Ref, TestClock } from "effect"
import { TinkerError } from "effect-tinker"
import * as Tokens from "../../src/internal/transport/tokens.js"

const jwt = (id: number, claims: { readonly iat?: number; readonly exp?: number }) =>
  Redacted.make(`eyJ.${Encoding.encodeBase64Url(JSON.stringify({ id, ...claims }))}.sig`)

/** Tokens that live so many seconds; counts the exchanges. */
const make = (
  life: number | undefined,
  failing: (n: number) => boolean = () => false,
  error: () => TinkerError.TinkerError = () =>
    new TinkerError.Unavailable({ module: "Credentials", method: "exchange" }),
  /** How far the server's clock is ahead of ours. */
  ahead = 0
) =>
  Effect.gen(function*() {
    const count = yield* Ref.make(0)
    const exchange = Effect.gen(function*() {
      const n = yield* Ref.updateAndGet(count, (n) => n + 1)
      yield* Effect.sleep("100 millis")
      if (failing(n)) return yield* error()
      const now = (yield* Clock.currentTimeMillis) / 1000 + ahead
      return jwt(n, life === undefined ? {} : { iat: now, exp: now + life })
    })
    const tokens = Tokens.make(exchange, yield* Effect.scope)
    const id = Effect.map(tokens.token, (token) => {
      const claims = Tokens.claims(token)
      return claims._tag === "Right" ? claims.right["id"] : undefined
    })
    return { tokens, id, count: Ref.get(count) }
  })

const settle = TestClock.adjust("150 millis")

describe("tokenExchange", () => {
  it.scoped("callers who arrive together share one exchange, and one of them leaving does not end it", () =>
    Effect.gen(function*() {
      const { count, id } = yield* make(3600)
      const fibers = yield* Effect.forEach([1, 2, 3, 4], () => Effect.fork(id))
      yield* Effect.yieldNow()
      const first = fibers[0]
      if (first !== undefined) yield* Effect.fork(Fiber.interrupt(first))
      yield* settle
      assert.deepStrictEqual(yield* Effect.forEach(fibers.slice(1), Fiber.join), [1, 1, 1])
      assert.strictEqual(yield* count, 1)
    }))

  it.scoped("renews in the background at half of the lifetime, give or take a tenth, whatever the clock here says", () =>
    Effect.forEach([0, 1800], (ahead) =>
      Effect.gen(function*() {
        const { count, id } = yield* make(3600, undefined, undefined, ahead)
        yield* Effect.fork(id)
        yield* settle
        yield* TestClock.adjust(Duration.seconds(3600 * 0.45 - 1))
        assert.strictEqual(yield* count, 1)
        yield* TestClock.adjust(Duration.seconds(3600 * 0.1 + 1))
        assert.strictEqual(yield* count, 2)
        assert.strictEqual(yield* id, 2)
      })))

  it.scoped("requests whose token was refused together share one exchange, and later ones none", () =>
    Effect.gen(function*() {
      const { count, id, tokens } = yield* make(3600)
      yield* Effect.fork(id)
      yield* settle
      const refused = Redacted.value(yield* tokens.token)
      const replaced = yield* Effect.forEach([1, 2, 3], () => Effect.fork(tokens.replace(refused)))
      yield* settle
      const values = yield* Effect.forEach(replaced, Fiber.join)
      assert.lengthOf(new Set(values.map(Redacted.value)), 1)
      assert.strictEqual(yield* count, 2)
      assert.strictEqual(Redacted.value(yield* tokens.replace(refused)), Redacted.value(yield* tokens.token))
      assert.strictEqual(yield* count, 2)
    }))

  it.scoped("a credential that the server refuses is reported at once, though the old token still lives", () =>
    // whatever time the renewal in the background drew: the last one may have failed a moment ago
    Effect.forEach(Array.from({ length: 20 }, (_, seed) => seed), (seed) =>
      Effect.gen(function*() {
        const { id } = yield* make(
          600,
          (n) => n > 1,
          () => new TinkerError.Authentication({ module: "Credentials", method: "exchange" })
        )
        yield* Effect.fork(id)
        yield* settle
        yield* TestClock.adjust("570 seconds")
        const late = yield* Effect.fork(Effect.flip(id))
        yield* settle
        assert.strictEqual((yield* Fiber.join(late))._tag, "Authentication")
      }).pipe(Effect.scoped, Effect.withRandom(Random.make(seed)))))

  it.scoped("short-lived tokens do not make it run hot", () =>
    Effect.gen(function*() {
      const { count, id } = yield* make(30)
      yield* Effect.fork(id)
      yield* settle
      yield* TestClock.adjust("5 minutes")
      assert.isAtMost(yield* count, 31)
      yield* Effect.replicateEffect(id, 100)
      assert.isAtMost(yield* count, 31)
    }))

  it.scoped("a token without a readable end is renewed now and then", () =>
    Effect.gen(function*() {
      const { count, id } = yield* make(undefined)
      yield* Effect.fork(id)
      yield* settle
      yield* TestClock.adjust("10 minutes")
      const n = yield* count
      assert.isAtLeast(n, 5)
      assert.isAtMost(n, 12)
    }))

  it.scoped("while renewal fails the old token is used, and after its end the failure surfaces", () =>
    Effect.gen(function*() {
      const { id } = yield* make(600, (n) => n > 1)
      yield* Effect.fork(id)
      yield* settle
      yield* TestClock.adjust("570 seconds")
      const late = yield* Effect.fork(id)
      yield* settle
      assert.strictEqual(yield* Fiber.join(late), 1)
      yield* TestClock.adjust("1 minutes")
      const after = yield* Effect.fork(Effect.flip(id))
      yield* settle
      assert.strictEqual((yield* Fiber.join(after))._tag, "Unavailable")
    }))

  it.scoped("a refused first exchange surfaces, and the next request tries again", () =>
    Effect.gen(function*() {
      const { id } = yield* make(600, (n) => n === 1)
      const first = yield* Effect.fork(Effect.flip(id))
      yield* settle
      assert.strictEqual((yield* Fiber.join(first))._tag, "Unavailable")
      const second = yield* Effect.fork(id)
      yield* settle
      assert.strictEqual(yield* Fiber.join(second), 2)
    }))

  it.scoped("a token the server refuses is replaced before the next request", () =>
    Effect.gen(function*() {
      const { id, tokens } = yield* make(3600)
      yield* Effect.fork(id)
      yield* settle
      const refused = Redacted.value(yield* tokens.token)
      tokens.invalidate(refused)
      const next = yield* Effect.fork(id)
      yield* settle
      assert.strictEqual(yield* Fiber.join(next), 2)
      // requests sent with the old one are still being refused
      tokens.invalidate(refused)
      assert.strictEqual(yield* id, 2)
    }))
})
