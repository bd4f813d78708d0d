import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Random, ScheduleDecision, ScheduleIntervals, Struct } from "effect"
import { RetryPolicy, TinkerError } from "effect-tinker"

const base = { module: "M", method: "m" }
const unavailable = new TinkerError.Unavailable({ ...base, status: 503 })

/** When a policy would try again, in milliseconds after the first failure, if it always failed like this. */
const attempts = (policy: RetryPolicy.Policy, error: TinkerError.TinkerError) =>
  Effect.gen(function*() {
    const times = [0]
    let state = policy.initial
    for (;;) {
      const now = times.at(-1) ?? 0
      const [next, , decision] = yield* policy.step(now, error, state)
      if (ScheduleDecision.isDone(decision)) return times
      state = next
      times.push(ScheduleIntervals.start(decision.intervals))
    }
  })

const bounds: Record<RetryPolicy.Class, number> = {
  submit: 300_000,
  poll: 3_600_000,
  sample: 300_000,
  restRead: 120_000,
  restWrite: 120_000,
  startup: 300_000,
  heartbeat: 0,
  telemetry: 15_000,
  // for their own kind of failure only, and bounded by progressTimeout and billingPause
  rateLimit: 0,
  billing: 0,
  refusedPoll: 0,
  resubmit: 7_200_000,
  archive: 300_000,
  download: 300_000
}

/** The failure a class is for. */
const typical = (name: RetryPolicy.Class): TinkerError.TinkerError =>
  name === "resubmit" ? new TinkerError.FutureExpired({ ...base, status: 410 }) : unavailable

/** Bounded by a number of attempts before the time is up. */
const counted = new Set<RetryPolicy.Class>(["heartbeat", "telemetry", "archive", "download"])

const classes = Struct.keys(RetryPolicy.defaults)

describe("RetryPolicy", () => {
  for (const name of classes) {
    it.effect(`${name}: the total wait is bounded (G7)`, () =>
      Effect.gen(function*() {
        const times = yield* attempts(RetryPolicy.defaults[name], typical(name))
        assert.isAtMost(times.at(-1) ?? 0, bounds[name])
        if (!counted.has(name)) assert.strictEqual(times.at(-1), bounds[name])
      }))

    it.effect(`${name}: a hint of a minute cannot stretch the bound`, () =>
      Effect.gen(function*() {
        const error = new TinkerError.Unavailable({ ...base, retryAfter: Duration.seconds(60) })
        const times = yield* attempts(RetryPolicy.defaults[name], error)
        assert.isAtMost(times.at(-1) ?? 0, bounds[name])
      }))
  }

  const usual = [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000, 10_000]
  const ceilings: Partial<Record<RetryPolicy.Class, ReadonlyArray<number>>> = {
    submit: usual,
    sample: usual,
    startup: usual,
    restRead: usual,
    restWrite: usual,
    poll: [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000, 30_000],
    telemetry: [1000, 2000, 4000]
  }
  for (const name of classes) {
    it.effect(`${name}: attempt after attempt, delays double up to the cap, shortened by at most a quarter`, () =>
      Effect.gen(function*() {
        const times = yield* attempts(RetryPolicy.defaults[name], unavailable)
        const expected = ceilings[name] ?? []
        const delays = times.slice(1, expected.length + 1).map((time, i) => time - (times[i] ?? 0))
        assert.strictEqual(delays.length, expected.length)
        delays.forEach((delay, i) => {
          const ceiling = expected[i] ?? 0
          assert.isAtMost(delay, ceiling, `delay ${i}`)
          assert.isAtLeast(delay, ceiling * 0.75, `delay ${i}`)
        })
        assert.isAtLeast(new Set(delays).size, expected.length - 1, "there is jitter")
      }))
  }

  it.effect("jitter comes from Random: the same seed, the same delays (G11)", () =>
    Effect.gen(function*() {
      const run = (seed: string) =>
        Effect.withRandom(attempts(RetryPolicy.defaults.restRead, unavailable), Random.make(seed))
      assert.deepStrictEqual(yield* run("a"), yield* run("a"))
      assert.notDeepEqual(yield* run("a"), yield* run("b"))
    }))

  it.effect("a hint replaces the delay exactly", () =>
    Effect.gen(function*() {
      const error = new TinkerError.RateLimited({ ...base, retryAfter: Duration.millis(1234) })
      const times = yield* attempts(RetryPolicy.defaults.submit, error)
      assert.deepStrictEqual(times.slice(0, 4), [0, 1234, 2468, 3702])
    }))

  it.effect("what cannot succeed is not tried again", () =>
    Effect.gen(function*() {
      const finals: ReadonlyArray<TinkerError.TinkerError> = [
        new TinkerError.Authentication({ ...base, status: 401 }),
        new TinkerError.BadRequest({ ...base, status: 400 }),
        new TinkerError.Conflict({ ...base, status: 409 }),
        new TinkerError.MalformedResponse(base),
        new TinkerError.RequestFailed({ ...base, category: "server" }),
        new TinkerError.Unavailable({ ...base, status: 503, shouldRetry: false })
      ]
      for (const error of finals) {
        assert.deepStrictEqual(yield* attempts(RetryPolicy.defaults.submit, error), [0], error._tag)
      }
    }))

  it.effect("each class leaves to others what is theirs", () =>
    Effect.gen(function*() {
      const limited = new TinkerError.RateLimited({ ...base, status: 429 })
      const expired = new TinkerError.FutureExpired({ ...base, status: 410 })
      const { billing, poll, rateLimit, refusedPoll, resubmit } = RetryPolicy.defaults
      for (const policy of [billing, refusedPoll, resubmit]) {
        assert.deepStrictEqual(yield* attempts(policy, limited), [0])
      }
      for (const policy of [billing, poll, rateLimit, refusedPoll]) {
        assert.deepStrictEqual(yield* attempts(policy, expired), [0])
      }
      assert.deepStrictEqual(yield* attempts(RetryPolicy.defaults.heartbeat, unavailable), [0])
    }))

  it.effect("provide replaces some and keeps the others", () =>
    Effect.gen(function*() {
      const [submit, poll] = yield* Effect.map(RetryPolicy.RetryPolicy, (table) => [table.submit, table.poll]).pipe(
        RetryPolicy.provide({ submit: RetryPolicy.never })
      )
      assert.strictEqual(submit, RetryPolicy.never)
      assert.strictEqual(poll, RetryPolicy.defaults.poll)
    }))
})
