import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Http from "node:http"
import * as Net from "node:net"
import * as Check from "../src/chaos/check.js"
import * as JumpingClock from "../src/chaos/clock.js"
import * as Plan from "../src/chaos/plan.js"
import * as Proxy from "../src/chaos/proxy.js"

const settled = (op: number, more: Partial<Plan.Settled> = {}): Plan.Settled => ({
  op,
  kind: "step",
  line: "model 0.0",
  exit: "ok",
  requests: [`s:train:0:${op}`],
  parts: 1,
  millis: 1,
  ...more
})

const executed = (op: number, more: Partial<Plan.Executed> = {}): Plan.Executed => ({
  life: 0,
  adapter: 0,
  kind: "step",
  op,
  part: 0,
  ...more
})

describe("what is checked after a chaos run", () => {
  it("calls end once, and never as a defect", () => {
    assert.deepStrictEqual(Check.settledOnce([settled(1), settled(2, { exit: "TimedOut" })], 2), [])
    assert.lengthOf(Check.settledOnce([settled(1)], 2), 1)
    assert.lengthOf(Check.settledOnce([settled(1), settled(1)], 1), 1)
    assert.lengthOf(Check.settledOnce([settled(1, { exit: "defect", note: "boom" })], 1), 1)
  })

  it("what is acknowledged ran once; a sample may be drawn again by the next server", () => {
    assert.deepStrictEqual(Check.exactlyOnce([settled(1), settled(2, { exit: "NotFound" })], [executed(1)]), [])
    assert.lengthOf(Check.exactlyOnce([settled(1)], []), 1)
    assert.lengthOf(Check.exactlyOnce([settled(1)], [executed(1), executed(1)]), 1)
    assert.lengthOf(Check.exactlyOnce([settled(1)], [executed(1), executed(1, { life: 1 })]), 1)
    assert.lengthOf(Check.exactlyOnce([settled(1, { kind: "pass", parts: 2 })], [executed(1, { kind: "pass" })]), 1)
    const drawn = executed(3, { kind: "sample", adapter: -1 })
    assert.deepStrictEqual(Check.exactlyOnce([settled(3, { kind: "sample" })], [drawn, { ...drawn, life: 1 }]), [])
    assert.lengthOf(Check.exactlyOnce([settled(3, { kind: "sample" })], [drawn, drawn]), 1)
  })

  it("each model keeps the order of its calls and of their numbers", () => {
    const calls = [settled(1), settled(2), settled(3)]
    assert.deepStrictEqual(Check.inOrder(calls, [executed(1), executed(3)]), [])
    assert.isNotEmpty(Check.inOrder(calls, [executed(3), executed(1)]))
    // another model does not count
    assert.deepStrictEqual(Check.inOrder(calls, [executed(3), executed(1, { adapter: 1 })]), [])
    // numbers that go back, and calls of two clients on one model
    assert.isNotEmpty(Check.inOrder([settled(1, { requests: ["m:9"] }), settled(2)], [executed(1), executed(2)]))
    assert.isNotEmpty(Check.inOrder([settled(1), settled(2, { line: "model 1.0" })], [executed(1), executed(2)]))
  })

  it("nothing is polled for once every call has settled", () => {
    assert.deepStrictEqual(Check.quiet({ quiet: 40, over: 40 }), [])
    assert.deepStrictEqual(Check.quiet({ quiet: 40, over: 42 }), [])
    assert.lengthOf(Check.quiet({ quiet: 40, over: 43 }), 1)
  })

  it("memory is flat when the last quarter is like the first", () => {
    const mib = 1024 * 1024
    assert.deepStrictEqual(Check.flat([30, 31, 30, 32].map((n) => n * mib)), [])
    assert.lengthOf(Check.flat([30, 31, 40, 52].map((n) => n * mib)), 1)
  })

  it("an operation is recognised by its tokens and by its learning rate", () => {
    for (const op of [1, 99, 100, 20_000, 123_456]) {
      assert.deepStrictEqual(Plan.marked(Plan.mark(op, 2, 3)), { op, part: 2 })
      assert.strictEqual(Plan.opOfRate(Plan.rateOf(op)), op)
    }
  })

  it.effect("the clock shows what it was set to", () =>
    Effect.gen(function*() {
      const { clock, jump } = JumpingClock.make()
      const before = yield* clock.currentTimeMillis
      jump(-3_600_000)
      assert.isBelow(yield* clock.currentTimeMillis, before)
    }))
})

