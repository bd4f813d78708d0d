/**
 * Writes the prompts the model is measured on: 1,000 conversations made of held-out items only, by skill.
 *
 *     heldOut.ts OUT [--seed N]
 *
 * The seed is that of the published figures. Another one gives as many other prompts, to choose by.
 */
import { writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import * as Conversation from "./world/Conversation.js"
import * as World from "./world/World.js"

const { positionals: [out], values } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: "string", default: "2026" } }
})
if (out === undefined) throw new Error("usage: heldOut.ts OUT [--seed N]")
const lines = World.measured(Number(values.seed)).map((conversation) => {
  const { messages, skill, system, tools } = conversation
  return JSON.stringify({
    skill,
    system,
    tools,
    messages: messages.slice(0, -1),
    ...Conversation.lastTurn(conversation)
  })
})
writeFileSync(out, `${lines.join("\n")}\n`)
