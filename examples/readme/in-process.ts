import { TinkerLocal } from "@effect-tinker/local"
import { HttpClient } from "@effect/platform"
import { Effect } from "effect"

const program = Effect.gen(function*() {
  const client = yield* HttpClient.HttpClient
  const response = yield* client.get(`${TinkerLocal.baseUrl}/api/v1/healthz`, { headers: { "x-api-key": "tml-local" } })
  return yield* response.json // { status: "ok" }
})

Effect.runPromise(program.pipe(Effect.provide(TinkerLocal.layer()))).then(console.log)
