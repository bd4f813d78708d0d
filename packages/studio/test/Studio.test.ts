import { RunLog } from "@effect-tinker/cookbook"
import type { RunDirectory } from "@effect-tinker/studio"
import { CheckpointChat, Studio } from "@effect-tinker/studio"
import { FileSystem, HttpApp } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted, Stream, TestClock } from "effect"

const token = "0123456789abcdef"

const page: Studio.Page = { html: "<!doctype html>", script: "let a", style: "b{}" }

/** A studio on a new directory, asked as a browser would ask it. */
const start = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  const studio = yield* Studio.make({ directory, page, token: Redacted.make(token) })
  const handle = HttpApp.toWebHandler(studio.app)
  const ask = (path: string, init: RequestInit & { readonly headers?: Record<string, string> } = {}) =>
    Effect.promise(() =>
      handle(
        new Request(`http://127.0.0.1:8123${path}`, {
          ...init,
          headers: { host: "127.0.0.1:8123", authorization: `Bearer ${token}`, ...init.headers }
        })
      )
    )
  const json = <A>(path: string): Effect.Effect<A> =>
    Effect.flatMap(ask(path), (response) => Effect.promise(() => response.json()))
  return { directory, studio, ask, json }
})

const record = (directory: string, steps: number) =>
  Effect.scoped(Effect.gen(function*() {
    const log = yield* RunLog.open(directory, { trainer: "supervised", config: { model: { baseModel: "local/tiny" } } })
    for (let step = 1; step <= steps; step++) {
      yield* log.append({ _tag: "Step", step, metrics: { loss: 1 / step }, timings: {} })
    }
    yield* log.appendRollouts(1, [{ group: 0, member: 0, reward: 1, stop: "completed", turns: [] }])
    yield* log.finish
  }))

