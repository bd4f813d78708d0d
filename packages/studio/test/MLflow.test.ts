import { MLflow } from "@effect-tinker/studio"
import { FileSystem, HttpClient, HttpClientResponse } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"

interface Body {
  readonly [key: string]: unknown
  readonly metrics?: ReadonlyArray<{ readonly key: string; readonly value: unknown; readonly step: number }>
  readonly params?: ReadonlyArray<{ readonly key: string; readonly value: string }>
  readonly tags?: ReadonlyArray<{ readonly key: string; readonly value: string }>
}

/** A tracking server with the answers that MLflow documents; `npm run parity -- --studio` asks a real one. */
const tracking = () => {
  const calls: Array<{ readonly path: string; readonly body: Body; readonly authorization: string | undefined }> = []
  const tags = new Map<string, string>()
  const runs: Array<string> = []
  const answer = (path: string, body: Body): readonly [number, unknown] => {
    switch (path) {
      case "experiments/get-by-name":
        return [404, { error_code: "RESOURCE_DOES_NOT_EXIST", message: "no such experiment" }]
      case "experiments/create":
        return [200, { experiment_id: "7" }]
      case "runs/search":
        return [200, {
          runs: runs.slice(-1).map((run_id) => ({
            info: { run_id },
            data: { tags: Array.from(tags, ([key, value]) => ({ key, value })) }
          }))
        }]
      case "runs/create":
        runs.push(`r${runs.length + 1}`)
        tags.clear()
        for (const { key, value } of body.tags ?? []) tags.set(key, value)
        return [200, { run: { info: { run_id: runs.at(-1) } } }]
      case "runs/log-batch":
        for (const { key, value } of body.tags ?? []) tags.set(key, value)
        return [200, {}]
      default:
        return [200, {}]
    }
  }
  const layer = Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request, url) =>
      Effect.sync(() => {
        const path = url.pathname.replace("/base/api/2.0/mlflow/", "")
        const body: Body = request.body._tag === "Uint8Array"
          ? JSON.parse(new TextDecoder().decode(request.body.body))
          : {}
        calls.push({ path, body, authorization: request.headers["authorization"] })
        const [status, json] = answer(path, body)
        return HttpClientResponse.fromWeb(request, new Response(JSON.stringify(json), { status }))
      })
    )
  )
  return { calls, layer, sent: () => calls.flatMap(({ body }) => body.metrics ?? []) }
}

const config = { model: { baseModel: "local/tiny" }, learningRate: 1e-4 }

/** The journal of a run from its first step on: its start, or what it began again with. */
const record = Effect.fnUntraced(function*(directory: string, tag: "Started" | "Resumed", steps: number) {
  const fs = yield* FileSystem.FileSystem
  const head = {
    _tag: tag,
    time: 0,
    config,
    hash: "x",
    ...(tag === "Started" ? { trainer: "supervised" } : { step: 0 })
  }
  const lines = Array.from({ length: steps }, (_, i) => {
    const metrics = { loss: i === 1 ? "NaN" : 1 / (i + 1), "a:b": 1 }
    return { _tag: "Step", time: i, step: i + 1, metrics, timings: {} }
  })
  yield* fs.makeDirectory(directory, { recursive: true })
  const text = [head, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("")
  yield* fs.writeFileString(`${directory}/journal.jsonl`, text, { flag: "a" })
})

describe("MLflow", () => {
  it.scoped("sends metrics in batches, the configuration as parameters; again, nothing twice", () => {
    const { calls, layer, sent } = tracking()
    return Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const from = yield* fs.makeTempDirectoryScoped()
      yield* record(`${from}/one's run`, "Started", 700)
      const options: MLflow.Options = {
        from,
        url: "http://host/base/",
        experiment: "support",
        credential: { _tag: "Bearer", token: Redacted.make("secret") }
      }
      const [exported] = yield* MLflow.write(options)
      assert.deepStrictEqual(exported, { run: "one's run", id: "r1", values: 1400 })
      assert.strictEqual(sent().length, 1400)
      assert.isAtMost(Math.max(...calls.map(({ body }) => body.metrics?.length ?? 0)), 1000)
      assert.deepStrictEqual(sent().find(({ key, step }) => key === "loss" && step === 2)?.value, "NaN")
      assert.isTrue(sent().every(({ key }) => /^[\w.\-/ ]+$/.test(key)))
      const params = calls.flatMap(({ body }) => body.params ?? [])
      assert.deepInclude(params, { key: "learningRate", value: "0.0001" })
      assert.deepInclude(params, { key: "model.baseModel", value: "local/tiny" })
      assert.isTrue(calls.every(({ authorization }) => authorization === "Bearer secret"))
      // The name is part of a filter: its quote must not end the text.
      const filter = String(calls.find(({ path }) => path === "runs/search")?.body["filter"])
      assert.strictEqual(filter.split("'").length, 3)
      assert.deepStrictEqual((yield* MLflow.write(options)).map(({ id, values }) => [id, values]), [["r1", 0]])
    }).pipe(Effect.provide(layer), Effect.provide(NodeContext.layer))
  })

  it.scoped("a run that was resumed from an earlier step is replaced", () => {
    const { calls, layer } = tracking()
    return Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const from = yield* fs.makeTempDirectoryScoped()
      yield* record(`${from}/run`, "Started", 5)
      const options = { from, url: "http://host/base", experiment: "support" }
      yield* MLflow.write(options)
      yield* record(`${from}/run`, "Resumed", 3)
      assert.deepStrictEqual((yield* MLflow.write(options)).map(({ id, values }) => [id, values]), [["r2", 6]])
      assert.deepStrictEqual(
        calls.filter(({ path }) => path === "runs/delete").map(({ body }) => body["run_id"]),
        ["r1"]
      )
    }).pipe(Effect.provide(layer), Effect.provide(NodeContext.layer))
  })

  it.scoped("what the server says is in the failure", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const from = yield* fs.makeTempDirectoryScoped()
      yield* record(`${from}/run`, "Started", 2)
      const failure = yield* Effect.flip(MLflow.write({ from, url: "http://host", experiment: "support" }))
      assert.strictEqual(failure._tag, "MLflowFailed")
      assert.include(failure.message, "not allowed here")
    }).pipe(
      Effect.provide(Layer.succeed(
        HttpClient.HttpClient,
        HttpClient.make((request) => {
          const body = JSON.stringify({ message: "not allowed here" })
          return Effect.succeed(HttpClientResponse.fromWeb(request, new Response(body, { status: 403 })))
        })
      )),
      Effect.provide(NodeContext.layer)
    ))
})
