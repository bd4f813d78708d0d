import { FetchHttpClient } from "@effect/platform"
import type { HttpClient } from "@effect/platform"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Fiber, Layer, Logger, Stream } from "effect"
import { Api, Credentials, RetryPolicy, ServiceClient, TinkerConfig } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import * as http from "node:http"
import * as net from "node:net"
import * as Undici from "../src/internal/node/undici.js"
import * as transport from "../src/internal/transport.js"
import { listen, tunnelTo } from "./utils/sockets.js"
import { endpointOf } from "./utils/transport.js"

const head = (...lines: ReadonlyArray<string>) =>
  `HTTP/1.1 200 OK\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n`

const json = (body: string) => head("content-type: application/json", `content-length: ${body.length}`) + body

const good = json("{\"ok\":true}")

/** Answers the n-th request of all connections; the last answer is repeated. */
const raw = (...answers: ReadonlyArray<(socket: net.Socket) => void>) => {
  let n = 0
  return net.createServer((socket) => {
    let pending = ""
    socket.on("data", (data) => {
      pending += data.toString("latin1")
      const end = pending.indexOf("\r\n\r\n")
      if (end === -1) return
      const length = Number(/content-length: (\d+)/i.exec(pending)?.[1] ?? 0)
      if (pending.length < end + 4 + length) return
      pending = ""
      answers[Math.min(n++, answers.length - 1)]?.(socket)
    })
  })
}

const say = (text: string | Uint8Array) => (socket: net.Socket) => {
  socket.write(text)
}

const sayAndEnd = (text: string) => (socket: net.Socket) => {
  socket.end(text)
}

const every = (millis: number, text: string) => (socket: net.Socket) => {
  const timer = setInterval(() => socket.write(text), millis)
  socket.on("close", () => clearInterval(timer))
}

const clients: ReadonlyArray<readonly [string, Layer.Layer<HttpClient.HttpClient>]> = [
  ["lean", NodeTinker.layerHttpClient],
  ["fetch", FetchHttpClient.layer]
]

const live = (client: Layer.Layer<HttpClient.HttpClient>, port: number, options: TinkerConfig.Options = {}) =>
  transport.layer.pipe(
    Layer.provide(Credentials.layer),
    Layer.provide(TinkerConfig.layer({ baseUrl: `http://127.0.0.1:${port}`, apiKey: "tml-key", ...options })),
    Layer.provide(client)
  )

const endpoint = endpointOf("submit")

const faults: ReadonlyArray<readonly [title: string, answer: (socket: net.Socket) => void, tag: string]> = [
  ["reset before the answer", (socket) => socket.resetAndDestroy(), "TransportFailed"],
  ["closed before the answer", (socket) => socket.end(), "TransportFailed"],
  [
    "reset in the middle of the body",
    (socket) => socket.write(head("content-length: 100") + "{", () => setTimeout(() => socket.resetAndDestroy(), 20)),
    "TransportFailed"
  ],
  ["truncated", sayAndEnd(head("content-length: 100") + "{\"ok\":"), "TransportFailed"],
  ["truncated chunks", sayAndEnd(head("transfer-encoding: chunked") + "5\r\n{\"ok\"\r\n"), "TransportFailed"],
  ["not HTTP", sayAndEnd("SSH-2.0-OpenSSH_9.6\r\n"), "TransportFailed"],
  ["a page instead of JSON", say(head("content-type: text/html", "content-length: 6") + "<html>"), "MalformedResponse"],
  [
    "invalid UTF-8",
    say(
      Buffer.concat([
        Buffer.from(head("content-length: 12")),
        Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22]),
        Buffer.from(":true}x")
      ])
    ),
    "MalformedResponse"
  ],
  ["deep JSON", say(json(`{"ok":${"[".repeat(20_000)}${"]".repeat(20_000)}}`)), "MalformedResponse"],
  ["an announced body beyond the limit", say(head("content-length: 9999999")), "MalformedResponse"],
  [
    "an endless body",
    (socket) => {
      socket.write(head("transfer-encoding: chunked"))
      every(1, `4000\r\n${"x".repeat(0x4000)}\r\n`)(socket)
    },
    "MalformedResponse"
  ],
  ["silence", () => {}, "TimedOut"],
  [
    "a byte now and then",
    (socket) => {
      socket.write(head("content-length: 1000"))
      every(50, "x")(socket)
    },
    "TimedOut"
  ],
  [
    "duplicate headers",
    say(
      "HTTP/1.1 503 No\r\nretry-after: 1\r\nretry-after: 2\r\nx-request-id: a\r\nx-request-id: b\r\ncontent-length: 0\r\n\r\n"
    ),
    "Unavailable"
  ]
]

