/** Makes a kit in a process that can be killed. Arguments: the options as JSON. Says when it starts. */
import { ServingKit } from "@effect-tinker/weights"
import { NodeContext } from "@effect/platform-node"
import { Effect, Stream } from "effect"
import { writeSync } from "node:fs"

const options: ServingKit.Options = JSON.parse(process.argv[2] ?? "")
writeSync(1, "started\n")
Effect.runPromise(Stream.runDrain(ServingKit.stream(options)).pipe(Effect.provide(NodeContext.layer))).then(
  () => process.exit(0),
  (error) => {
    writeSync(2, `${error}\n`)
    process.exit(1)
  }
)
