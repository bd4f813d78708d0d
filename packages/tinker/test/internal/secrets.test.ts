import { HttpClient, HttpClientError } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Either, Inspectable, Layer, Logger, LogLevel } from "effect"
import { RetryPolicy, ServiceClient, TinkerTransport, TrainingClient } from "effect-tinker"
import { inspect } from "node:util"
import { ApiClient } from "../../src/internal/transport/apiClient.js"
import * as Server from "../utils/recordingServer.js"
import { recording } from "../utils/tracer.js"
import * as Training from "../utils/trainingServer.js"
import type { Seen } from "../utils/transport.js"
import { answering, endpointOf, live, over, script } from "../utils/transport.js"

const key = "tml-very-secret-key"
const access = "cf-secret-value"
const config = { apiKey: key, headers: { "CF-Access-Client-Secret": access }, tracing: true }

/** Every way in which something may come to be printed. */
const prints = (u: unknown): string =>
  [
    inspect(u, { depth: 20, showHidden: true, getters: true }),
    JSON.stringify(u, (_, value: unknown) => typeof value === "bigint" ? String(value) : value),
    String(u),
    Inspectable.toStringUnknown(u),
    u instanceof Error ? `${u.message} ${u.stack}` : ""
  ].join("\n")

const clean = (text: string, label: string) => {
  assert.notInclude(text, key, label)
  assert.notInclude(text, access, label)
}