describe("NodeTinker", () => {
  for (const [name, client] of clients) {
    describe(`faults over a real socket: ${name} (G6)`, () => {
      for (const [title, answer, tag] of faults) {
        it.scopedLive(`${title} is ${tag}, and the next request works`, () =>
          Effect.gen(function*() {
            const { port } = yield* listen(raw(answer, say(good)))
            yield* Effect.gen(function*() {
              const { attempt, call, tenant } = yield* transport.Transport
              const error = yield* Effect.flip(
                Effect.flatMap(attempt(endpoint, { n: 1 }, { timeout: "700 millis" }), (answer) =>
                  // what is wrong with a whole body shows when it is decoded
                  Effect.mapError(
                    endpoint.response.decode(answer.body, answer.headers["content-type"]),
                    () => ({ _tag: "MalformedResponse" as const })
                  ))
              )
              assert.strictEqual(error._tag, tag)
              assert.strictEqual(yield* tenant.pools.training.gate.balance, 1)
              assert.deepStrictEqual(yield* call(endpoint, { n: 1 }), { ok: true })
            }).pipe(Effect.provide(live(client, port, { poolLimits: { training: 1 }, maxResponseBytes: 100_000 })))
          }))
      }

      it.live("refused is TransportFailed and says what to check", () =>
        Effect.gen(function*() {
          const port = yield* Effect.scoped(Effect.map(listen(net.createServer()), ({ port }) => port))
          const error = yield* Effect.flip(
            Effect.flatMap(transport.Transport, ({ attempt }) => attempt(endpoint, { n: 1 })).pipe(
              Effect.provide(live(client, port))
            )
          )
          assert.strictEqual(error._tag, "TransportFailed")
          assert.include(error.message, "base URL")
        }))

      it.scopedLive("an interrupted request is aborted at once (G3)", () =>
        Effect.gen(function*() {
          const asked = yield* Deferred.make<void>()
          const gone = yield* Deferred.make<void>()
          const { port } = yield* listen(raw((socket) => {
            Deferred.unsafeDone(asked, Effect.void)
            socket.on("close", () => Deferred.unsafeDone(gone, Effect.void))
          }))
          yield* Effect.gen(function*() {
            const { attempt } = yield* transport.Transport
            const fiber = yield* Effect.fork(attempt(endpoint, { n: 1 }))
            yield* Deferred.await(asked)
            yield* Fiber.interrupt(fiber)
            yield* Deferred.await(gone)
          }).pipe(Effect.provide(live(client, port)))
        }))

      it.scopedLive("streams as the body arrives", () =>
        Effect.gen(function*() {
          const { port } = yield* listen(
            http.createServer((request, response) => {
              request.resume()
              response.write("one ")
              setTimeout(() => response.write("two "), 20)
              setTimeout(() => response.end("x".repeat(500_000)), 40)
            })
          )
          yield* Effect.gen(function*() {
            const { stream } = yield* transport.Transport
            const text = Chunk.join(yield* Stream.runCollect(Stream.decodeText(stream(endpoint, { n: 1 }))), "")
            assert.strictEqual(text, `one two ${"x".repeat(500_000)}`)
            const first = yield* Stream.runHead(Stream.decodeText(stream(endpoint, { n: 1 })))
            assert.strictEqual(first._tag, "Some")
          }).pipe(Effect.provide(live(client, port)))
        }))
    })
  }

  it.scopedLive("a request interrupted while it waits for a socket is never sent (G2)", () =>
    Effect.gen(function*() {
      const seen: Array<string> = []
      const waiting: Array<http.ServerResponse> = []
      const { port } = yield* listen(http.createServer((request, response) => {
        seen.push(request.url ?? "")
        request.resume()
        waiting.push(response)
      }))
      const config = yield* TinkerConfig.make({ baseUrl: `http://127.0.0.1:${port}`, poolLimits: { training: 1 } })
      // Below the pool's gate, where undici itself has to queue.
      const wire = yield* Undici.make(config)
      const send = (path: string) =>
        wire.send({
          method: "POST",
          origin: `http://127.0.0.1:${port}`,
          path,
          headers: {},
          body: "{}",
          pool: "training",
          timeout: 5000,
          maxBytes: 1000
        })
      const first = yield* Effect.fork(send("/first"))
      const queued = yield* Effect.forEach(["/a", "/b", "/c"], (path) => Effect.fork(send(path)))
      const last = yield* Effect.fork(send("/last"))
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => waiting.length > 0 })
      yield* Fiber.interruptAll(queued)
      waiting.pop()?.end("1")
      yield* Fiber.join(first)
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => waiting.length > 0 })
      waiting.pop()?.end("2")
      yield* Fiber.join(last)
      assert.deepStrictEqual(seen, ["/first", "/last"])
    }))

  it.scopedLive("keeps connections within a pool, one set for each pool, and closes them with the scope (G12)", () =>
    Effect.gen(function*() {
      let connections = 0
      const server = http.createServer((request, response) => {
        request.resume()
        request.on("end", () => response.end("{\"ok\":true}"))
      })
      server.on("connection", () => connections++)
      const { port, sockets } = yield* listen(server)
      yield* Effect.gen(function*() {
        const { call } = yield* transport.Transport
        for (let i = 0; i < 5; i++) yield* call(endpoint, { n: 1 })
        // A client of undici is still busy when its answer is already here, so a second one may be opened.
        assert.isAtMost(connections, 2)
        const before = connections
        yield* call(endpointOf("submit", { pool: "sampling" }), { n: 1 })
        assert.strictEqual(connections, before + 1)
      }).pipe(Effect.provide(live(NodeTinker.layerHttpClient, port)))
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => sockets.size === 0 })
    }))

  it.scopedLive("goes through the proxy, except where told not to", () =>
    Effect.gen(function*() {
      const { port } = yield* listen(raw(say(good)))
      const { tunnels, url } = yield* tunnelTo(port)
      const ask = (options: TinkerConfig.Options) =>
        Effect.flatMap(transport.Transport, ({ call }) => call(endpoint, { n: 1 })).pipe(
          Effect.provide(live(NodeTinker.layerHttpClient, port, options))
        )
      assert.deepStrictEqual(yield* ask({ proxy: { all: url } }), { ok: true })
      assert.deepStrictEqual(tunnels, [`127.0.0.1:${port}`])
      assert.deepStrictEqual(yield* ask({ proxy: { http: url, no: "127.0.0.1" } }), { ok: true })
      assert.strictEqual(tunnels.length, 1)
    }))

  for (const [name, client] of clients) {
    it.scopedLive(`${name}: a redirect to another origin is followed without the credential (G9)`, () =>
      Effect.gen(function*() {
        const seen: Array<readonly [host: string, key: unknown, own: unknown]> = []
        const note = (request: http.IncomingMessage) =>
          seen.push([request.headers.host ?? "", request.headers["x-api-key"], request.headers["x-own"]])
        const { port: second } = yield* listen(http.createServer((request, response) => {
          note(request)
          response.end("{\"ok\":true}")
        }))
        const { port } = yield* listen(http.createServer((request, response) => {
          note(request)
          response.writeHead(302, { location: `http://127.0.0.1:${second}/elsewhere` }).end()
        }))
        yield* Effect.flatMap(transport.Transport, ({ attempt }) => attempt(Api.audit, { eventType: "all" })).pipe(
          Effect.provide(live(client, port, { headers: { "x-own": "mine" } }))
        )
        assert.deepStrictEqual(seen, [
          [`127.0.0.1:${port}`, "tml-key", "mine"],
          [`127.0.0.1:${second}`, undefined, undefined]
        ])
      }))
  }

  it.scopedLive("a proxy that wants credentials says so at once", () =>
    Effect.gen(function*() {
      let asked = 0
      const proxy = http.createServer()
      proxy.on("connect", (_, socket) => {
        asked++
        socket.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
      })
      const { port } = yield* listen(proxy)
      const error = yield* Effect.flip(
        Effect.flatMap(transport.Transport, ({ call }) => call(endpoint, { n: 1 })).pipe(
          Effect.provide(live(NodeTinker.layerHttpClient, 1, { proxy: { all: `127.0.0.1:${port}` } }))
        )
      )
      assert.strictEqual(error._tag, "TransportFailed")
      assert.include(error.message, "the proxy wants credentials")
      assert.strictEqual(asked, 1)
    }))

  it.scopedLive("log: one line for each answer, with debug also for what is sent and what fails, never the key", () =>
    Effect.gen(function*() {
      const { port } = yield* listen(raw((socket) => socket.end(), say(good)))
      const lines = (log: "info" | "debug" | undefined) =>
        Effect.gen(function*() {
          const logged: Array<string> = []
          yield* Effect.flatMap(transport.Transport, ({ call }) => call(endpoint, { n: 1 })).pipe(
            Effect.provide(live(NodeTinker.layerHttpClient, port, { log })),
            Effect.provide(Logger.replace(
              Logger.defaultLogger,
              Logger.make(({ logLevel, message }) => logged.push(`${logLevel.label} ${String(message)}`))
            ))
          )
          assert.notInclude(logged.join(), "tml-key")
          return logged.map((line) => line.replace(/\d+ ms/, "? ms"))
        })
      const sent = "DEBUG POST /api/v1/submit: 7 bytes"
      const answered = "INFO POST /api/v1/submit: 200, 11 bytes, after ? ms"
      const all = yield* lines("debug")
      assert.deepStrictEqual([all[0], all.at(-2), all.at(-1)], [sent, sent, answered])
      assert.match(all[1] ?? "", /^DEBUG POST \/api\/v1\/submit: .*after \? ms$/)
      assert.deepStrictEqual(yield* lines("info"), [answered])
      assert.deepStrictEqual(yield* lines(undefined), [])
    }))

  it.scopedLive("five ways to be locked out, five errors, five pieces of advice, each at once", () =>
    Effect.gen(function*() {
      const refusing = http.createServer((request, response) => {
        request.resume()
        response.writeHead(401, { "content-type": "application/json" }).end("{\"detail\":\"Invalid API key\"}")
      })
      const { port } = yield* listen(refusing)
      const closed = yield* Effect.scoped(Effect.map(listen(net.createServer()), ({ port }) => port))
      const nowhere = "/nowhere/credentials.json"
      const cases: ReadonlyArray<readonly [options: TinkerConfig.Options, tag: string, advice: string]> = [
        [{ credentialsPath: nowhere }, "MissingCredential", "tinker auth login"],
        [{ apiKey: "sk-123" }, "MalformedCredential", "starts with `tml-`"],
        [{ credentialCommand: "exit 3", credentialsPath: nowhere }, "CredentialCommandFailed", "by hand"],
        [{ apiKey: "tml-unknown" }, "Authentication", "TINKER_API_KEY"],
        [{ apiKey: "tml-key", baseUrl: `http://127.0.0.1:${closed}` }, "TransportFailed", "base URL"]
      ]
      for (const [options, tag, advice] of cases) {
        const error = yield* Effect.flip(
          Effect.flatMap(ServiceClient.ServiceClient, (service) => service.serverCapabilities).pipe(
            RetryPolicy.provide({ startup: RetryPolicy.never }),
            Effect.provide(
              ServiceClient.layer({ baseUrl: `http://127.0.0.1:${port}`, ...options }).pipe(
                Layer.provide(NodeTinker.layer)
              )
            )
          )
        )
        assert.strictEqual(error._tag, tag)
        assert.include(error.message, advice)
      }
    }))

  it.scopedLive("a certificate file that cannot be read fails the call, not the process", () =>
    Effect.gen(function*() {
      const { port } = yield* listen(raw(say(good)))
      const error = yield* Effect.flip(
        Effect.flatMap(transport.Transport, ({ attempt }) => attempt(endpoint, { n: 1 })).pipe(
          Effect.provide(live(NodeTinker.layerHttpClient, port, { caFile: "/nowhere/ca.pem" }))
        )
      )
      assert.strictEqual(error._tag, "TransportFailed")
      assert.include(error.message, "ca.pem")
    }))
})
