/**
 * Writes the prompts the model is measured on: 1,000 conversations made of held-out items only, by skill.
 *
 *     heldOut.ts OUT
 */
import { writeFileSync } from "node:fs"
import * as Conversation from "./world/Conversation.js"
import { Source } from "./world/Source.js"
import * as World from "./world/World.js"

const seed = 2026

/** Skills with a target get more prompts. */
const counts: Readonly<Record<string, number>> = {
  "fact-2": 60,
  "fact-3": 60,
  "add-3": 60,
  "two-step": 60,
  "tool-call": 75,
  "tool-ask": 25,
  long: 10
}

const [, , out] = process.argv
if (out === undefined) throw new Error("usage: heldOut.ts OUT")
const source = new Source(seed, "held-out")
const others = World.skills.filter((skill) => counts[skill] === undefined)
const rest = 1000 - Object.values(counts).reduce((sum, count) => sum + count, 0)
const lines = World.skills.flatMap((skill) => {
  const at = others.indexOf(skill)
  const count = counts[skill] ?? Math.floor(rest / others.length) + (at < rest % others.length ? 1 : 0)
  return Array.from({ length: count }, () => {
    const conversation = World.conversation(source, skill)
    const { messages, system, tools } = conversation
    return JSON.stringify({
      skill,
      system,
      tools,
      messages: messages.slice(0, -1),
      ...Conversation.lastTurn(conversation)
    })
  })
})
writeFileSync(out, `${lines.join("\n")}\n`)
