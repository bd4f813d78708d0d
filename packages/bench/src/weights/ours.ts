/** Merges on command; answers with the seconds it took and the most memory the process has ever held. */
import { Merge } from "@effect-tinker/weights"
import { NodeContext } from "@effect/platform-node"
import { Effect } from "effect"
import { createInterface } from "node:readline"

createInterface(process.stdin).on("line", (line) => {
  const [base = "", adapter = "", output = ""] = line.split("\t")
  const start = performance.now()
  Merge.run({ base, adapter, output }).pipe(
    Effect.provide(NodeContext.layer),
    Effect.runPromise
  ).then(
    () => {
      const seconds = (performance.now() - start) / 1000
      process.stdout.write(`${JSON.stringify({ seconds, rss: process.resourceUsage().maxRSS * 1024 })}\n`)
    },
    (error) => {
      process.stderr.write(`${error}\n`)
      process.exit(1)
    }
  )
})
