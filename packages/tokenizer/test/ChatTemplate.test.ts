/**
 * Renders beside those of Jinja2 (committed, made by `packages/parity/python/golden_templates.py`).
 *
 * The templates of Qwen3, Llama 3.2 and DeepSeek V3 are the real ones, from the dev dependencies that carry them. Others are
 * run when `TINKER_CHAT_TEMPLATES` names a directory that has them (deepseek-v3.1.jinja, gpt-oss.jinja,
 * kimi-k2-thinking.jinja).
 */
import { ChatTemplate, Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, TestClock } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { cases, flagNames, flags, noon, renders } from "./support/golden.js"
import type { Family } from "./support/models.js"
import { file } from "./support/models.js"
import * as tiny from "./support/tiny.js"

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
  if (family !== undefined) return JSON.parse(file(family, "tokenizer_config.json")).chat_template
  const path = `${directory}/${name}.jinja`
  return directory !== undefined && existsSync(path) ? readFileSync(path, "utf8") : undefined
}

const compile = (source: string, variables?: Readonly<Record<string, unknown>>) =>
  Effect.runSync(ChatTemplate.compile(source, variables))

const render = (source: string, variables: Readonly<Record<string, unknown>> = {}) =>
  compile(source).render([], { variables })

describe("ChatTemplate", () => {
  for (const [name, conversations] of Object.entries(renders.templates)) {
    const text = source(name)
    const missing = text === undefined ? " (its template is looked for in TINKER_CHAT_TEMPLATES)" : ""
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

  for (const [name, [source, variables]] of Object.entries(cases.snippets)) {
    it.effect(`prints as Jinja2 does: ${name}`, () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(noon)
        const expected = renders.snippets[name]
        const result = yield* Effect.either(render(source, variables))
        if (expected?.text === undefined) {
          assert.isTrue(Either.isLeft(result) && result.left.description === expected?.error)
        } else assert.deepStrictEqual(result, Either.right(expected.text))
      }))
  }

  it("keeps the parser's complaint", () => {
    const result = ChatTemplate.compile("{% if %}")
    assert.isTrue(Either.isLeft(result))
    if (Either.isLeft(result)) {
      assert.strictEqual(result.left.phase, "compile")
      assert.isNotEmpty(result.left.description)
    }
  })

  it.effect("fails, not dies, on what a template does wrong", () =>
    Effect.gen(function*() {
      for (
        const bad of [
          "{{ raise_exception('own words') }}",
          "{% for i in range(100000000000) %}{% endfor %}",
          "{% for i in range(0, -1000000, -1) %}{% endfor %}",
          "{{ nothing() }}",
          "{{ x | no_such_filter }}",
          "{{ x.strip(3) }}",
          "{{ strftime_now('%Q') }}",
          "{{ 3 | tojson(indent=2) ~ (nothing | tojson) }}"
        ]
      ) {
        const error = yield* Effect.flip(render(bad, { x: "a" }))
        assert.strictEqual(error._tag, "ChatTemplateFailed")
        assert.strictEqual(error.phase, "render")
      }
    }))

  it.effect("can be rendered again and again, its variables staying apart", () =>
    Effect.gen(function*() {
      const template = yield* ChatTemplate.compile("{{ messages[0].content }}{{ x }}{% set x = 'changed' %}", {
        x: "!"
      })
      const say = (content: string) => template.render([{ role: "user", content }])
      assert.strictEqual(yield* say("one"), "one!")
      assert.strictEqual(yield* say("two"), "two!")
    }))

  it.effect("stops inside the last message when it is to be continued", () =>
    Effect.gen(function*() {
      const template = yield* ChatTemplate.compile("{% for m in messages %}[{{ m.content | trim }}]{% endfor %}")
      const end = (content: unknown) =>
        template.render([{ content: "Paris" }, { content }], { continueFinalMessage: true })
      assert.strictEqual(yield* end("Paris"), "[Paris][Paris")
      assert.strictEqual(yield* end("  Par "), "[Paris][Par")
      assert.strictEqual((yield* Effect.flip(end([{ type: "image" }])))._tag, "ChatTemplateFailed")
      const exact = yield* ChatTemplate.compile("{% for m in messages %}[{{ m.content }}]{% endfor %}")
      assert.strictEqual(yield* exact.render([{ content: "a \n" }], { continueFinalMessage: true }), "[a \n")
    }))

  it.effect("takes a tokenizer's template and special tokens", () =>
    Effect.gen(function*() {
      const tokenizer = yield* Tokenizer.fromHuggingFace({
        id: "tiny",
        tokenizerJson: tiny.tokenizerJson,
        tokenizerConfig: tiny.tokenizerConfig,
        chatTemplates: { default: "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}" }
      })
      const template = yield* ChatTemplate.fromTokenizer(tokenizer)
      assert.isTrue(ChatTemplate.isChatTemplate(template))
      assert.strictEqual(yield* template.render([{ content: "hi" }]), "<|bos|>hi<|end|>")
      const missing = yield* Effect.flip(ChatTemplate.fromTokenizer(tokenizer, "tool_use"))
      assert.include(missing.message, "tool_use")
    }))
})
