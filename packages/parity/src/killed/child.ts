/**
 * Saves checkpoints as fast as it can, through the embedded backend, until it is killed. Each acknowledged save is a
 * line on standard output. Arguments: the directory, and a name for this round.
 */
import * as TinkerLocal from "@effect-tinker/local/TinkerLocal"
import { HttpClient, HttpClientRequest } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { writeSync } from "node:fs"

const [directory = "", round = ""] = process.argv.slice(2)

const post = (path: string, body: unknown) =>
  Effect.gen(function*() {
    const client = yield* HttpClient.HttpClient
    const response = yield* client.execute(
      HttpClientRequest.post(`${TinkerLocal.baseUrl}/api/v1${path}`).pipe(
        HttpClientRequest.setHeader("x-api-key", "tml-killed"),
        HttpClientRequest.bodyUnsafeJson(body)
      )
    )
    return Object(yield* response.json)
  })

const result = (future: { readonly request_id: string }) => post("/retrieve_future", { request_id: future.request_id })

const main = Effect.gen(function*() {
  const { session_id: sessionId } = yield* post("/create_session", { tags: [], sdk_version: "0" })
  const { model_id: modelId } = yield* Effect.flatMap(
    post("/create_model", {
      session_id: sessionId,
      model_seq_id: 0,
      base_model: "local/tiny",
      lora_config: { rank: 4 }
    }),
    result
  )
  for (let n = 1;; n++) {
    // every other save replaces the same checkpoint
    const path = n % 2 === 0 ? "latest" : `${round}-${n}`
    const saved = yield* Effect.flatMap(
      post("/save_weights", {
        model_id: modelId,
        seq_id: n,
        path,
        overwrite: path === "latest",
        user_metadata: { n: String(n) }
      }),
      result
    )
    // not buffered: what was said before the end was said
    writeSync(1, `${saved.path} ${n}\n`)
  }
})

NodeRuntime.runMain(
  main.pipe(Effect.provide(TinkerLocal.layerDirectory(directory)), Effect.provide(NodeContext.layer))
)
