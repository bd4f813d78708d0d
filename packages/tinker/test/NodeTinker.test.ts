import { assert, describe, it } from "@effect/vitest"
import { Chunk, ConfigProvider, Deferred, Effect, Either, Fiber, Layer, Logger, Stream } from "effect"
import type { TinkerError } from "effect-tinker"
import { Credentials, RetryPolicy, ServiceClient, TinkerConfig, TinkerTransport } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { Api } from "effect-tinker/wire"
import * as http from "node:http"
import * as https from "node:https"
import * as net from "node:net"
import * as Connections from "../src/internal/node/connections.js"
import * as ApiClient from "../src/internal/transport/apiClient.js"
import { authority, certificate, listen, tunnelTo } from "./utils/sockets.js"
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

type Transport = Layer.Layer<TinkerTransport.TinkerTransport, TinkerError.InvalidInput>

const clients: ReadonlyArray<readonly [string, Transport]> = [
  ["undici", NodeTinker.layer()],
  ["fetch", TinkerTransport.layerFetch]
]

const live = (client: Transport, port: number, options: TinkerConfig.Options = {}) =>
  ApiClient.layer.pipe(
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
              const { attempt, call, tenant } = yield* ApiClient.ApiClient
              // time enough for any other failure to show on a busy machine
              const timeout = tag === "TimedOut" ? "700 millis" : "30 seconds"
              const error = yield* Effect.flip(
                Effect.flatMap(attempt(endpoint, { n: 1 }, { timeout }), (answer) =>
                  // what is wrong with a whole body shows when it is decoded
                  Effect.mapError(
                    endpoint.response.decode(answer.body, answer.headers["content-type"]),
                    () => ({ _tag: "MalformedResponse" as const })
                  ))
              )
              assert.strictEqual(error._tag, tag)
              assert.strictEqual(yield* tenant.pools.training.limit.balance, 1)
              assert.deepStrictEqual(yield* call(endpoint, { n: 1 }), { ok: true })
            }).pipe(Effect.provide(live(client, port, { poolLimits: { training: 1 }, maxResponseBytes: 100_000 })))
          }))
      }

      it.live("refused is TransportFailed and says what to check", () =>
        Effect.gen(function*() {
          const port = yield* Effect.scoped(Effect.map(listen(net.createServer()), ({ port }) => port))
          const error = yield* Effect.flip(
            Effect.flatMap(ApiClient.ApiClient, ({ attempt }) => attempt(endpoint, { n: 1 })).pipe(
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
            const { attempt } = yield* ApiClient.ApiClient
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
            const { stream } = yield* ApiClient.ApiClient
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
      // Below the tenant's limits, where undici itself has to queue.
      const transport = yield* NodeTinker.makeTransport({ connections: { training: 1 } })
      const send = (path: string) =>
        transport.send({
          method: "POST",
          origin: `http://127.0.0.1:${port}`,
          path,
          headers: {},
          body: "{}",
          pool: "training",
          timeout: 60_000,
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
        const { call } = yield* ApiClient.ApiClient
        for (let i = 0; i < 5; i++) yield* call(endpoint, { n: 1 })
        // A client of undici is still busy when its answer is already here, so a second one may be opened.
        assert.isAtMost(connections, 2)
        const before = connections
        yield* call(endpointOf("submit", { pool: "sampling" }), { n: 1 })
        assert.strictEqual(connections, before + 1)
      }).pipe(Effect.provide(live(NodeTinker.layer(), port)))
      yield* Effect.repeat(Effect.sleep("5 millis"), { until: () => sockets.size === 0 })
    }))

  it.scopedLive("goes through the proxy, except where told not to", () =>
    Effect.gen(function*() {
      const { port } = yield* listen(raw(say(good)))
      const { tunnels, url } = yield* tunnelTo(port)
      const ask = (options: NodeTinker.Options) =>
        Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
          Effect.provide(live(NodeTinker.layer(options), port))
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
        yield* Effect.flatMap(ApiClient.ApiClient, ({ attempt }) => attempt(Api.audit, { eventType: "all" })).pipe(
          Effect.provide(live(client, port, { headers: { "x-own": "mine" } }))
        )
        assert.deepStrictEqual(seen, [
          [`127.0.0.1:${port}`, "tml-key", "mine"],
          [`127.0.0.1:${second}`, undefined, undefined]
        ])
      }))
  }

  it.scopedLive("a proxy that requires credentials says so at once", () =>
    Effect.gen(function*() {
      let asked = 0
      const proxy = http.createServer()
      proxy.on("connect", (_, socket) => {
        asked++
        socket.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
      })
      const { port } = yield* listen(proxy)
      const error = yield* Effect.flip(
        Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
          Effect.provide(live(NodeTinker.layer({ proxy: { all: `127.0.0.1:${port}` } }), 1))
        )
      )
      assert.strictEqual(error._tag, "TransportFailed")
      assert.include(error.message, "the proxy requires credentials")
      assert.strictEqual(asked, 1)
    }))

  it.scopedLive("log: one line for each answer, with debug also for what is sent and what fails, never the key", () =>
    Effect.gen(function*() {
      const { port } = yield* listen(raw((socket) => socket.end(), say(good)))
      const lines = (log: "info" | "debug" | undefined) =>
        Effect.gen(function*() {
          const logged: Array<string> = []
          yield* Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
            Effect.provide(live(NodeTinker.layer(), port, { log })),
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
                Layer.provide(NodeTinker.layer())
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
        Effect.flatMap(ApiClient.ApiClient, ({ attempt }) => attempt(endpoint, { n: 1 })).pipe(
          Effect.provide(live(NodeTinker.layer({ caFile: "/nowhere/ca.pem" }), port))
        )
      )
      assert.strictEqual(error._tag, "TransportFailed")
      assert.include(error.message, "ca.pem")
    }))

  describe("wrapped", () => {
    const tagged = TinkerTransport.mapSend((send) => (request) =>
      send({ ...request, headers: { ...request.headers, "x-team": "research" } })
    )
    const wrapped = (options: NodeTinker.Options) =>
      Layer.effect(TinkerTransport.TinkerTransport, Effect.map(TinkerTransport.TinkerTransport, tagged)).pipe(
        Layer.provide(NodeTinker.layer(options))
      )
    const ask = (options: NodeTinker.Options, port: number, baseUrl?: string) =>
      Effect.flatMap(ApiClient.ApiClient, ({ attempt }) => attempt(endpoint, { n: 1 })).pipe(
        Effect.provide(live(wrapped(options), port, baseUrl === undefined ? {} : { baseUrl }))
      )

    it.scopedLive("a wrapped transport still goes through the proxy, with what the wrapper adds", () =>
      Effect.gen(function*() {
        const seen: Array<unknown> = []
        const { port } = yield* listen(http.createServer((request, response) => {
          seen.push(request.headers["x-team"])
          request.resume()
          response.end("{\"ok\":true}")
        }))
        const { tunnels, url } = yield* tunnelTo(port)
        yield* ask({ proxy: { all: url } }, port)
        assert.deepStrictEqual(tunnels, [`127.0.0.1:${port}`])
        assert.deepStrictEqual(seen, ["research"])
      }))

    it.scopedLive("a transport with another `send` sends through it, however it was made", () =>
      Effect.gen(function*() {
        const seen: Array<unknown> = []
        const { port } = yield* listen(http.createServer((request, response) => {
          seen.push(request.headers["x-team"])
          request.resume()
          response.end("{\"ok\":true}")
        }))
        const replaced = (transport: TinkerTransport.Service): TinkerTransport.Service => ({
          ...transport,
          send: (request) => transport.send({ ...request, headers: { ...request.headers, "x-team": "research" } })
        })
        const ways = [replaced, tagged, (transport: TinkerTransport.Service) => replaced(tagged(transport))]
        for (const way of ways) {
          const transport = Layer.effect(
            TinkerTransport.TinkerTransport,
            Effect.map(TinkerTransport.TinkerTransport, way)
          )
          yield* Effect.flatMap(ApiClient.ApiClient, ({ attempt }) => attempt(endpoint, { n: 1 })).pipe(
            Effect.provide(live(Layer.provide(transport, NodeTinker.layer()), port))
          )
        }
        assert.deepStrictEqual(seen, ["research", "research", "research"])
      }))

    it.scopedLive("a dead proxy and a missing CA file fail it: nothing connects past them", () =>
      Effect.gen(function*() {
        const { port } = yield* listen(raw(say(good)))
        const closed = yield* Effect.scoped(Effect.map(listen(net.createServer()), ({ port }) => port))
        const refused = yield* Effect.flip(ask({ proxy: { all: `http://127.0.0.1:${closed}` } }, port))
        assert.strictEqual(refused._tag, "TransportFailed")
        const unreadable = yield* Effect.flip(ask({ caFile: "/nowhere/ca.pem" }, port))
        assert.include(unreadable.message, "/nowhere/ca.pem")
      }))

    it.scopedLive("the authorities of caFile are trusted through the wrapper", () =>
      Effect.gen(function*() {
        const server = https.createServer(certificate, (request, response) => {
          request.resume()
          response.end("{\"ok\":true}")
        })
        const { port } = yield* listen(server)
        const baseUrl = `https://127.0.0.1:${port}`
        yield* ask({ caFile: authority }, port, baseUrl)
        const error = yield* Effect.flip(ask({}, port, baseUrl))
        assert.include(error.message, "caFile")
      }))
  })

  it("settings that cannot work are refused, and no secret is quoted", () => {
    const cases: ReadonlyArray<readonly [options: NodeTinker.Options, word: string]> = [
      [{ proxy: { https: "http://user:hush@[proxy" } }, "https proxy"],
      [{ proxy: { all: "ftp://user:hush@proxy" } }, "ftp:"],
      [{ connections: { sampling: 0 } }, "sampling"],
      [{ connectTimeout: "-1 seconds" }, "connectTimeout"]
    ]
    for (const [options, word] of cases) {
      const error = Either.getOrThrow(Either.flip(Connections.makeSettings(options)))
      assert.strictEqual(error._tag, "InvalidInput")
      assert.include(error.message, word)
      assert.notInclude(error.message, "hush")
    }
  })

  it.effect("the environment is read under the names other tools use; a proxy without a scheme is an http one", () =>
    Effect.gen(function*() {
      const env = (variables: Record<string, string>) =>
        Effect.flatMap(Connections.fromEnv, Connections.makeSettings).pipe(
          Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(variables))))
        )
      const { caFile, http2, proxy } = yield* env({
        https_proxy: "proxy.test:3128",
        NO_PROXY: "internal.test",
        SSL_CERT_FILE: "/ca.pem"
      })
      assert.deepStrictEqual(proxy, { https: "http://proxy.test:3128", no: "internal.test" })
      assert.strictEqual(caFile, "/ca.pem")
      assert.isFalse(http2)
      assert.strictEqual((yield* env({ SSL_CERT_DIR: "/certs" })).caFile, "/certs")
    }))
})