describe("Studio", () => {
  it.scoped("shows the runs of a directory, a run, its curves and its rollouts", () =>
    Effect.gen(function*() {
      const { ask, directory, json, studio } = yield* start
      yield* record(`${directory}/group/first run 100%`, 20)
      yield* TestClock.adjust("5 seconds")
      yield* studio.refresh
      const { runs } = yield* json<Studio.Runs>("/api/runs")
      assert.deepStrictEqual(runs.map(({ id, status, step }) => [id, status, step]), [[
        "group/first run 100%",
        "complete",
        20
      ]])
      const at = `/api/runs/${encodeURIComponent("group/first run 100%")}`
      const detail = yield* json<RunDirectory.Detail>(at)
      assert.deepStrictEqual([detail.model, detail.hasRollouts], ["local/tiny", true])
      const series = yield* json<Record<string, { y: Array<number>; total: number }>>(
        `${at}/series?metric=loss&metric=nothing&points=10&smooth=0.5`
      )
      assert.deepStrictEqual(Object.keys(series), ["loss"])
      assert.isAtMost(series["loss"]?.y.length ?? 99, 10)
      assert.strictEqual(series["loss"]?.total, 20)
      assert.strictEqual((yield* json<Array<unknown>>(`${at}/rollouts/1`)).length, 1)
      assert.strictEqual((yield* json<{ reward: number }>(`${at}/rollouts/1/0`)).reward, 1)
      for (const missing of ["/api/runs/none", `${at}/rollouts/1/7`, "/api/nothing", "/api/runs/..%2F..%2Fetc"]) {
        assert.strictEqual((yield* ask(missing)).status, 404, missing)
      }
      assert.strictEqual((yield* ask(`${at}/search?q=a`)).status, 400)
      assert.strictEqual((yield* ask("/api/chat", { method: "POST", body: "{}" })).status, 501)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a run that is asked for while the directory is still being searched is found", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* record(`${directory}/one`, 2)
      // The first search has begun and not ended when the request comes.
      const slow = FileSystem.FileSystem.of({
        ...fs,
        readDirectory: (path, options) =>
          Effect.zipRight(
            Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20))),
            fs.readDirectory(path, options)
          )
      })
      const { app } = yield* Effect.provideService(
        Studio.make({ directory, page, token: Redacted.make(token) }),
        FileSystem.FileSystem,
        slow
      )
      const headers = { host: "127.0.0.1:8123", authorization: `Bearer ${token}` }
      yield* Effect.yieldNow()
      const response = yield* Effect.promise(() =>
        HttpApp.toWebHandler(app)(new Request("http://127.0.0.1:8123/api/runs/one", { headers }))
      )
      assert.strictEqual(response.status, 200)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("tells of changes as they are written", () =>
    Effect.gen(function*() {
      const { ask, directory, studio } = yield* start
      const response = yield* ask("/api/events")
      assert.strictEqual(response.headers.get("content-type"), "text/event-stream")
      const body = response.body
      if (body === null) return assert.fail("no body")
      const events = yield* Effect.fork(
        Stream.fromReadableStream({ evaluate: () => body, onError: (error) => error }).pipe(
          Stream.decodeText(),
          Stream.splitLines,
          Stream.filter((line) => line.startsWith("data:")),
          Stream.map((line): RunDirectory.Summary => JSON.parse(line.slice(5))),
          Stream.takeUntil(({ step }) => step === 3),
          Stream.runLast
        )
      )
      yield* Effect.yieldNow()
      yield* record(`${directory}/late`, 3)
      while ((yield* Fiber.poll(events))._tag === "None") {
        yield* TestClock.adjust("5 seconds")
        yield* studio.refresh
        yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 5)))
      }
      const last = yield* Fiber.join(events)
      assert.deepStrictEqual(last._tag === "Some" ? [last.value.id, last.value.status] : [], ["late", "complete"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("nobody looks without the token, under another name, or from another page", () =>
    Effect.gen(function*() {
      const { ask } = yield* start
      const refused = [
        [401, { authorization: "" }],
        [401, { authorization: "Bearer 0123456789abcdee" }],
        [401, { authorization: "", cookie: `tinker-studio-8123=${token}; tinker-studio=${token}` }],
        [403, { host: "evil.example:8123" }],
        [403, { host: "127.0.0.1.evil.example" }],
        [403, { host: "" }],
        [403, { origin: "https://evil.example" }],
        [403, { origin: "null" }]
      ] as const
      for (const [status, headers] of refused) {
        for (const path of ["/api/runs", "/api/events"]) {
          assert.strictEqual((yield* ask(path, { headers })).status, status, `${path} ${JSON.stringify(headers)}`)
        }
        // The files of the page say nothing of the runs.
        for (const path of ["/", "/studio.js", "/studio.css"]) {
          assert.strictEqual((yield* ask(path, { headers })).status, status === 401 ? 200 : status, path)
        }
      }
      const cross = { "sec-fetch-site": "cross-site" }
      assert.strictEqual((yield* ask("/api/chat", { method: "POST", body: "{}", headers: cross })).status, 403)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("sets no cookie, which every port of this machine would be sent, and takes no token in an address", () =>
    Effect.gen(function*() {
      const { ask } = yield* start
      for (const path of ["/", `/?token=${token}`, "/studio.js", "/api/runs"]) {
        assert.isNull((yield* ask(path)).headers.get("set-cookie"), path)
      }
      const headers = { authorization: "" }
      assert.strictEqual((yield* ask(`/api/runs?token=${token}`, { headers })).status, 401)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("so many pages may listen to changes, and a place is free when one is closed", () =>
    Effect.gen(function*() {
      const { ask } = yield* start
      const open = yield* Effect.replicateEffect(
        Effect.gen(function*() {
          const { body, status } = yield* ask("/api/events")
          assert.strictEqual(status, 200)
          const reader = body?.getReader()
          yield* Effect.promise(async () => reader?.read())
          return reader
        }),
        64
      )
      const refused = yield* ask("/api/events")
      assert.strictEqual(refused.status, 503)
      assert.include(yield* Effect.promise(() => refused.text()), "64 pages listen")
      yield* Effect.promise(async () => open[7]?.cancel())
      let status = 503
      while (status === 503) {
        yield* Effect.yieldNow()
        const again = yield* ask("/api/events")
        status = again.status
      }
      assert.strictEqual(status, 200)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("its page may load nothing from elsewhere, and be framed by nobody", () =>
    Effect.gen(function*() {
      const { ask } = yield* start
      const response = yield* ask("/")
      const policy = response.headers.get("content-security-policy") ?? ""
      assert.include(policy, "default-src 'none'")
      assert.include(policy, "frame-ancestors 'none'")
      assert.notMatch(policy, /unsafe|https?:|\*/)
      assert.strictEqual(response.headers.get("x-content-type-options"), "nosniff")
      assert.strictEqual(response.headers.get("referrer-policy"), "no-referrer")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("questions go to the CheckpointChat in its context; a wrong one is refused before", () =>
    Effect.gen(function*() {
      const { ask } = yield* start
      const post = (body: unknown) =>
        ask("/api/chat", {
          method: "POST",
          body: JSON.stringify(body),
          headers: {
            "content-type": "application/json",
            "content-length": String(JSON.stringify(body).length)
          }
        })
      const good = { model: "tinker://a/sampler_weights/b", messages: [{ role: "user", content: "Hi" }], seed: 3 }
      const asked = yield* post(good)
      const answer: CheckpointChat.Answer = yield* Effect.promise(() => asked.json())
      assert.strictEqual(answer.text, "tinker://a/sampler_weights/b 3 256")
      assert.strictEqual((yield* post({ ...good, messages: [] })).status, 400)
      assert.strictEqual((yield* post({ ...good, model: "broken" })).status, 502)
    }).pipe(
      Effect.provide(Layer.succeed(CheckpointChat.CheckpointChat, {
        ask: ({ maxTokens, model, seed }) =>
          model === "broken"
            ? new CheckpointChat.ChatFailed({ model, cause: new Error("gone") })
            : Effect.succeed({
              text: `${model} ${seed} ${maxTokens}`,
              reasoning: "",
              toolCalls: [],
              stop: "stop",
              tokens: [],
              millis: 1
            })
      })),
      Effect.provide(NodeContext.layer)
    ))
})
