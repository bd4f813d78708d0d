import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { Credentials, TinkerConfig, TinkerError } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import * as http2 from "node:http2"
import * as https from "node:https"
import * as net from "node:net"
import * as tls from "node:tls"
import * as ApiClient from "../../src/internal/transport/apiClient.js"
import { authority, certificate, elsewhere, listen, tunnelTo, until } from "../utils/sockets.js"
import { endpointOf } from "../utils/transport.js"

const endpoint = endpointOf("submit", { pool: "sampling" })

const live = (
  port: number,
  { caFile = authority, connectTimeout, http2 = true, proxy, ...config }: TinkerConfig.Options & NodeTinker.Options = {}
) =>
  ApiClient.layer.pipe(
    Layer.provide(Credentials.layer),
    Layer.provide(TinkerConfig.layer({ baseUrl: `https://127.0.0.1:${port}`, apiKey: "tml-key", ...config })),
    Layer.provide(NodeTinker.layer({ caFile, connectTimeout, http2, proxy }))
  )

const ok = "{\"ok\":true}"

interface Seen {
  readonly version: string
  readonly key: string | undefined
  readonly path: string | undefined
  readonly session: number
}

type Answer = (stream: http2.ServerHttp2Stream, n: number, cut: () => void) => void

const say = (stream: http2.ServerHttp2Stream) => {
  stream.respond({ ":status": 200, "content-type": "application/json" })
  stream.end(ok)
}

/** A server that speaks HTTP/2, and HTTP/1.1 to who asks for that; it answers the n-th stream of all sessions. */
const serve = (answer: Answer, settings: http2.Settings = {}, maxConnections = 1000) =>
  Effect.gen(function*() {
    const seen: Array<Seen> = []
    const sessions: Array<http2.Http2Session> = []
    const server = http2.createSecureServer({ ...certificate, allowHTTP1: true, settings })
    server.maxConnections = maxConnections
    server.on("sessionError", () => undefined)
    server.on("session", (session) => {
      sessions.push(session)
      session.on("error", () => undefined)
    })
    server.on("stream", (stream, headers) => {
      const session = stream.session
      const key = headers["x-idempotency-key"]
      seen.push({
        version: "2.0",
        path: headers[":path"],
        key: typeof key === "string" ? key : undefined,
        session: session === undefined ? -1 : sessions.indexOf(session)
      })
      stream.on("error", () => undefined)
      stream.resume()
      const n = seen.length - 1
      stream.on("end", () => answer(stream, n, () => sockets.forEach((socket) => socket.resetAndDestroy())))
    })
    server.on("request", (request, response) => {
      if (request.httpVersion !== "1.1") return
      seen.push({ version: "1.1", path: request.url, key: undefined, session: -1 })
      request.resume()
      request.on("end", () => response.end(ok))
    })
    const { port, sockets } = yield* listen(server)
    return { port, sockets, seen, sessions }
  })

const faults: ReadonlyArray<
  readonly [title: string, answer: (stream: http2.ServerHttp2Stream, cut: () => void) => void, tag: string]
