/** What reading the same files costs at least: every line parsed, nothing kept. */
import { readdirSync, readFileSync } from "node:fs"
import { createInterface } from "node:readline"

const [directory = ""] = process.argv.slice(2)

createInterface(process.stdin).on("line", () => {
  const started = performance.now()
  let lines = 0
  for (const run of readdirSync(directory)) {
    for (const line of readFileSync(`${directory}/${run}/journal.jsonl`, "utf8").split("\n")) {
      if (line === "") continue
      JSON.parse(line)
      lines++
    }
  }
  process.stdout.write(`${JSON.stringify({ ms: performance.now() - started, lines })}\n`)
})
