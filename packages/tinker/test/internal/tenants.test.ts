import { HttpClient, HttpClientResponse } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Encoding, Exit, Fiber, Layer, Option, Scope, TestClock } from "effect"
import type { TinkerTransport } from "effect-tinker"
import { Credentials, RetryPolicy, TinkerConfig } from "effect-tinker"
import * as ApiClient from "../../src/internal/transport/apiClient.js"
import type { Seen } from "../utils/transport.js"
import { answering, endpointOf, over } from "../utils/transport.js"

const make = (options: TinkerConfig.Options) =>
  Effect.provide(ApiClient.make, Layer.provideMerge(Credentials.layer, TinkerConfig.layer(options)))

const a = { baseUrl: "https://a.test", apiKey: "tml-a" }
const submit = endpointOf("submit")

const withClient = (client: Layer.Layer<TinkerTransport.TinkerTransport>) => Effect.provide(client)

describe("tenants (G8)", () => {
  it.scoped("a tenant is a base URL and a credential, whatever the spelling; another is another", () =>
    Effect.gen(function*() {
      const one = yield* make(a)
      const same = yield* make({ baseUrl: "https://a.test:443/", apiKey: "tml-a" })
      const otherKey = yield* make({ ...a, apiKey: "tml-b" })
      const otherUrl = yield* make({ ...a, baseUrl: "https://a.test/v2" })
      assert.strictEqual(one.tenant, same.tenant)
      const others = [otherKey, otherUrl]
      for (const { tenant } of others) {
        assert.notStrictEqual(tenant, one.tenant)
        assert.notStrictEqual(tenant.pools.sampling.limit, one.tenant.pools.sampling.limit)
        assert.notStrictEqual(tenant.billing, one.tenant.billing)
      }
      const key = { make: () => ({}) }
      assert.strictEqual(one.tenant.shared(key), same.tenant.shared(key))
      assert.notStrictEqual(one.tenant.shared(key), otherKey.tenant.shared(key))
    }).pipe(withClient(answering(() => Response.json({ ok: true })).client)))

  it.scoped("a tenant whose connections are slow to close holds up nobody else", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const scope = yield* Scope.make()
      const { tenant } = yield* Scope.extend(make(a), scope)
      yield* Scope.addFinalizer(tenant.scope, Deferred.await(gate))
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* Effect.repeatN(Effect.yieldNow(), 50)
      const next = yield* Effect.fork(make({ ...a, apiKey: "tml-b" }))
      yield* Effect.repeatN(Effect.yieldNow(), 50)
      assert.isTrue(Option.isSome(yield* Fiber.poll(next)))
      yield* Deferred.succeed(gate, undefined)
      yield* Fiber.join(closing)
    }).pipe(withClient(answering(() => Response.json({ ok: true })).client)))

  it.scoped("clients of one tenant share its pools; another tenant does not wait for them", () => {
    const held: Array<string> = []
    const client = over(
      HttpClient.make((request, url) =>
        Effect.suspend(() => {
          held.push(url.host)
          return url.host === "a.test" ? Effect.never : Effect.succeed(
            HttpClientResponse.fromWeb(request, Response.json({ ok: true }))
          )
        })
      )
    )
    return Effect.gen(function*() {
      const limits = { poolLimits: { training: 1 } }
      const first = yield* make({ ...a, ...limits })
      const second = yield* make({ ...a, ...limits })
      const foreign = yield* make({ baseUrl: "https://b.test", apiKey: "tml-b", ...limits })
      const one = yield* Effect.fork(first.call(submit, { n: 1 }))
      const two = yield* Effect.fork(second.call(submit, { n: 1 }))
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(held, ["a.test"])
      assert.deepStrictEqual(yield* foreign.call(submit, { n: 1 }), { ok: true })
      yield* Fiber.interrupt(one)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(held, ["a.test", "b.test", "a.test"])
      yield* Fiber.interrupt(two)
    }).pipe(withClient(client))
  })

  it.scoped("when the last client of a tenant leaves, so does its state", () =>
    Effect.gen(function*() {
      const first = yield* Effect.scoped(Effect.map(make(a), ({ tenant }) => tenant))
      const second = yield* Effect.scoped(Effect.map(make(a), ({ tenant }) => tenant))
      assert.notStrictEqual(first, second)
    }).pipe(withClient(answering(() => Response.json({})).client)))

  it.scoped("tokens are exchanged for each tenant, once for all its clients", () => {
    const jwt = (key: string | undefined) => `eyJ.${Encoding.encodeBase64Url(JSON.stringify({ exp: 9e9, key }))}.s`
    const { client, seen } = answering(({ headers, url }: Seen) =>
      url.endsWith("/auth/token") ? Response.json({ jwt: jwt(headers["x-api-key"]) }) : Response.json({ ok: true })
    )
    return Effect.gen(function*() {
      const clients = [yield* make(a), yield* make(a), yield* make({ ...a, apiKey: "tml-b" })]
      for (const { call, configure } of clients) {
        yield* configure({ tokenExchange: "default" })
        yield* call(submit, { n: 1 })
      }
      assert.deepStrictEqual(
        seen.map(({ headers, url }) => [new URL(url).pathname, headers["x-api-key"]]),
        [
          ["/api/v1/auth/token", "tml-a"],
          ["/api/v1/submit", jwt("tml-a")],
          ["/api/v1/submit", jwt("tml-a")],
          ["/api/v1/auth/token", "tml-b"],
          ["/api/v1/submit", jwt("tml-b")]
        ]
      )
    }).pipe(withClient(client))
  })

  it.scoped("a refused exchange is an authentication error of its own, not a network failure, and not retried", () => {
    const { client, seen } = answering(() => Response.json({ detail: "unknown key" }, { status: 401 }))
    return Effect.gen(function*() {
      const { call, configure } = yield* make(a)
      yield* configure({ tokenExchange: "default" })
      const error = yield* Effect.flip(call(submit, { n: 1 }))
      assert.strictEqual(error._tag, "Authentication")
      assert.strictEqual(`${error.module}.${error.method}`, "Credentials.exchange")
      assert.strictEqual(seen.length, 1)
    }).pipe(withClient(client))
  })

  describe("billing pause", () => {
    const unpaid = answering(() => Response.json({ detail: "no credit" }, { status: 402 }))

    it.scoped("a billing pause is reported while requests wait, and fails them after its limit", () =>
      Effect.gen(function*() {
        const client = yield* make({ ...a, billingPause: "60 seconds" })
        const events: Array<string> = []
        yield* client.observe((event) => events.push(event._tag))
        const fiber = yield* Effect.fork(Effect.flip(client.call(submit, { n: 1 })))
        yield* TestClock.adjust("58 seconds")
        assert.isNull(fiber.unsafePoll())
        yield* TestClock.adjust("10 seconds")
        const error = yield* Fiber.join(fiber)
        assert.strictEqual(error._tag, "BillingBlocked")
        assert.isAtLeast(events.filter((tag) => tag === "BillingPaused").length, 12)
      }).pipe(withClient(unpaid.client)))

    it.scoped("a start or a listing does not wait; a sample does, unless its policy says otherwise", () =>
      Effect.gen(function*() {
        const { call } = yield* make(a)
        for (const retry of ["startup", "restRead", "restWrite"] as const) {
          assert.strictEqual((yield* Effect.flip(call(endpointOf(retry), { n: 1 })))._tag, "BillingBlocked")
        }
        const sample = call(endpointOf("sample"), { n: 1 })
        const fiber = yield* Effect.fork(sample)
        yield* TestClock.adjust("58 seconds")
        assert.isNull(fiber.unsafePoll())
        yield* Fiber.interrupt(fiber)
        const error = yield* Effect.flip(RetryPolicy.provide({ billing: RetryPolicy.never })(sample))
        assert.strictEqual(error._tag, "BillingBlocked")
      }).pipe(withClient(answering(() => Response.json({}, { status: 402 })).client)))

    it.scoped("paying in time lets it go on", () => {
      const { client } = answering((_, n) => n < 3 ? Response.json({}, { status: 402 }) : Response.json({ ok: true }))
      return Effect.gen(function*() {
        const { call } = yield* make(a)
        const fiber = yield* Effect.fork(call(submit, { n: 1 }))
        yield* TestClock.adjust("15 seconds")
        assert.deepStrictEqual(yield* Fiber.join(fiber), { ok: true })
      }).pipe(withClient(client))
    })
  })
})