describe("the proxy of a chaos run", () => {
  const echo = Effect.acquireRelease(
    Effect.async<{ readonly port: number; readonly bodies: Array<string>; readonly server: Http.Server }>((resume) => {
      const bodies: Array<string> = []
      const server = Http.createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const body = Buffer.concat(chunks).toString()
          bodies.push(body)
          response.end(`got ${body}`)
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ port, bodies, server }))
      })
    }),
    ({ server }) =>
      Effect.async<void>((resume) => {
        server.close(() => resume(Effect.void))
        server.closeAllConnections()
      })
  )

  /** Fails with what `fetch` rejects with: a TypeError where the connection broke, a TimeoutError where nothing came. */
  const post = (port: number, body: string, millis = 30_000) =>
    Effect.tryPromise(() =>
      fetch(`http://127.0.0.1:${port}/api/v1/asample`, {
        method: "POST",
        body,
        headers: { connection: "close" },
        signal: AbortSignal.timeout(millis)
      }).then((response) => response.text())
    )

  const through = (rates: Proxy.Rates) =>
    Effect.gen(function*() {
      const { bodies, port } = yield* echo
      const proxy = yield* Proxy.make({ target: port, seed: 1, rates })
      return { bodies, proxy }
    })

  it("knows where a request ends", () => {
    const request = "POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
    assert.strictEqual(Proxy.requestLength(Buffer.from(request)), request.length)
    assert.strictEqual(Proxy.requestLength(Buffer.from(`${request}POST`)), request.length)
    assert.isUndefined(Proxy.requestLength(Buffer.from(request.slice(0, -1))))
    assert.isUndefined(Proxy.requestLength(Buffer.from("POST /x HTT")))
  })

  it.scopedLive("passes everything on when nothing strikes", () =>
    Effect.gen(function*() {
      const { proxy } = yield* through({})
      assert.strictEqual(yield* post(proxy.port, "hello"), "got hello")
      assert.deepStrictEqual(proxy.seen(), { asample: 1 })
      assert.deepStrictEqual(proxy.struck(), {})
    }))

  for (const fault of ["latency", "slowAnswer", "slowRequest"] as const) {
    it.scopedLive(`${fault}: late, and whole`, () =>
      Effect.gen(function*() {
        const { proxy } = yield* through({ [fault]: 1 })
        assert.strictEqual(yield* post(proxy.port, "hello"), "got hello")
        assert.deepStrictEqual(proxy.struck(), { [fault]: 1 })
      }))
  }

  for (const [fault, arrives] of [["resetBefore", 0], ["resetAfter", 1], ["truncate", 1]] as const) {
    it.scopedLive(`${fault}: no answer, and the request ${arrives === 1 ? "arrived" : "did not arrive"}`, () =>
      Effect.gen(function*() {
        const { bodies, proxy } = yield* through({ [fault]: 1 })
        assert.instanceOf((yield* Effect.flip(post(proxy.port, "hello"))).cause, TypeError)
        assert.lengthOf(bodies, arrives)
      }))
  }

  it.scopedLive("halfOpen: silence until the client gives up", () =>
    Effect.gen(function*() {
      const { proxy } = yield* through({ halfOpen: 1 })
      const silence = yield* Effect.flip(post(proxy.port, "hello", 300))
      assert.propertyVal(silence.cause, "name", "TimeoutError")
      const { port } = yield* echo
      const spoken = yield* Proxy.make({ target: port, seed: 1, rates: { halfOpen: 1 }, neverSilent: ["asample"] })
      assert.strictEqual(yield* post(spoken.port, "hello"), "got hello")
    }))

  it.scopedLive("duplicate: the server sees it twice, the client once", () =>
    Effect.gen(function*() {
      const { bodies, proxy } = yield* through({ duplicate: 1 })
      assert.strictEqual(yield* post(proxy.port, "hello"), "got hello")
      yield* Effect.repeat(Effect.sleep(20), { until: () => bodies.length === 2 })
      assert.deepStrictEqual(bodies, ["hello", "hello"])
    }))

  it.scopedLive("a server that is gone is a closed connection", () =>
    Effect.gen(function*() {
      const proxy = yield* Effect.flatMap(
        Effect.async<number>((resume) => {
          const probe = Net.createServer()
          probe.listen(0, "127.0.0.1", () => {
            const address = probe.address()
            probe.close(() =>
              resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0))
            )
          })
        }),
        (target) => Proxy.make({ target, seed: 1, rates: {} })
      )
      assert.instanceOf((yield* Effect.flip(post(proxy.port, "hello"))).cause, TypeError)
    }))
})
