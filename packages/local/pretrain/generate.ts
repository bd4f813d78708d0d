/**
 * Writes conversations as JSON lines for the training program: the skill, the text cut where the model's own words begin
 * and end, and what the turns ask for if training shows where to look for it.
 *
 *     generate.ts OUT --seed N --count N [--made-up SHARE] [--stage N] [--skill NAME]
 *     generate.ts OUT --seed N --measured
 *
 * `--measured` writes 1,000 conversations of held-out items, as many of a skill as the model is measured on.
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
    "made-up": { type: "string" },
    stage: { type: "string" },
    skill: { type: "string" },
    measured: { type: "boolean", default: false }
  }
})
if (out === undefined) throw new Error("usage: generate.ts OUT --seed N --count N")

const seed = Number(values.seed)
const conversations = values.measured
  ? World.measured(seed)
  : World.conversations({
    seed,
    side: "train",
    madeUp: values["made-up"] === undefined ? undefined : Number(values["made-up"]),
    stage: values.stage === undefined ? undefined : Number(values.stage),
    skill: values.skill
  })
const file = openSync(out, "w")
let left = values.measured ? Number.POSITIVE_INFINITY : Number(values.count)
let lines: Array<string> = []
const flush = () => {
  if (lines.length > 0) writeSync(file, `${lines.join("\n")}\n`)
  lines = []
}
for (const conversation of conversations) {
  if (left-- <= 0) break
  const { pairs, skill } = conversation
  const texts = Conversation.segments(conversation).map(({ text }) => text)
  lines.push(JSON.stringify(pairs === undefined ? [skill, texts] : [skill, texts, pairs]))
  if (lines.length === 1000) flush()
}
flush()