describe("secrets (G9)", () => {
  it.effect("a key appears in no error, cause, log line, event or span", () => {
    const logged: Array<string> = []
    const { spans, tracer } = recording()
    const echo = (status: number) => () =>
      Response.json({ detail: `who is ${key}? and ${access}?`, headers: { "x-api-key": key } }, {
        status,
        headers: { "x-request-id": "r" }
      })
    const statuses = [400, 401, 402, 403, 404, 409, 410, 422, 429, 500]
    const events: Array<unknown> = []
    return Effect.gen(function*() {
      const { call, config, observe } = yield* ApiClient
      yield* observe((event) => events.push(event))
      for (const _ of statuses) {
        const exit = yield* Effect.sandbox(call(endpointOf("heartbeat"), { n: 1 })).pipe(
          Effect.withSpan("test"),
          Effect.withTracer(tracer),
          Effect.either
        )
        assert.strictEqual(exit._tag, "Left")
        if (exit._tag === "Left") {
          clean(prints(exit.left), "cause")
          clean(Cause.pretty(exit.left, { renderErrorCause: true }), "pretty")
          clean(prints(Cause.squash(exit.left)), "error")
          yield* Effect.logError("failed", exit.left)
        }
      }
      clean(prints(config), "config")
    }).pipe(
      Effect.provide(live(script(statuses.map(echo)).client, config)),
      Effect.scoped,
      Logger.withMinimumLogLevel(LogLevel.All),
      Effect.provide(Logger.replace(
        Logger.defaultLogger,
        Logger.make((options) => logged.push(Logger.jsonLogger.log(options), Logger.logfmtLogger.log(options)))
      )),
      Effect.ensuring(Effect.sync(() => {
        clean(logged.join("\n"), "log")
        clean(prints(events), "events")
        clean(prints(spans), "spans")
        assert.isAbove(spans.length, statuses.length)
        assert.isAbove(logged.length, 0)
        assert.isAbove(events.length, 0)
      }))
    )
  })

  it.effect("nor in a failure below HTTP, whose error knows the whole request", () =>
    Effect.gen(function*() {
      const { attempt } = yield* ApiClient
      const cause = yield* Effect.flip(Effect.sandbox(attempt(endpointOf("submit"), { n: 1 })))
      clean(prints(cause), "cause")
      clean(Cause.pretty(cause, { renderErrorCause: true }), "pretty")
      assert.include(Cause.pretty(cause, { renderErrorCause: true }), "ECONNRESET")
    }).pipe(Effect.provide(live(
      over(HttpClient.make((request) =>
        Effect.fail(
          new HttpClientError.RequestError({ request, reason: "Transport", cause: new Error("ECONNRESET") })
        )
      )),
      config
    ))))

  it.effect("nor in what telemetry reports, whatever the server repeats", () =>
    Effect.gen(function*() {
      const detail = `who is ${key}? and ${access}?`
      const server = Training.make({
        accept: () => Server.refuse(422, { detail }),
        other: (seen) => seen.path.endsWith("/get_info") ? Server.refuse(500, { detail }) : undefined
      })
      yield* Effect.gen(function*() {
        const training = yield* TrainingClient.makeLora({ baseModel: "base" })
        yield* Effect.flip(training.optimStep())
        yield* Effect.flip(RetryPolicy.withoutRetries(training.getInfo))
        return yield* Effect.die(new Error(detail))
      }).pipe(
        Effect.scoped,
        Effect.provide(
          ServiceClient.layer({ ...Server.options, ...config, telemetry: true }).pipe(Layer.provide(server.layer))
        ),
        Effect.exit
      )
      const reports = server.of("telemetry")
      assert.isAbove(reports.length, 0)
      for (const { json } of reports) clean(prints(json), "telemetry")
    }))

  describe("redirects", () => {
    const audit = { ...endpointOf("restRead", { redirects: "follow" }), method: "GET" as const }
    const to = (location: string, status = 302) => new Response(null, { status, headers: { location } })
    const follow = (answer: (seen: Seen, n: number) => Response) => {
      const { client, seen } = answering(answer)
      return { seen, layer: live(client, { ...config, baseUrl: "https://one.test" }) }
    }
    const run = Effect.flatMap(ApiClient, ({ attempt }) => attempt(audit, { n: 1 }))

    it.effect("the credential stays with its origin, also on the way back", () => {
      const hops = ["https://one.test/next", "https://two.test/x", "https://one.test/back"]
      const { layer, seen } = follow((_, n) => n < hops.length ? to(hops[n] ?? "") : Response.json({ ok: true }))
      return Effect.gen(function*() {
        yield* run
        assert.deepStrictEqual(seen.map(({ headers }) => headers["x-api-key"]), [key, key, undefined, undefined])
        assert.deepStrictEqual(
          seen.map(({ headers }) => headers["cf-access-client-secret"]),
          [access, access, undefined, undefined]
        )
        assert.deepStrictEqual(seen.slice(1).map(({ url }) => url), hops)
      }).pipe(Effect.provide(layer))
    })

    const refused: ReadonlyArray<readonly [title: string, requests: number, answer: () => Response]> = [
      ["to plain http", 1, () => to("http://one.test/")],
      ["to another scheme", 1, () => to("file:///etc/passwd")],
      ["to nowhere", 1, () => new Response(null, { status: 302 })],
      ["in circles", 6, () => to("https://one.test/api/v1/restRead")]
    ]
    for (const [title, requests, answer] of refused) {
      it.effect(`a redirect ${title} is refused`, () => {
        const { layer, seen } = follow(answer)
        return Effect.gen(function*() {
          assert.strictEqual((yield* Effect.flip(run))._tag, "TransportFailed")
          assert.lengthOf(seen, requests)
        }).pipe(Effect.provide(layer))
      })
    }

    it.effect("where the endpoint returns redirects, they are the answer", () => {
      const { layer, seen } = follow(() => to("https://two.test/signed"))
      return Effect.gen(function*() {
        const { attempt } = yield* ApiClient
        const answer = yield* attempt({ ...audit, redirects: "return" }, { n: 1 })
        assert.strictEqual(answer.status, 302)
        assert.strictEqual(answer.headers["location"], "https://two.test/signed")
        assert.strictEqual(seen.length, 1)
      }).pipe(Effect.provide(layer))
    })
  })

  it.effect("bodies are compressed when the server asks and the runtime can, and only those that may be", () => {
    const sent: Array<TinkerTransport.Request> = []
    const client = Layer.succeed(TinkerTransport.TinkerTransport, {
      send: (request) =>
        Effect.sync(() => {
          sent.push(request)
          return { status: 200, headers: {}, body: new TextEncoder().encode("{\"ok\":true}") }
        }),
      stream: () => Effect.die("not here"),
      compress: (body) => Effect.succeed(body.subarray(0, 1))
    })
    const bytes = {
      ...endpointOf("submit", { compress: true }),
      encodeRequest: () => Either.right({ params: {}, query: {}, body: new Uint8Array([1, 2, 3]) })
    }
    return Effect.gen(function*() {
      const { call, configure } = yield* ApiClient
      yield* call(bytes, { n: 1 })
      yield* configure({ compress: true })
      yield* call(bytes, { n: 1 })
      yield* call(endpointOf("submit"), { n: 1 })
      assert.deepStrictEqual(sent.map(({ headers }) => headers["content-encoding"]), [undefined, "zstd", undefined])
      assert.deepStrictEqual(sent.map(({ body }) => body?.length), [3, 1, 7])
    }).pipe(Effect.provide(live(client, config)))
  })
})
