import { assert, describe, it } from "@effect/vitest"
import { Cause, Duration, Effect, Schema } from "effect"
import { TinkerError } from "effect-tinker"

const base = { module: "M", method: "m" }
const all: ReadonlyArray<TinkerError.TinkerError> = [
  new TinkerError.Authentication({ ...base, status: 401 }),
  new TinkerError.PermissionDenied({ ...base, status: 403 }),
  new TinkerError.NotFound({ ...base, status: 404 }),
  new TinkerError.Unsupported({ ...base, status: 404 }),
  new TinkerError.Conflict({ ...base, status: 409 }),
  new TinkerError.BadRequest({ ...base, status: 400 }),
  new TinkerError.RateLimited({ ...base, status: 429, retryAfter: Duration.seconds(3) }),
  new TinkerError.BillingBlocked({ ...base, status: 402 }),
  new TinkerError.Unavailable({ ...base, status: 503 }),
  new TinkerError.TimedOut(base),
  new TinkerError.TransportFailed({ ...base, cause: new Error("ECONNRESET") }),
  new TinkerError.MalformedResponse({ ...base, status: 200 }),
  new TinkerError.RequestFailed({ ...base, category: "user", requestId: "r1" }),
  new TinkerError.FutureExpired({ ...base, status: 410 }),
  new TinkerError.Stuck(base),
  new TinkerError.UnobservedFailure({ ...base, modelId: "m", operation: "optimStep", seqId: 2, others: 0 }),
  new TinkerError.InvalidInput({ ...base, description: "no data" }),
  new TinkerError.BudgetExceeded({ ...base, budget: 5, spent: 4, reserved: 0.5, cost: 1 }),
  new TinkerError.Closed(base),
  new TinkerError.MissingCredential(base),
  new TinkerError.MalformedCredential(base),
  new TinkerError.CredentialCommandFailed(base)
]

describe("TinkerError", () => {
  it("has one schema for all, which carries them over a wire", () => {
    const encode = Schema.encodeSync(TinkerError.TinkerError)
    const decode = Schema.decodeUnknownSync(TinkerError.TinkerError)
    assert.strictEqual(new Set(all.map((error) => error._tag)).size, TinkerError.TinkerError.members.length)
    for (const error of all) {
      const copy = decode(JSON.parse(JSON.stringify(encode(error))))
      assert.strictEqual(copy._tag, error._tag)
      assert.strictEqual(copy.message, error.message)
      assert.isTrue(TinkerError.isTinkerError(copy))
    }
  })

  it("says where, what, which request and what to do", () => {
    const error = new TinkerError.RateLimited({
      module: "SamplingClient",
      method: "sample",
      status: 429,
      requestId: "r-7",
      retryAfter: Duration.seconds(3),
      description: "slow down"
    })
    assert.strictEqual(
      error.message,
      "SamplingClient.sample: rate limited (status 429, request r-7, retry after 3s): slow down\n  Lower the concurrency or try again later."
    )
  })

  it("isRetryable and isUserError decide by kind", () => {
    const tags = (select: (error: TinkerError.TinkerError) => boolean) =>
      all.filter(select).map((error) => error._tag).sort()
    assert.deepStrictEqual(tags(TinkerError.isRetryable), [
      "FutureExpired",
      "RateLimited",
      "TimedOut",
      "TransportFailed",
      "Unavailable"
    ])
    assert.deepStrictEqual(tags(TinkerError.isUserError), [
      "Authentication",
      "BadRequest",
      "BillingBlocked",
      "BudgetExceeded",
      "Conflict",
      "CredentialCommandFailed",
      "FutureExpired",
      "InvalidInput",
      "MalformedCredential",
      "MissingCredential",
      "NotFound",
      "PermissionDenied",
      "RateLimited",
      "RequestFailed",
      "Unsupported"
    ])
    assert.isFalse(TinkerError.isUserError(new TinkerError.Unavailable({ ...base, status: 408 })))
    assert.isFalse(TinkerError.isUserError(new TinkerError.RequestFailed({ ...base, category: "server" })))
  })

  it("what the server says about retrying wins", () => {
    assert.isTrue(TinkerError.isRetryable(new TinkerError.Conflict({ ...base, shouldRetry: true })))
    assert.isFalse(TinkerError.isRetryable(new TinkerError.Unavailable({ ...base, shouldRetry: false })))
  })

  it.effect("is caught by tag and printed with its cause", () =>
    Effect.gen(function*() {
      const failed: Effect.Effect<never, TinkerError.TinkerError> = Effect.fail(
        new TinkerError.TransportFailed({ ...base, cause: new Error("ECONNRESET") })
      )
      assert.strictEqual(
        yield* failed.pipe(Effect.catchTag("TransportFailed", (error) => Effect.succeed(error.module))),
        "M"
      )
      const cause = yield* Effect.flip(Effect.sandbox(failed))
      assert.include(Cause.pretty(cause, { renderErrorCause: true }), "ECONNRESET")
    }))
})