> = [
  [
    "the stream is reset before the answer",
    (stream) => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR),
    "TransportFailed"
  ],
  ["the stream is refused", (stream) => stream.close(http2.constants.NGHTTP2_REFUSED_STREAM), "TransportFailed"],
  [
    "the stream is cancelled before the answer",
    (stream) => stream.close(http2.constants.NGHTTP2_CANCEL),
    "TransportFailed"
  ],
  [
    "the stream is reset in the middle of the body",
    (stream) => {
      stream.respond({ ":status": 200 })
      stream.write("{\"ok\"")
      setTimeout(() => stream.destroy(new Error("no")), 20)
    },
    "TransportFailed"
  ],
  [
    "the stream is reset in the middle of the body as if all were well",
    (stream) => {
      stream.respond({ ":status": 200, "content-length": "100" })
      stream.write("{\"ok\"")
      setTimeout(() => stream.session?.destroy(), 20)
    },
    "TransportFailed"
  ],
  [
    "the connection breaks in the middle of the body",
    (stream, cut) => {
      stream.respond({ ":status": 200 })
      stream.write("{\"ok\"")
      setTimeout(cut, 20)
    },
    "TransportFailed"
  ],
  [
    "the body is shorter than announced",
    (stream) => {
      stream.respond({ ":status": 200, "content-length": "100" })
      stream.end("{")
    },
    "TransportFailed"
  ],
  ["the session dies", (stream) => stream.session?.destroy(), "TransportFailed"],
  ["the session dies of an error", (stream) => stream.session?.destroy(new Error("no"), 2), "TransportFailed"],
  [
    "an endless body",
    (stream) => {
      stream.respond({ ":status": 200 })
      const timer = setInterval(() => stream.write("x".repeat(16_384)), 1)
      stream.on("close", () => clearInterval(timer))
    },
    "MalformedResponse"
  ],
  [
    "an announced body beyond the limit",
    (stream) => stream.respond({ ":status": 200, "content-length": "9999999" }),
    "MalformedResponse"
  ],
  [
    "a byte now and then",
    (stream) => {
      stream.respond({ ":status": 200 })
      const timer = setInterval(() => stream.write("x"), 50)
      stream.on("close", () => clearInterval(timer))
    },
    "TimedOut"
  ],
  ["silence", () => {}, "TimedOut"],
  [
    "not now",
    (stream) => {
      stream.respond({ ":status": 503, "retry-after": "1" })
      stream.end()
    },
    "Unavailable"
  ]
]

