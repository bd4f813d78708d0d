import { RunLog } from "@effect-tinker/cookbook"
import { Grades, Studio } from "@effect-tinker/studio"
import { FileSystem, HttpApp } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Ref, TestClock } from "effect"

const page: Studio.Page = { html: "", script: "", style: "" }

/** Two questions of the run `poems`; a grade removes its question. */
const questions = Layer.effect(
  Grades.Grades,
  Effect.map(
    Ref.make<ReadonlyArray<Grades.Question>>([
      { key: "b", question: "How funny?", answer: "Not at all", time: 2 },
      { key: "a", question: "How funny?", answer: "<b>Very</b>", time: 1 }
    ]),
    (open): Grades.Service => ({
      waiting: (directory) => directory.endsWith("/poems") ? Ref.get(open) : Effect.succeed([]),
      give: (_, key) =>
        Effect.flatMap(Ref.get(open), (all) =>
          all.some((question) => question.key === key)
            ? Ref.set(open, all.filter((question) => question.key !== key))
            : new Grades.GradeRefused({ key, description: "nothing waits under this key" }))
    })
  )
)

const start = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped()
  for (const name of ["poems", "other"]) {
    yield* Effect.scoped(RunLog.open(`${directory}/${name}`, { trainer: "reinforce", config: {} }))
  }
  const studio = yield* Studio.make({ directory, page, token: Redacted.make("key") })
  yield* TestClock.adjust("5 seconds")
  yield* studio.refresh
  const handle = HttpApp.toWebHandler(studio.app)
  const headers = { host: "127.0.0.1:1", authorization: "Bearer key" }
  const get = <A>(path: string): Effect.Effect<A> =>
    Effect.promise(async () => (await handle(new Request(`http://127.0.0.1:1${path}`, { headers }))).json())
  const post = (path: string, body: unknown, more: Record<string, string> = {}) => {
    const text = JSON.stringify(body)
    const all = { ...headers, "content-type": "application/json", "content-length": String(text.length), ...more }
    return Effect.promise(async () =>
      (await handle(new Request(`http://127.0.0.1:1${path}`, { method: "POST", body: text, headers: all }))).status
    )
  }
  return { get, post, studio }
})

describe("Grades", () => {
  it.scoped("what waits is listed with its run, oldest first, and goes away when it is graded", () =>
    Effect.gen(function*() {
      const { get, post, studio } = yield* start
      assert.strictEqual((yield* get<Studio.Runs>("/api/runs")).grades, 2)
      const waiting = yield* get<ReadonlyArray<Grades.Waiting>>("/api/grades")
      assert.deepStrictEqual(waiting.map(({ key, run }) => [run, key]), [["poems", "a"], ["poems", "b"]])
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "a", grade: 0.5 }), 200)
      assert.strictEqual((yield* get<ReadonlyArray<unknown>>("/api/grades")).length, 1)
      yield* studio.refresh
      assert.strictEqual((yield* get<Studio.Runs>("/api/runs")).grades, 1)
    }).pipe(Effect.provide(questions), Effect.provide(NodeContext.layer)))

  it.scoped("a grade that is no number, of no run or of nothing is refused; so is one from another page", () =>
    Effect.gen(function*() {
      const { get, post } = yield* start
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "a", grade: "1" }), 400)
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "a", grade: null }), 400)
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "zzz", grade: 1 }), 409)
      assert.strictEqual(yield* post("/api/grades", { run: "../poems", key: "a", grade: 1 }), 404)
      const cross = { origin: "https://evil.example" }
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "a", grade: 1 }, cross), 403)
      const unknown = { authorization: "Bearer guess" }
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "a", grade: 1 }, unknown), 401)
      assert.strictEqual((yield* get<ReadonlyArray<unknown>>("/api/grades")).length, 2)
    }).pipe(Effect.provide(questions), Effect.provide(NodeContext.layer)))

  it.scoped("a studio without the service says so", () =>
    Effect.gen(function*() {
      const { get, post } = yield* start
      assert.strictEqual((yield* get<Studio.Runs>("/api/runs")).grades, null)
      assert.strictEqual(yield* post("/api/grades", { run: "poems", key: "a", grade: 1 }), 501)
      assert.strictEqual(yield* post("/api/data", { file: "a", model: "b" }), 501)
    }).pipe(Effect.provide(NodeContext.layer)))
})
