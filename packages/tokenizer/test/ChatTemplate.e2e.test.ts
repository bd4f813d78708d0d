/**
 * Renders beside those of Jinja2 (committed, made by `packages/parity/python/golden_templates.py`).
 *
 * The templates of Qwen3, Llama 3.2 and DeepSeek V3 are the real ones, from the packages that carry them. Others are run
 * when `TINKER_CHAT_TEMPLATES` names a directory that has them (deepseek-v3.1.jinja, gpt-oss.jinja,
 * kimi-k2-thinking.jinja).
 */
import { ChatTemplate } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, TestClock } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { cases, flagNames, flags, noon, renders } from "./support/golden.js"
import type { Family } from "./support/models.js"
import { areInstalled, file } from "./support/models.js"

const packaged: Readonly<Record<string, Family>> = { qwen3: "qwen3", llama3: "llama3", "deepseek-v3": "deepseek" }

const directory = process.env["TINKER_CHAT_TEMPLATES"]

const deepseek = { bos_token: "<｜begin▁of▁sentence｜>", eos_token: "<｜end▁of▁sentence｜>" }

const tokens: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  llama3: { bos_token: "<|begin_of_text|>", eos_token: "<|eot_id|>", date_string: "01 Jan 1970" },
  "deepseek-v3": deepseek,
  "deepseek-v3.1": deepseek
}

const source = (name: string): string | undefined => {
  const family = packaged[name]
  if (family !== undefined && !areInstalled) return undefined
  if (family !== undefined) return JSON.parse(file(family, "tokenizer_config.json")).chat_template
  const path = `${directory}/${name}.jinja`
  return directory !== undefined && existsSync(path) ? readFileSync(path, "utf8") : undefined
}

describe("ChatTemplate", () => {
  for (const [name, conversations] of Object.entries(renders.templates)) {
    const text = source(name)
    const missing = text !== undefined
      ? ""
      : name in packaged
      ? " (its package could not be installed)"
      : " (its template is looked for in TINKER_CHAT_TEMPLATES)"
    it.effect.skipIf(text === undefined)(`renders ${name} as Jinja2 does${missing}`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(noon)
        const template = yield* ChatTemplate.compile(text ?? "", tokens[name])
        for (const [conversation, expected] of Object.entries(conversations)) {
          for (const flag of flagNames) {
            const given = cases.conversations[conversation]
            const label = `${conversation} (${flag})`
            const result = yield* Effect.either(
              template.render(given?.messages ?? [], { tools: given?.tools, ...flags[flag] })
            )
            if (expected[flag]?.text === undefined) assert.isTrue(Either.isLeft(result), label)
            else assert.deepStrictEqual(result, Either.right(expected[flag].text), label)
          }
        }
      }))
  }
})