describe("HTTP/2", () => {
  it.scopedLive("is spoken where the server offers it, over as many sessions as its streams ask for", () =>
    Effect.gen(function*() {
      // Nobody is answered before all have come, so that no stream is free again before every session is there.
      const waiting: Array<http2.ServerHttp2Stream> = []
      const { port, seen, sessions } = yield* serve((stream) => {
        if (waiting.push(stream) === 250) waiting.forEach(say)
      }, { maxConcurrentStreams: 100 })
      yield* Effect.gen(function*() {
        const { call } = yield* ApiClient.ApiClient
        const answers = yield* Effect.all(Array.from({ length: 250 }, () => call(endpoint, { n: 1 })), {
          concurrency: "unbounded"
        })
        assert.strictEqual(answers.filter(({ ok }) => ok).length, 250)
      }).pipe(Effect.provide(live(port)))
      assert.strictEqual(seen.length, 250)
      assert.isTrue(seen.every(({ version }) => version === "2.0"))
      assert.strictEqual(sessions.length, 3)
      assert.strictEqual(new Set(seen.map(({ key }) => key)).size, 250)
    }))

  it.scopedLive("a server that takes one stream at a time gets one", () =>
    Effect.gen(function*() {
      const { port, seen, sessions } = yield* serve((stream) => setTimeout(() => say(stream), 20), {
        maxConcurrentStreams: 1
      })
      yield* Effect.flatMap(ApiClient.ApiClient, ({ call }) =>
        Effect.all(Array.from({ length: 5 }, () => call(endpoint, { n: 1 })), { concurrency: "unbounded" })).pipe(
          Effect.provide(live(port))
        )
      assert.strictEqual(seen.length, 5)
      assert.isAtLeast(sessions.length, 1)
    }))

  it.scopedLive("a server that grants one connection and one stream at a time serves everyone in turn", () =>
    Effect.gen(function*() {
      const { port, seen, sessions } = yield* serve(
        (stream) => setTimeout(() => say(stream), 20),
        { maxConcurrentStreams: 1 },
        1
      )
      yield* Effect.flatMap(
        ApiClient.ApiClient,
        ({ attempt }) =>
          Effect.all(Array.from({ length: 5 }, () => attempt(endpoint, { n: 1 })), { concurrency: "unbounded" })
      ).pipe(
        Effect.provide(live(port))
      )
      assert.strictEqual(seen.length, 5)
      assert.strictEqual(sessions.length, 1)
    }))

  it.scopedLive("HTTP/1.1 is spoken where the server offers nothing else", () =>
    Effect.gen(function*() {
      const versions: Array<string> = []
      let connections = 0
      const server = https.createServer(certificate, (request, response) => {
        versions.push(request.httpVersion)
        request.resume()
        request.on("end", () => response.end(ok))
      })
      server.on("secureConnection", () => connections++)
      const { port } = yield* listen(server)
      yield* Effect.gen(function*() {
        const { call } = yield* ApiClient.ApiClient
        for (let i = 0; i < 3; i++) assert.deepStrictEqual(yield* call(endpoint, { n: 1 }), { ok: true })
      }).pipe(Effect.provide(live(port)))
      assert.deepStrictEqual(versions, ["1.1", "1.1", "1.1"])
      // one to ask, and undici may open a second while the first is still busy
      assert.isAtMost(connections, 3)
    }))

  it.scopedLive("large bodies keep connections of their own, and streams too", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve(say)
      yield* Effect.gen(function*() {
        const { call, stream } = yield* ApiClient.ApiClient
        yield* call(endpointOf("submit", { pool: "training" }), { n: 1 })
        const text = yield* Stream.runCollect(Stream.decodeText(stream(endpoint, { n: 1 })))
        assert.strictEqual(Chunk.join(text, ""), ok)
      }).pipe(Effect.provide(live(port)))
      assert.deepStrictEqual(seen.map(({ version }) => version), ["1.1", "1.1"])
    }))

  for (const [title, fault, tag] of faults) {
    it.scopedLive(`${title}: ${tag}, and the next request works (G6)`, () =>
      Effect.gen(function*() {
        const { port } = yield* serve((stream, n, cut) => n === 0 ? fault(stream, cut) : say(stream))
        yield* Effect.gen(function*() {
          const { attempt, call, tenant } = yield* ApiClient.ApiClient
          // time enough for any other failure to show on a busy machine
          const timeout = tag === "TimedOut" ? "700 millis" : "30 seconds"
          const error = yield* Effect.flip(attempt(endpoint, { n: 1 }, { timeout }))
          assert.strictEqual(error._tag, tag)
          assert.strictEqual(yield* tenant.pools.sampling.limit.balance, 1)
          assert.deepStrictEqual(yield* call(endpoint, { n: 1 }), { ok: true })
        }).pipe(Effect.provide(live(port, { poolLimits: { sampling: 1 }, maxResponseBytes: 100_000 })))
      }))
  }

  const beginnings: ReadonlyArray<readonly [title: string, server: () => net.Server, tag: string]> = [
    ["a host that accepts and says nothing", () => net.createServer(), "TimedOut"],
    [
      "a host that promises HTTP/2 and says nothing",
      () =>
        tls.createServer({ ...certificate, ALPNProtocols: ["h2"] }, (socket) => socket.on("error", () => undefined)),
      "TimedOut"
    ],
    [
      "a host that promises HTTP/2 and speaks something else",
      () =>
        tls.createServer({ ...certificate, ALPNProtocols: ["h2"] }, (socket) => {
          socket.on("error", () => undefined)
          socket.end("SSH-2.0-OpenSSH_9.6\r\n")
        }),
      "TransportFailed"
    ],
    ["a host that hangs up", () => net.createServer((socket) => socket.destroy()), "TransportFailed"]
  ]
  for (const [title, server, tag] of beginnings) {
    it.scopedLive(`${title}: ${tag} for everyone who waits (G6)`, () =>
      Effect.gen(function*() {
        const { port } = yield* listen(server())
        yield* Effect.gen(function*() {
          const { attempt } = yield* ApiClient.ApiClient
          const errors = yield* Effect.all(
            [1, 2, 3].map((n) => Effect.flip(attempt(endpoint, { n }))),
            { concurrency: "unbounded" }
          )
          assert.deepStrictEqual(errors.map(({ _tag }) => _tag), [tag, tag, tag])
        }).pipe(Effect.provide(live(port, { connectTimeout: tag === "TimedOut" ? "500 millis" : "30 seconds" })))
      }))
  }

  it.scopedLive("a session that dies in the middle of things costs a retry with the same key, nothing more (G7)", () =>
    Effect.gen(function*() {
      const { port, seen, sessions } = yield* serve((stream, n) => {
        if (n === 2) stream.session?.destroy()
        else if (n > 2) say(stream)
      })
      yield* Effect.flatMap(
        ApiClient.ApiClient,
        ({ call }) =>
          Effect.all([call(endpoint, { n: 1 }), call(endpoint, { n: 2 }), call(endpoint, { n: 3 })], {
            concurrency: "unbounded"
          })
      ).pipe(Effect.provide(live(port)))
      assert.strictEqual(seen.length, 6)
      assert.strictEqual(sessions.length, 2)
      assert.deepStrictEqual(
        new Set(seen.slice(3).map(({ key }) => key)),
        new Set(seen.slice(0, 3).map(({ key }) => key))
      )
    }))

  it.scopedLive("a session that goes away ends what it has; the next request opens another", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve((stream, n) => {
        if (n === 0) {
          stream.session?.goaway(http2.constants.NGHTTP2_NO_ERROR)
          setTimeout(() => say(stream), 50)
        } else say(stream)
      })
      yield* Effect.gen(function*() {
        const { attempt, call } = yield* ApiClient.ApiClient
        // one attempt is enough
        assert.strictEqual((yield* attempt(endpoint, { n: 1 })).status, 200)
        yield* call(endpoint, { n: 2 })
      }).pipe(Effect.provide(live(port)))
      assert.deepStrictEqual(seen.map(({ session }) => session), [0, 1])
    }))

  it.scopedLive("what a session has not looked at when it goes away is sent again over another", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve((stream, n) => {
        // The second stream is one that the server says it has not seen.
        if (n === 1) stream.session?.goaway(http2.constants.NGHTTP2_NO_ERROR, 1)
        else setTimeout(() => say(stream), 100)
      })
      yield* Effect.flatMap(
        ApiClient.ApiClient,
        ({ call }) => Effect.all([call(endpoint, { n: 1 }), call(endpoint, { n: 2 })], { concurrency: "unbounded" })
      ).pipe(
        Effect.provide(live(port))
      )
      assert.deepStrictEqual(seen.map(({ session }) => session), [0, 0, 1])
      assert.strictEqual(seen[2]?.key, seen[1]?.key)
    }))

  it.scopedLive("a header that belongs to HTTP/1.1 connections is refused at once, by name", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve(say)
      const error = yield* Effect.flip(
        Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
          Effect.provide(live(port, { headers: { connection: "close" } }))
        )
      )
      assert.strictEqual(error._tag, "TransportFailed")
      assert.include(error.message, "connection")
      assert.isFalse(TinkerError.isRetryable(error))
      assert.strictEqual(seen.length, 0)
    }))

  it.scopedLive("an interrupted request is cancelled at once; its session goes on (G3)", () =>
    Effect.gen(function*() {
      const asked = yield* Deferred.make<void>()
      const cancelled = yield* Deferred.make<number>()
      const { port, seen } = yield* serve((stream, n) => {
        if (n > 0) return say(stream)
        stream.on("close", () => Deferred.unsafeDone(cancelled, Effect.succeed(stream.rstCode ?? -1)))
        Deferred.unsafeDone(asked, Effect.void)
      })
      yield* Effect.gen(function*() {
        const { attempt, call } = yield* ApiClient.ApiClient
        const fiber = yield* Effect.fork(attempt(endpoint, { n: 1 }))
        yield* Deferred.await(asked)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(yield* Deferred.await(cancelled), http2.constants.NGHTTP2_CANCEL)
        yield* call(endpoint, { n: 2 })
      }).pipe(Effect.provide(live(port)))
      assert.deepStrictEqual(seen.map(({ session }) => session), [0, 0])
    }))

  it.scopedLive("a request interrupted while it waits for a session is never sent (G2)", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve(say)
      yield* Effect.gen(function*() {
        const { attempt, call } = yield* ApiClient.ApiClient
        const fibers = yield* Effect.forEach([1, 2, 3], (n) => Effect.fork(attempt(endpoint, { n })))
        yield* Effect.yieldNow()
        yield* Fiber.interruptAll(fibers)
        yield* call(endpoint, { n: 4 })
      }).pipe(Effect.provide(live(port)))
      assert.strictEqual(seen.length, 1)
    }))

  it.scopedLive("a session on which only silence came is left; one that answers others is kept", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve((stream, n) => {
        if (n === 1 || n === 3) say(stream)
      })
      yield* Effect.gen(function*() {
        const { attempt, call } = yield* ApiClient.ApiClient
        const silent = yield* Effect.fork(Effect.flip(attempt(endpoint, { n: 0 }, { timeout: "2 seconds" })))
        yield* until(() => seen.length === 1)
        yield* call(endpoint, { n: 1 })
        assert.strictEqual((yield* Fiber.join(silent))._tag, "TimedOut")
        assert.strictEqual(
          (yield* Effect.flip(attempt(endpoint, { n: 2 }, { timeout: "1 seconds" })))._tag,
          "TimedOut"
        )
        yield* call(endpoint, { n: 3 })
      }).pipe(Effect.provide(live(port)))
      assert.deepStrictEqual(seen.map(({ session }) => session), [0, 0, 0, 1])
    }))

  it.scopedLive("sessions close with the scope, and with them what is under way (G12)", () =>
    Effect.gen(function*() {
      const { port, seen, sockets } = yield* serve(() => {})
      yield* Effect.gen(function*() {
        const { attempt } = yield* ApiClient.ApiClient
        yield* Effect.forkScoped(attempt(endpoint, { n: 1 }))
        yield* until(() => seen.length === 1)
      }).pipe(Effect.provide(live(port)), Effect.scoped)
      yield* until(() => sockets.size === 0)
    }))

  describe("certificates", () => {
    const versions: ReadonlyArray<readonly [string, boolean]> = [["HTTP/2", true], ["HTTP/1.1", false]]
    for (const [version, spoken] of versions) {
      it.scopedLive(`${version}: a private authority is trusted when it is named`, () =>
        Effect.gen(function*() {
          const { port, seen } = yield* serve(say)
          yield* Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
            Effect.provide(live(port, { http2: spoken, baseUrl: `https://localhost:${port}` }))
          )
          assert.deepStrictEqual(seen.map(({ version }) => version), [spoken ? "2.0" : "1.1"])
        }))

      it.scopedLive(`${version}: one that is not named fails at once and says what to do`, () =>
        Effect.gen(function*() {
          const { port, seen } = yield* serve(say)
          const error = yield* Effect.flip(
            Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
              Effect.provide(live(port, { http2: spoken, caFile: "" }))
            )
          )
          assert.strictEqual(error._tag, "TransportFailed")
          assert.isFalse(TinkerError.isRetryable(error))
          assert.include(error.message, "SSL_CERT_FILE")
          assert.strictEqual(seen.length, 0)
        }))

      it.scopedLive(`${version}: a certificate of another host is refused`, () =>
        Effect.gen(function*() {
          const { port } = yield* listen(https.createServer(elsewhere, (_, response) => response.end(ok)))
          const error = yield* Effect.flip(
            Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
              Effect.provide(live(port, { http2: spoken, baseUrl: `https://localhost:${port}` }))
            )
          )
          assert.strictEqual(error._tag, "TransportFailed")
          assert.include(error.message, "elsewhere.test")
          assert.isFalse(TinkerError.isRetryable(error))
        }))

      it.scopedLive(`${version}: a file without a certificate fails the call, not the process`, () =>
        Effect.gen(function*() {
          const { port } = yield* serve(say)
          for (
            const [caFile, word] of [["/nowhere/ca.pem", "/nowhere/ca.pem"], [import.meta.filename, "PEM"]] as const
          ) {
            const error = yield* Effect.flip(
              Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
                Effect.provide(live(port, { http2: spoken, caFile }))
              )
            )
            assert.strictEqual(error._tag, "TransportFailed")
            assert.include(error.message, word)
          }
        }))
    }

    it.scopedLive("a directory of authorities will do", () =>
      Effect.gen(function*() {
        const { port, seen } = yield* serve(say)
        yield* Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
          Effect.provide(live(port, { caFile: authority.replace(/authority\.pem$/, "") }))
        )
        assert.strictEqual(seen.length, 1)
      }))
  })

  it.scopedLive("through a proxy it is HTTP/1.1 in a tunnel, with the same trust", () =>
    Effect.gen(function*() {
      const { port, seen } = yield* serve(say)
      const { tunnels, url } = yield* tunnelTo(port)
      yield* Effect.flatMap(ApiClient.ApiClient, ({ call }) => call(endpoint, { n: 1 })).pipe(
        Effect.provide(live(port, { proxy: { https: url } }))
      )
      assert.deepStrictEqual(tunnels, [`127.0.0.1:${port}`])
      assert.deepStrictEqual(seen.map(({ version }) => version), ["1.1"])
    }))
})
