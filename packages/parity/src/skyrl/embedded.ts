/**
 * The embedded backend in a process of its own, as a server of SkyRL's era that is fast: prints its address and key, and
 * serves until it is ended.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Redacted } from "effect"

Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve({ profile: "0.24", threads: 1 })
  yield* Console.log(`${baseUrl} ${Redacted.value(apiKey)}`)
  return yield* Effect.never
}).pipe(Effect.scoped, NodeRuntime.runMain)
