import { AgentModel, Gateway, Recorder } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { LocalServer, LocalTokenizer } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import * as NodeStudio from "@effect-tinker/studio/NodeStudio"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Array as Arr, Effect, Logger, LogLevel, Order, Redacted, type Scope } from "effect"
import * as Net from "node:net"

/**
 * What every server of this repository has in common: each of its routes is asked as each caller. The routes are those that
 * are registered, so a new one is asked too. The port of a worker has none: see `packages/cluster/test/Safety.e2e.test.ts`.
 */

type Who = "anyone" | "agent" | "trainer"

interface Served {
  readonly port: number
  /** Opens everything. */
  readonly key: string
  /** Opens what is for agents, where there are such keys. */
  readonly agentKey: string | undefined
  readonly header: (key: string) => string
  readonly routes: ReadonlyArray<{ readonly method: string; readonly path: string; readonly who: Who }>
}

interface Server {
  readonly name: string
  readonly start: Effect.Effect<Served, unknown, Scope.Scope | NodeContext.NodeContext>
  /** Routes that need no key: a new one is a decision. */
  readonly anonymous: ReadonlyArray<string>
}

const bearer = (key: string) => `authorization: Bearer ${key}`

const filled = (path: string) => path.replace(/:[a-z]+/g, "x")

const gateway: Server = {
  name: "the gateway",
  anonymous: ["GET /health"],
  start: Effect.gen(function*() {
    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const recorder = yield* Recorder.make()
    // Nobody who is refused reaches it.
    const sampler = { sample: () => Effect.dieMessage("sampled"), window: Effect.succeed(undefined) }
    const model = yield* Effect.provideService(AgentModel.make({ renderer, sampler }), Recorder.Recorder, recorder)
    const over = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      effect.pipe(
        Effect.provideService(AgentModel.AgentModel, model),
        Effect.provideService(Recorder.Recorder, recorder)
      )
    const running = yield* over(NodeGateway.serve({ model: "m" }))
    const { routes } = yield* over(Gateway.makeWithRoutes({ model: "m", apiKey: running.apiKey }))
    return {
      port: running.port,
      key: Redacted.value(running.apiKey),
      agentKey: Redacted.value(yield* running.rolloutKey("x")),
      header: bearer,
      routes: routes.map(({ method, path, who }) => ({ method, path: filled(path), who }))
    }
  })
}

const studio: Server = {
  name: "the studio",
  anonymous: ["GET /", "GET /studio.js", "GET /studio.css"],
  start: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const running = yield* NodeStudio.serve({ directory: yield* fs.makeTempDirectoryScoped() })
    const url = new URL(Redacted.value(running.url))
    return {
      port: Number(url.port),
      key: url.hash.slice("#token=".length),
      agentKey: undefined,
      header: bearer,
      routes: running.studio.routes.map(({ method, path, who }) => ({
        method,
        path: filled(path),
        who: who === "token" ? "trainer" as const : who
      }))
    }
  })
}

const backend: Server = {
  name: "the embedded server with its OpenAI-compatible endpoints",
  // Tokenizers, as the hub has them, and downloads by addresses that expire and cannot be guessed.
  anonymous: [
    "GET /api/v1/healthz",
    "GET /api/v1/local/downloads/x",
    "GET /api/models/x/x",
    "GET /api/models/x/x/revision/x",
    "GET /api/models/x/x/tree/x",
    "GET /x/x/resolve/x/x"
  ],
  start: Effect.gen(function*() {
    const { apiKey, port } = yield* NodeTinkerLocal.serve()
    return {
      port,
      key: Redacted.value(apiKey),
      agentKey: undefined,
      header: (key) => `x-api-key: ${key}`,
      // The route that ends a key comes last.
      routes: Arr.sortWith(LocalServer.accesses, ({ name }) => name === "deleteApiKey", Order.boolean).map((
        { auth, method, path }
      ) => ({
        method,
        path,
        who: auth === "none" ? "anyone" as const : "trainer" as const
      }))
    }
  })
}

/** Sends the head of a request, and not one byte of the body it announces; answers with the status. */
const ask = (
  port: number,
  { method, path }: { readonly method: string; readonly path: string },
  headers: ReadonlyArray<string>
): Effect.Effect<number> =>
  Effect.async<number>((resume) => {
    let received = ""
    const socket = Net.connect(port, "127.0.0.1", () => {
      const own = headers.some((header) => header.startsWith("host:"))
        ? headers
        : [`host: 127.0.0.1:${port}`, ...headers]
      socket.write(`${method} ${path} HTTP/1.1\r\n${own.join("\r\n")}\r\n\r\n`)
    })
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1")
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(received) ?? []
      if (status === undefined) return
      socket.destroy()
      resume(Effect.succeed(Number(status)))
    })
    socket.on("error", () => resume(Effect.succeed(0)))
    socket.on("close", () => resume(Effect.succeed(0)))
    return Effect.sync(() => socket.destroy())
  }).pipe(
    Effect.timeoutTo({ duration: "30 seconds", onSuccess: (status) => status, onTimeout: () => -1 })
  )

