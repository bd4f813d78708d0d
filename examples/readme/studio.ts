/** The code of packages/studio/README.md. */
import * as NodeStudio from "@effect-tinker/studio/NodeStudio"
import { NodeContext } from "@effect/platform-node"
import { Console, Effect, Redacted } from "effect"

const program = Effect.gen(function*() {
  const { url } = yield* NodeStudio.serve({ directory: "runs" })
  yield* Console.log(`Open ${Redacted.value(url)}`)
  return yield* Effect.never
})

program.pipe(Effect.scoped, Effect.provide(NodeContext.layer), Effect.runPromise)
