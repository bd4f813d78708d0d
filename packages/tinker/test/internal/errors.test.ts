import { HttpClient, HttpClientError } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Effect, ScheduleDecision, ScheduleIntervals, TestClock } from "effect"
import { RetryPolicy, TinkerConfig, TinkerError } from "effect-tinker"
import { ApiClient } from "../../src/internal/transport/apiClient.js"
import { endpointOf, live, over, script, status } from "../utils/transport.js"

type Delay = number | readonly [least: number, most: number] | "none"

interface Row {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly tag: TinkerError.TinkerError["_tag"]
  /** For every class, or for the classes that differ. */
  readonly delay: Delay
  readonly but?: Partial<Record<RetryPolicy.Class, Delay>>
  readonly tags?: Partial<Record<RetryPolicy.Class, TinkerError.TinkerError["_tag"]>>
}

const first = [375, 500] as const
const firstPoll = [750, 1000] as const
const retried = { delay: first, but: { poll: firstPoll } } as const
const final = { delay: "none" } as const

// The clock of a test begins at the epoch.
const inThirty = "Thu, 01 Jan 1970 00:00:30 GMT"

const rows: ReadonlyArray<Row> = [
  { status: 400, tag: "BadRequest", ...final },
  { status: 401, tag: "Authentication", ...final },
  // work under way pauses for it, which is no retry
  { status: 402, tag: "BillingBlocked", ...final },
  { status: 403, tag: "PermissionDenied", ...final },
  { status: 404, tag: "NotFound", ...final },
  { status: 405, tag: "BadRequest", ...final },
  // a router that has no such route, as opposed to a handler that has no such object
  { status: 404, body: "{\"detail\":\"Not Found\"}", tag: "Unsupported", ...final },
  { status: 405, body: "{\"detail\":\"Method Not Allowed\"}", tag: "Unsupported", ...final },
  { status: 501, tag: "Unsupported", ...final },
  { status: 408, tag: "Unavailable", ...retried },
  { status: 409, tag: "Conflict", delay: first, but: { poll: "none", restRead: "none", restWrite: "none" } },
  { status: 410, tag: "NotFound", tags: { poll: "FutureExpired" }, ...final },
  { status: 418, tag: "BadRequest", ...final },
  { status: 422, tag: "BadRequest", body: "{\"detail\":[{\"loc\":[\"body\"],\"msg\":\"bad\"}]}", ...final },
  { status: 425, tag: "BadRequest", ...final },
  { status: 429, tag: "RateLimited", delay: first, but: { poll: firstPoll } },
  ...[500, 502, 503, 504, 524, 529, 599].map((status): Row => ({ status, tag: "Unavailable", ...retried })),
  // a redirect that nobody asked for
  { status: 302, headers: { location: "http://elsewhere.test/" }, tag: "BadRequest", ...final },
  // a proxy that says nothing, and one that does
  { status: 400, headers: { "content-length": "0" }, body: "", tag: "TransportFailed", ...retried },
  { status: 400, body: "", tag: "TransportFailed", ...retried },
  { status: 400, headers: {}, body: "a body without a length", tag: "BadRequest", ...final },
  // what the server says about retrying, to the letter
  { status: 503, headers: { "x-should-retry": "false" }, tag: "Unavailable", ...final },
  { status: 400, headers: { "x-should-retry": "true" }, tag: "BadRequest", ...retried },
  { status: 400, headers: { "x-should-retry": "TRUE" }, tag: "BadRequest", ...final },
  { status: 503, headers: { "x-should-retry": "no" }, tag: "Unavailable", ...retried },
  { status: 409, headers: { "x-should-retry": "false" }, tag: "Conflict", ...final },
  { status: 409, headers: { "x-should-retry": "true" }, tag: "Conflict", ...retried },
  // hints
  { status: 503, headers: { "retry-after": "7" }, tag: "Unavailable", delay: 7000 },
  { status: 503, headers: { "retry-after": "1.5" }, tag: "Unavailable", delay: 1500 },
  { status: 503, headers: { "retry-after": "60" }, tag: "Unavailable", delay: 60_000 },
  { status: 503, headers: { "retry-after": "61" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "0" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "-5" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "nan" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "inf" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "soon" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after-ms": "250", "retry-after": "7" }, tag: "Unavailable", delay: 250 },
  { status: 503, headers: { "retry-after-ms": "junk", "retry-after": "7" }, tag: "Unavailable", delay: 7000 },
  // out of range, it still hides the other
  { status: 503, headers: { "retry-after-ms": "90000", "retry-after": "7" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": inThirty }, tag: "Unavailable", delay: 30_000 },
  { status: 503, headers: { "retry-after": "Thursday, 01-Jan-70 00:00:30 GMT" }, tag: "Unavailable", delay: 30_000 },
  { status: 503, headers: { "retry-after": "Wed, 31 Dec 1969 19:00:30 EST" }, tag: "Unavailable", delay: 30_000 },
  { status: 503, headers: { "retry-after": "Thu, 01 Jan 1970 02:00:30 +0200" }, tag: "Unavailable", delay: 30_000 },
  { status: 503, headers: { "retry-after": "Wed, 31 Dec 1969 23:59:00 GMT" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "Thu, 01 Jan 1970 01:00:00 GMT" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "Thu, 41 Foo 1970 00:00:30 GMT" }, tag: "Unavailable", ...retried },
  { status: 503, headers: { "retry-after": "1970-01-01T00:00:30Z" }, tag: "Unavailable", ...retried }
]

/** Those of endpoints; the others take over for some of these failures, and are tested where they do. */
const classes: ReadonlyArray<RetryPolicy.Class> = [
  "submit",
  "poll",
  "sample",
  "restRead",
  "restWrite",
  "startup",
  "heartbeat",
  "telemetry"
]

/** The next beat is the heartbeat's retry; telemetry begins as slowly as a poll and gives up after 15 seconds. */
const expected = (row: Row, retry: RetryPolicy.Class): Delay => {
  if (retry === "heartbeat") return "none"
  if (retry !== "telemetry") return row.but?.[retry] ?? row.delay
  if (row.status === 409) return row.headers?.["x-should-retry"] === "true" ? firstPoll : "none"
  return row.delay === first ? firstPoll : typeof row.delay === "number" ? Math.min(row.delay, 15_000) : row.delay
}

const firstDelay = (retry: RetryPolicy.Class, error: TinkerError.TinkerError) =>
  Effect.map(
    RetryPolicy.defaults[retry].step(0, error, RetryPolicy.defaults[retry].initial),
    ([, , decision]) =>
      ScheduleDecision.isContinue(decision) ? ScheduleIntervals.start(decision.intervals) : "none" as const
  )

const check = (actual: number | "none", expected: Delay, label: string) => {
  if (typeof expected === "object") {
    assert.isNumber(actual, label)
    assert.isAtLeast(Number(actual), expected[0], label)
    assert.isAtMost(Number(actual), expected[1], label)
  } else assert.strictEqual(actual, expected, label)
}

describe("status and headers to decision and delay (G6, G7)", () => {
  for (const row of rows) {
    const label = `${row.status} ${JSON.stringify(row.headers ?? {})}${row.body === "" ? " empty" : ""}`
    it.effect(label, () =>
      Effect.gen(function*() {
        const { attempt } = yield* ApiClient
        for (const retry of classes) {
          const error = yield* Effect.flip(attempt(endpointOf(retry), { n: 1 }))
          assert.strictEqual(error._tag, row.tags?.[retry] ?? row.tag, retry)
          check(yield* firstDelay(retry, error), expected(row, retry), `${retry} ${label}`)
          if (error._tag !== "TransportFailed") assert.strictEqual(error.status, row.status)
        }
      }).pipe(Effect.provide(live(script([status(row.status, row.headers, row.body)]).client))))
  }

  it.effect("a broken connection is retried by every class but the heartbeat", () =>
    Effect.gen(function*() {
      const { attempt } = yield* ApiClient
      for (const retry of classes) {
        const error = yield* Effect.flip(attempt(endpointOf(retry), { n: 1 }))
        assert.strictEqual(error._tag, "TransportFailed")
        check(
          yield* firstDelay(retry, error),
          retry === "heartbeat" ? "none" : retry === "poll" || retry === "telemetry" ? firstPoll : first,
          retry
        )
      }
    }).pipe(Effect.provide(live(over(HttpClient.make((request) =>
      Effect.fail(
        new HttpClientError.RequestError({ request, reason: "Transport", cause: new Error("ECONNREFUSED") })
      )
    ))))))

  it.effect("a date to wait until is counted from now", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("12 seconds")
      const { attempt } = yield* ApiClient
      const error = yield* Effect.flip(attempt(endpointOf("submit"), { n: 1 }))
      assert.strictEqual(yield* firstDelay("submit", error), 18_000)
    }).pipe(Effect.provide(live(script([status(503, { "retry-after": inThirty })]).client))))

  it.effect("so is no answer in time; an answer that breaks the promise is final", () =>
    Effect.gen(function*() {
      const late = new TinkerError.TimedOut({ module: "M", method: "m" })
      const wrong = new TinkerError.MalformedResponse({ module: "M", method: "m", status: 200 })
      for (const retry of classes) {
        check(
          yield* firstDelay(retry, late),
          retry === "heartbeat" ? "none" : retry === "poll" || retry === "telemetry" ? firstPoll : first,
          retry
        )
        check(yield* firstDelay(retry, wrong), "none", retry)
      }
    }))

  it.effect("what the server says reaches the message, wherever it put it", () =>
    Effect.gen(function*() {
      const bodies: ReadonlyArray<readonly [body: string, description: string | undefined]> = [
        ["{\"detail\":\"a\"}", "a"],
        ["{\"message\":\"b\"}", "b"],
        ["{\"error\":{\"message\":\"c\"}}", "c"],
        ["{\"error\":\"d\"}", "d"],
        ["{\"detail\":[{\"msg\":\"e\"}]}", "[{\"msg\":\"e\"}]"],
        [
          "{\"detail\":[{\"loc\":[\"body\",\"n\"],\"msg\":\"f\"},{\"loc\":[\"path\"],\"msg\":\"g\"}]}",
          "body.n: f; path: g"
        ],
        ["plain words", "plain words"],
        ["<!DOCTYPE html><html>…</html>", "an HTML page instead of an API response"],
        ["[1]", "[1]"],
        ["", undefined],
        ["x".repeat(10_000), `${"x".repeat(2000)}…`]
      ]
      for (const [body, description] of bodies) {
        const error = yield* Effect.flip(
          Effect.flatMap(ApiClient, ({ attempt }) => attempt(endpointOf("submit"), { n: 1 })).pipe(
            Effect.provide(live(script([status(404, {}, body)]).client))
          )
        )
        assert.strictEqual(error.description, description)
      }
    }))

  it.effect("a body nested beyond reason stays text, so that errors can be printed", () =>
    Effect.gen(function*() {
      const { attempt } = yield* ApiClient
      const error = yield* Effect.flip(attempt(endpointOf("submit"), { n: 1 }))
      assert.isString(error.body)
      assert.isString(JSON.stringify(error))
    }).pipe(Effect.provide(live(script([status(404, {}, "[".repeat(30_000) + "]".repeat(30_000))]).client))))

  it.effect("an empty 400 is forgiven 16 times in a row, and successes restore that", () => {
    const answers = [
      ...Array.from({ length: 16 }, () => status(400, {}, "")),
      status(200, {}, "{\"ok\":true}"),
      status(400, {}, ""),
      status(400, {}, "")
    ]
    return Effect.gen(function*() {
      const { attempt } = yield* ApiClient
      const tags: Array<string> = []
      for (const _ of answers) {
        tags.push(
          yield* Effect.match(attempt(endpointOf("submit"), { n: 1 }), {
            onFailure: (error) => error._tag,
            onSuccess: () => "ok"
          })
        )
      }
      assert.deepStrictEqual(tags, [
        ...Array.from({ length: 16 }, () => "TransportFailed"),
        "ok",
        "TransportFailed",
        "BadRequest"
      ])
    }).pipe(Effect.provide(live(script(answers).client)))
  })

  it.effect("SkyRL reports a failed operation as a 400 of the poll", () =>
    Effect.gen(function*() {
      const { attempt } = yield* ApiClient
      const failed = yield* Effect.flip(attempt(endpointOf("poll"), { n: 1 }, { requestId: "17" }))
      assert.strictEqual(failed._tag, "RequestFailed")
      assert.strictEqual(failed.description, "CUDA out of memory")
      assert.strictEqual(failed.requestId, "17")
      assert.strictEqual((yield* Effect.flip(attempt(endpointOf("submit"), { n: 1 })))._tag, "BadRequest")
    }).pipe(
      Effect.provide(
        live(script([status(400, {}, "{\"detail\":\"CUDA out of memory\"}")]).client, {
          compatibility: TinkerConfig.skyrl
        })
      )
    ))
})