const announced = `content-length: ${2 ** 31}`

for (const { anonymous, name, start } of [gateway, studio, backend]) {
  describe(`safety: ${name}`, () => {
    const withServer = <A, E>(use: (served: Served) => Effect.Effect<A, E, Scope.Scope>) =>
      Effect.flatMap(start, use).pipe(Effect.provide(NodeContext.layer))

    it.scopedLive("asks for a key before it reads a body, on every route but those that are meant for everybody", () =>
      withServer((served) =>
        Effect.gen(function*() {
          const open = served.routes.filter(({ who }) => who === "anyone").map(({ method, path }) =>
            `${method} ${path}`
          )
          assert.sameMembers(open, Array.from(anonymous))
          for (const route of served.routes.filter(({ who }) => who !== "anyone")) {
            const wrong = ["", "wrong", `${served.key}x`].map((key) => [served.header(key)])
            for (const key of [[], ...wrong]) {
              const body = route.method === "GET" ? [] : [announced]
              assert.strictEqual(
                yield* ask(served.port, route, [...key, ...body]),
                401,
                `${route.method} ${route.path} ${key}`
              )
            }
          }
        })
      ))

    it.scopedLive("lets a key do what it is for, and no more", () =>
      withServer((served) =>
        Effect.gen(function*() {
          for (const route of served.routes) {
            const status = yield* ask(served.port, route, [served.header(served.key), "content-length: 0"])
            assert.notInclude([0, -1, 401, 403], status, `${route.method} ${route.path}`)
          }
          if (served.agentKey === undefined) return
          for (const route of served.routes.filter(({ who }) => who === "trainer")) {
            const status = yield* ask(served.port, route, [served.header(served.agentKey), announced])
            assert.strictEqual(status, 403, `${route.method} ${route.path}`)
          }
        })
      ))

    it.scopedLive("refuses other names of this machine and other web pages, whatever key they have", () =>
      withServer((served) =>
        Effect.gen(function*() {
          const foreign = [
            ["host: evil.example"],
            [`host: 127.0.0.1.evil.example:${served.port}`],
            ["origin: https://evil.example"],
            ["origin: null"],
            [`origin: http://127.0.0.1:${served.port === 65535 ? 65534 : served.port + 1}`]
          ]
          for (const route of served.routes) {
            for (const headers of foreign) {
              const status = yield* ask(served.port, route, [...headers, served.header(served.key)])
              assert.strictEqual(status, 403, `${route.method} ${route.path} ${headers}`)
            }
          }
        })
      ))

    it.scopedLive("answers a body that is too large without a byte of it", () =>
      withServer((served) =>
        Effect.gen(function*() {
          for (const route of served.routes.filter(({ method }) => method === "POST")) {
            const status = yield* ask(served.port, route, [served.header(served.key), announced])
            assert.isAtLeast(status, 200, `${route.method} ${route.path}`)
          }
        })
      ))

    it.scopedLive("serves others while many clients send nothing", () =>
      withServer((served) =>
        Effect.gen(function*() {
          const [route] = served.routes.filter(({ method, who }) => method === "GET" && who !== "anyone")
          assert(route !== undefined)
          yield* Effect.acquireRelease(
            Effect.forEach(Array.from({ length: 300 }, (_, n) => n), (n) =>
              Effect.async<Net.Socket>((resume) => {
                const socket = Net.connect(served.port, "127.0.0.1", () => {
                  if (n % 2 === 0) socket.write("GET / HTT")
                  resume(Effect.succeed(socket))
                })
                socket.on("error", () => resume(Effect.succeed(socket)))
              }), { concurrency: 50 }),
            (sockets) => Effect.sync(() => sockets.forEach((socket) => socket.destroy()))
          )
          assert.strictEqual(yield* ask(served.port, route, []), 401)
        })
      ))

    it.scopedLive("writes no key to its log", () =>
      Effect.gen(function*() {
        const said: Array<string> = []
        const log = Logger.make(({ annotations, cause, message }) => {
          said.push(JSON.stringify([message, String(cause), Array.from(annotations)]))
        })
        const keys = yield* withServer((served) =>
          Effect.gen(function*() {
            const keys = [served.key, ...(served.agentKey === undefined ? [] : [served.agentKey])]
            for (const route of served.routes) {
              for (const key of keys) {
                yield* ask(served.port, route, [served.header(key), "content-length: 0"])
                yield* ask(served.port, { ...route, path: `${route.path}?token=${key}` }, ["content-length: 0"])
              }
            }
            return keys
          })
        ).pipe(
          Effect.provide(Logger.replace(Logger.defaultLogger, log)),
          Logger.withMinimumLogLevel(LogLevel.All)
        )
        for (const key of keys) assert.notInclude(said.join("\n"), key)
      }))
  })
}
