import { NodeWorker } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, TestClock, TestServices } from "effect"
import { ModelInput, SamplingClient, SamplingWorker, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { build } from "esbuild"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import * as LocalServer from "../src/LocalServer.js"
import * as NodeTinkerLocal from "../src/NodeTinkerLocal.js"
import { busy, Rollout, stop } from "./fixtures/rollout.js"

const apiKey = "tml-worker"

/** Looks again, in real time, until it is so. */
const eventually = (condition: () => boolean) =>
  TestServices.provideLive(Effect.repeat(Effect.sleep("10 millis"), { until: condition }))

/** The embedded backend behind a port, and what it was asked. */
const server = Effect.gen(function*() {
  const seen: Array<{ readonly path: string; readonly body: Uint8Array }> = []
  const running = yield* NodeTinkerLocal.serve({ open: true })
  yield* running.server.setClientConfig({ sampleJoinSamplingSession: true })
  const { baseUrl } = yield* NodeTinkerLocal.listen({
    ...running.server,
    handle: (request) =>
      Effect.flatMap(LocalServer.readBody(request), (body) => {
        seen.push({ path: request.url.pathname, body })
        return running.server.handle({ ...request, body })
      })
  })
  const bodies = (path: string) => seen.filter((request) => request.path === `/api/v1/${path}`).map(({ body }) => body)
  return { baseUrl, bodies }
})

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** The worker's program in one file: a thread that had to load its sources one by one would take longer than the test. */
const program = Effect.acquireRelease(
  Effect.promise(async () => {
    const cache = here("../node_modules/.cache")
    mkdirSync(cache, { recursive: true })
    const directory = mkdtempSync(`${cache}/worker-`)
    await build({
      entryPoints: [here("./fixtures/rolloutWorker.ts")],
      outfile: `${directory}/worker.mjs`,
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      conditions: ["@effect-tinker/source"],
      banner: { js: "import { createRequire } from \"node:module\"; const require = createRequire(import.meta.url);" },
      logLevel: "warning"
    })
    return directory
  }),
  (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
).pipe(Effect.map((directory) => `${directory}/worker.mjs`))

const spawn = (program: string, baseUrl: string, flags: Int32Array) =>
  NodeWorker.layer(() =>
    new Worker(program, {
      env: { TINKER_BASE_URL: baseUrl, TINKER_API_KEY: apiKey },
      execArgv: [],
      workerData: flags
    })
  )

const clientOf = (body: Uint8Array): number =>
  Math.floor(JSON.parse(new TextDecoder().decode(body)).seq_id / 1_000_000_000)

describe("SamplingWorker", () => {
  it.scoped(
    "workers draw from the same sampler, numbered apart; while they burn CPU the session's heart beats on",
    () =>
      Effect.gen(function*() {
        // The server and the workers live in real time; the session here in that of the test.
        const { baseUrl, bodies } = yield* TestServices.provideLive(server)
        const flags = new Int32Array(new SharedArrayBuffer(8))
        yield* Effect.addFinalizer(() => Effect.sync(() => Atomics.store(flags, stop, 1)))
        yield* Effect.gen(function*() {
          const own = yield* SamplingClient.SamplingClient
          yield* TestServices.provideLive(own.sample({ prompt: ModelInput.fromInts([1, 2]), maxTokens: 4 }))
          const pool = yield* SamplingWorker.makePool<Rollout>({ size: 2 })
          const rollouts = yield* Effect.fork(Effect.forEach(
            [1, 2],
            (seed) => pool.executeEffect(new Rollout({ seed })),
            { concurrency: "unbounded" }
          ))
          yield* eventually(() => Atomics.load(flags, busy) === 2)

          for (let beats = 1; beats <= 3; beats++) {
            const before = bodies("session_heartbeat").length
            // Until it beats: when the clock moves, the answer to the last beat may still be on its way to the session.
            yield* Effect.repeat(
              Effect.zipRight(TestClock.adjust("10 seconds"), TestServices.provideLive(Effect.sleep("10 millis"))),
              { until: () => bodies("session_heartbeat").length > before }
            )
          }
          assert.isTrue((yield* Fiber.poll(rollouts))._tag === "None")
          Atomics.store(flags, stop, 1)

          const results = yield* Fiber.join(rollouts)
          assert.deepStrictEqual(results.map(({ tokens }) => tokens), [4, 4])
          assert.strictEqual(new Set(results.map(({ thread }) => thread)).size, 2)
          assert.deepStrictEqual(bodies("asample").map(clientOf).sort(), [0, 1, 2])
          assert.strictEqual(bodies("create_session").length, 1)
        }).pipe(
          Effect.provide(Layer.mergeAll(
            SamplingClient.layer({ baseModel: "local/tiny" }).pipe(
              Layer.provide(ServiceClient.layer({ baseUrl, apiKey })),
              Layer.provide(NodeTinker.layer())
            ),
            spawn(yield* program, baseUrl, flags)
          ))
        )
      }),
    60_000
  )
})
