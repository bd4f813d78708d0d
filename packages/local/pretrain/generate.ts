/**
 * Writes conversations as JSON lines for the training program: their text, cut where the model's own words begin and end.
 *
 *     tsx generate.ts OUT --seed N --tokens N [--weights JSON]
 */
import { createWriteStream } from "node:fs"
import { parseArgs } from "node:util"
import * as Conversation from "./world/Conversation.js"
import * as World from "./world/World.js"

const { positionals: [out], values } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: "string" }, count: { type: "string" }, side: { type: "string" }, weights: { type: "string" } }
})
if (out === undefined) throw new Error("usage: generate.ts OUT --seed N --count N [--weights JSON]")

const file = createWriteStream(out)
let left = Number(values.count ?? 1000)
for (
  const conversation of World.conversations({
    seed: Number(values.seed ?? 1),
    side: values.side === "held-out" ? "held-out" : "train",
    weights: values.weights === undefined ? undefined : JSON.parse(values.weights)
  })
) {
  if (left-- === 0) break
  const line = JSON.stringify([conversation.skill, Conversation.segments(conversation).map(({ text }) => text)])
  if (!file.write(`${line}\n`)) await new Promise((resolve) => file.once("drain", resolve))
}
file.end()
