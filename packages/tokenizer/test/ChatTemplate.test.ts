/**
 * Renders beside those of Jinja2 (committed, made by `packages/parity/python/golden_templates.py`). The templates of real
 * models are in ChatTemplate.e2e.test.ts.
 */
import { ChatTemplate, Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, TestClock } from "effect"
import { cases, noon, renders } from "./support/golden.js"
import * as tiny from "./support/tiny.js"

const compile = (source: string, variables?: Readonly<Record<string, unknown>>) =>
  Effect.runSync(ChatTemplate.compile(source, variables))

const render = (source: string, variables: Readonly<Record<string, unknown>> = {}) =>
  compile(source).render([], { variables })

describe("ChatTemplate", () => {
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

  it.effect("reads the ends of lines of Windows as Jinja2 does: as those of others", () =>
    Effect.gen(function*() {
      // jinja2.Environment(trim_blocks=True, lstrip_blocks=True) prints the same
      assert.strictEqual(yield* render("a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc\rd"), "a\nb\nc\nd")
    }))

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
