/**
 * The embedded backend behind a port, in a process of its own and on all cores, as `tinker local` starts it. A line in,
 * its address and key out.
 */
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Redacted } from "effect"
import { availableParallelism } from "node:os"
import { createInterface } from "node:readline"

const main = Effect.gen(function*() {
  const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve({ threads: availableParallelism() })
  createInterface(process.stdin).on("line", () => {
    process.stdout.write(`${JSON.stringify({ baseUrl, apiKey: Redacted.value(apiKey) })}\n`)
  })
  return yield* Effect.never
}).pipe(Effect.scoped)

NodeRuntime.runMain(main)
