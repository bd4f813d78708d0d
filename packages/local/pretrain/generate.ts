/**
 * Writes conversations as JSON lines for the training program: the skill, and the text cut where the model's own words
 * begin and end.
 *
 *     generate.ts OUT --seed N --count N [--side train|held-out] [--made-up SHARE] [--stage N] [--skill NAME]
 */
import { openSync, writeSync } from "node:fs"
import { parseArgs } from "node:util"
import * as Conversation from "./world/Conversation.js"
import * as World from "./world/World.js"

const { positionals: [out], values } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "1000" },
    side: { type: "string", default: "train" },
    "made-up": { type: "string" },
    stage: { type: "string" },
    skill: { type: "string" }
  }
})
if (out === undefined) throw new Error("usage: generate.ts OUT --seed N --count N")

const file = openSync(out, "w")
let left = Number(values.count)
let lines: Array<string> = []
for (
  const conversation of World.conversations({
    seed: Number(values.seed),
    side: values.side === "held-out" ? "held-out" : "train",
    madeUp: values["made-up"] === undefined ? undefined : Number(values["made-up"]),
    stage: values.stage === undefined ? undefined : Number(values.stage),
    skill: values.skill
  })
) {
  if (left-- === 0) break
  lines.push(JSON.stringify([conversation.skill, Conversation.segments(conversation).map(({ text }) => text)]))
  if (lines.length === 1000 || left === 0) {
    writeSync(file, `${lines.join("\n")}\n`)
    lines = []
  }
}
