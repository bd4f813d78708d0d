/**
 * `npm run bench -- NAME`: a table for people, and as the last line one JSON object with the ratios.
 * `npm run bench -- --all`: every bench, or those named after it, beside the ratios of the last release.
 * With `--smoke` a bench takes seconds and shows that it runs; its figures mean nothing.
 */
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect } from "effect"
import * as All from "./all.js"
import { render } from "./Bench.js"
import * as benches from "./benches.js"

const main = Effect.gen(function*() {
  const [first, ...rest] = process.argv.slice(2)
  if (first === "--all") return yield* All.run(rest)
  const { bench, name } = yield* benches.find(process.argv.slice(2))
  yield* Console.log(`# ${name}: ${bench.summary}\n`)
  const { notes, ratios, table } = yield* bench.run
  yield* Console.log(render(table))
  for (const note of notes) yield* Console.log(`\n${note}`)
  yield* Console.log(`\n${JSON.stringify({ bench: name, ratios })}`)
}).pipe(
  Effect.scoped,
  Effect.catchTag("BenchFailed", (error) =>
    Console.error(`npm run bench: ${error.message}`).pipe(
      Effect.zipRight(Effect.sync(() => {
        process.exitCode = 1
      }))
    ))
)

NodeRuntime.runMain(main.pipe(Effect.provide(NodeContext.layer)))
