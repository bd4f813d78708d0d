/**
 * A run in a process of its own, to be killed. Arguments: trainer, run directory, backend's directory, submit-ahead,
 * whether saves run in the background.
 */
import { Effect } from "effect"
import { train } from "./train.js"

const [trainer = "", directory = "", backend = "", submitAhead, background] = process.argv.slice(2)

Effect.runPromise(
  train({ trainer, submitAhead: Number(submitAhead), background: background === "true" }, directory, backend)
).then(() => process.exit(0), (error: unknown) => {
  process.stderr.write(`${String(error)}\n`)
  process.exit(1)
})
