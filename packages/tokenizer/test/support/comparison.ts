/**
 * Renderers beside the models' own templates, rendered by Jinja2 (`packages/parity/python/golden_templates.py`).
 */
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message } from "@effect-tinker/tokenizer"
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { conversation, names } from "./conversations.js"
import type { Flags } from "./golden.js"
import { renders } from "./golden.js"

const golden = (template: string, name: string, flags: Flags): string | undefined =>
  renders.templates[template]?.[name]?.[flags]?.text

/** Messages with the tools declared as the format declares them. */
export const declared = Effect.fnUntraced(function*(renderer: Renderer.Renderer, name: string) {
  const { messages, tools } = conversation(name)
  if (tools.length === 0) return messages
  const [first] = messages
  const system = first?.role === "system" ? Message.text(first) : ""
  return [
    ...(yield* renderer.toolMessages(tools, system)),
    ...messages.filter((message) => message.role !== "system")
  ]
})

interface Comparison {
  readonly template: string
  readonly renderer: Renderer.Renderer
  readonly flags: Flags
  /** Conversations the renderer writes differently on purpose. */
  readonly except?: ReadonlyArray<string>
  readonly adjust?: (messages: ReadonlyArray<Message.Message>) => ReadonlyArray<Message.Message>
}

/** Prompts must have the very ids of the template's text. */
export const comparePrompts = Effect.fnUntraced(function*(comparison: Comparison) {
  let compared = 0
  for (const name of names) {
    const expected = golden(comparison.template, name, comparison.flags)
    if (expected === undefined || comparison.except?.includes(name) === true) continue
    const messages = yield* declared(comparison.renderer, name)
    const ids = yield* comparison.renderer.generationPrompt(comparison.adjust?.(messages) ?? messages)
    const { tokenizer } = comparison.renderer
    assert.strictEqual(
      tokenizer.decode(ids),
      tokenizer.decode(tokenizer.encode(expected, { addSpecialTokens: false })),
      name
    )
    assert.deepStrictEqual(Array.from(ids), Array.from(tokenizer.encode(expected, { addSpecialTokens: false })), name)
    compared++
  }
  return compared
})

/** Examples must have the template's text; headers and answers are encoded apart, so ids may differ. */
export const compareExamples = Effect.fnUntraced(function*(comparison: Comparison) {
  let compared = 0
  for (const name of names) {
    const expected = golden(comparison.template, name, comparison.flags)
    if (expected === undefined || comparison.except?.includes(name) === true) continue
    const messages = yield* declared(comparison.renderer, name)
    if (messages.at(-1)?.role !== "assistant") continue
    const { tokens } = yield* comparison.renderer.supervised(comparison.adjust?.(messages) ?? messages)
    assert.strictEqual(comparison.renderer.tokenizer.decode(tokens), expected.replace(/\n$/, ""), name)
    compared++
  }
  return compared
})
