/**
 * Renderers beside the models' own templates, on real vocabularies: Qwen3, Llama 3.2 and DeepSeek V3 (whose vocabulary has no
 * `<think>` token yet, so that it is text there). Templates were rendered by Jinja2
 * (`packages/parity/python/golden_templates.py`).
 */
import { Message, Renderers } from "@effect-tinker/tokenizer"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { compareExamples, comparePrompts } from "./support/comparison.js"
import { conversation, names } from "./support/conversations.js"
import { describeReal, load } from "./support/models.js"

const qwen = Effect.runSync(Effect.cached(load("qwen3")))

describeReal("Qwen3", () => {
  it.effect("prompts with the template's ids, thinking and not", () =>
    Effect.gen(function*() {
      const tokenizer = yield* qwen
      const thinking = { template: "qwen3", renderer: yield* Renderers.qwen3(tokenizer) }
      assert.strictEqual(yield* comparePrompts({ ...thinking, flags: "generate" }), 12)
      assert.strictEqual(yield* comparePrompts({ ...thinking, flags: "generate, thinking on" }), 12)
      const renderer = yield* Renderers.qwen3DisableThinking(tokenizer)
      assert.strictEqual(yield* comparePrompts({ template: "qwen3", renderer, flags: "generate, thinking off" }), 12)
    }), 120_000)

  it.effect("writes examples as the template does", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.qwen3(yield* qwen)
      assert.strictEqual(yield* compareExamples({ template: "qwen3", renderer, flags: "plain" }), 6)
    }), 120_000)

  it.effect("ends an answer with <|im_end|>, gives the empty block no weight", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.qwen3DisableThinking(yield* qwen)
      const { tokens, weights } = yield* renderer.supervised([Message.user("Hi"), Message.assistant("Hello")])
      const trained = tokens.filter((_, i) => weights[i] === 1)
      assert.strictEqual(renderer.tokenizer.decode(trained), "Hello<|im_end|>")
      assert.deepStrictEqual(renderer.stop, Array.from(trained.slice(-1)))
      const error = yield* Effect.flip(renderer.supervised([Message.user("Hi"), Message.assistant("Hello", "hm")]))
      assert.include(error.message, "not to reason")
    }), 120_000)
})

describeReal("Qwen3.5", () => {
  // the template writes no arguments that are text already
  const except = ["a tool round, arguments as text"]

  it.effect("prompts with the template's ids, thinking and not", () =>
    Effect.gen(function*() {
      // its own vocabulary is not to be had; Qwen3's has the same control tokens
      const tokenizer = yield* qwen
      const thinking = { template: "qwen3.5", renderer: yield* Renderers.qwen35(tokenizer), except }
      assert.strictEqual(yield* comparePrompts({ ...thinking, flags: "generate, thinking on" }), 12)
      const renderer = yield* Renderers.qwen35DisableThinking(tokenizer)
      assert.strictEqual(
        yield* comparePrompts({ template: "qwen3.5", renderer, flags: "generate, thinking off", except }),
        12
      )
      assert.strictEqual(yield* compareExamples({ ...thinking, flags: "plain" }), 7)
    }), 120_000)
})

describeReal("Qwen3.8", () => {
  // the template refuses arguments that are text, and lets text become tokens
  const except = ["a tool round, arguments as text", "no content", "reasoning in the text"]

  it.effect("prompts with the template's ids, thinking and not", () =>
    Effect.gen(function*() {
      const tokenizer = yield* qwen
      const thinking = { template: "qwen3.8", renderer: yield* Renderers.qwen38(tokenizer), except }
      assert.strictEqual(yield* comparePrompts({ ...thinking, flags: "generate" }), 10)
      assert.strictEqual(yield* comparePrompts({ ...thinking, flags: "generate, thinking on" }), 10)
      const renderer = yield* Renderers.qwen38DisableThinking(tokenizer)
      assert.strictEqual(
        yield* comparePrompts({ template: "qwen3.8", renderer, flags: "generate, thinking off", except }),
        10
      )
      assert.strictEqual(yield* compareExamples({ ...thinking, flags: "plain" }), 5)
    }), 120_000)
})

describeReal("Llama 3", () => {
  const llama = Effect.runSync(Effect.cached(load("llama3")))
  const dates = "Cutting Knowledge Date: December 2023\nToday Date: 01 Jan 1970\n\n"
  // the template puts dates into the system message and trims; with tools it rewrites the conversation
  const adjust = (messages: ReadonlyArray<Message.Message>) => {
    const [first] = messages
    return first?.role === "system"
      ? [Message.system(dates + Message.text(first)), ...messages.slice(1)]
      : [Message.system(dates), ...messages]
  }
  const except = names.filter((name) => /tool|indentation|calls|no content|reasoning/.test(name))

  it.effect("prompts with the template's ids", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.llama3(yield* llama)
      assert.strictEqual(
        yield* comparePrompts({ template: "llama3", renderer, flags: "generate", adjust, except }),
        4
      )
      assert.strictEqual(yield* compareExamples({ template: "llama3", renderer, flags: "plain", adjust, except }), 2)
    }), 120_000)
})

describeReal("DeepSeek V3", () => {
  // its template puts the tools nowhere, and quotes arguments that are text already
  const except = ["a tool", "a tool without parameters", "a tool round, arguments as text", "no content"]
  // and writes no prompt after an answer
  const answered = [...except, ...names.filter((name) => conversation(name).messages.at(-1)?.role === "assistant")]

  it.effect("prompts with the template's ids, on the real vocabulary", () =>
    Effect.gen(function*() {
      const tokenizer = yield* load("deepseek")
      const renderer = yield* Renderers.deepseekV3(tokenizer)
      assert.isAbove(
        yield* comparePrompts({ template: "deepseek-v3.1", renderer, flags: "generate", except: answered }),
        2
      )
      const thinking = yield* Renderers.deepseekV3Thinking(tokenizer)
      assert.isAbove(
        yield* comparePrompts({
          template: "deepseek-v3.1",
          renderer: thinking,
          flags: "generate, thinking on",
          except: answered
        }),
        2
      )
      assert.isAbove(yield* compareExamples({ template: "deepseek-v3.1", renderer, flags: "plain", except }), 4)
    }), 120_000)
})
