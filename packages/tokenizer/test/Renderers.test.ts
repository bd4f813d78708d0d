/**
 * Renderers beside the models' own templates, on a vocabulary of ours that has their control tokens; on real vocabularies
 * they are in Renderers.e2e.test.ts. Templates were rendered by Jinja2 (`packages/parity/python/golden_templates.py`).
 */
import type { Renderer } from "@effect-tinker/tokenizer"
import { ChatTemplate, Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, FastCheck, Option } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { compareExamples, comparePrompts, declared } from "./support/comparison.js"
import { conversation, names } from "./support/conversations.js"
import {
  chatml,
  deepseekLike,
  deepseekV4Like,
  gemma,
  glm,
  harmony,
  inkling,
  kimi,
  llamaLike,
  localLike,
  minimax
} from "./support/synthetic.js"
import * as tiny from "./support/tiny.js"

describe("Qwen3.5", () => {
  it.effect("writes and reads arguments of every kind, in their order", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.qwen35DisableThinking(chatml)
      const args = String.raw`{"text": "a </parameter>\n  b", "2": 1.0, "yes": true, "no": null, ` +
        String.raw`"1": [1e-07, {"k": "v, w: x"}], "empty": {}}`
      const answer = { ...Message.assistant(""), toolCalls: [{ name: "f", arguments: args }] }
      const messages = [Message.user("go"), answer]
      const { tokens } = yield* renderer.supervised(messages)
      const written = [
        "<function=f>",
        "<parameter=text>\na </parameter>\n  b\n</parameter>",
        "<parameter=2>\n1.0\n</parameter>",
        "<parameter=yes>\nTrue\n</parameter>",
        "<parameter=no>\nNone\n</parameter>",
        "<parameter=1>\n[1e-07, {\"k\": \"v, w: x\"}]\n</parameter>",
        "<parameter=empty>\n{}\n</parameter>",
        "</function>"
      ]
      assert.include(renderer.tokenizer.decode(tokens), written.join("\n"))
      const prompt = yield* renderer.generationPrompt(messages.slice(0, 1))
      assert.deepStrictEqual(renderer.parse(tokens.subarray(prompt.length)).message, answer)
      for (const wrong of ["hm", "<function=f>\nhm\n</function>", "<function=f>\n<parameter=a>\n1\n</function>"]) {
        const ids = renderer.tokenizer.encode(`<tool_call>\n${wrong}\n</tool_call><|im_end|>`, {
          addSpecialTokens: false
        })
        assert.strictEqual(renderer.parse(ids).message.unparsedToolCalls?.length, 1, wrong)
      }
    }))

  it.effect("refuses a system message that comes late", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.qwen35(chatml)
      const error = yield* Effect.flip(renderer.generationPrompt([Message.user("a"), Message.system("b")]))
      assert.include(error.message, "first message")
    }))
})

describe("Qwen3.8", () => {
  it.effect("says how hard to think before anything else, and nothing where there is nothing to say", () =>
    Effect.gen(function*() {
      const written = (name: string, messages: ReadonlyArray<Message.Message>) =>
        Effect.flatMap(
          Renderers.byName(name, chatml),
          (renderer) => Effect.map(renderer.generationPrompt(messages), (ids) => renderer.tokenizer.decode(ids))
        )
      const asked = [Message.system(" be terse "), Message.user("go")]
      const low = "<|im_start|>system\nReasoning effort is set to low. Keep"
      assert.isTrue((yield* written("qwen3_8_low_reasoning", asked.slice(1))).startsWith(low))
      assert.match(yield* written("qwen3_8_low_reasoning", asked), /elaboration\.\n\nbe terse<\|im_end\|>\n/)
      assert.isTrue((yield* written("qwen3_8_medium_reasoning", asked)).startsWith("<|im_start|>system\nbe terse<"))
      const silent = [Message.system("  "), Message.user("go")]
      assert.isTrue((yield* written("qwen3_8_disable_thinking", silent)).startsWith("<|im_start|>user\ngo"))
      const renderer = yield* Renderers.qwen38(chatml)
      const customized = asked.map((message, i) => ({ ...message, trainable: i === 1 })).slice(1)
      const { tokens, weights } = yield* renderer.supervised(customized, "customized")
      assert.strictEqual(renderer.tokenizer.decode(tokens.filter((_, i) => weights[i] === 1)), "go<|im_end|>")
    }))
})

describe("gpt-oss", () => {
  // tool rounds are written as harmony specifies them, not as the template does; text does not become a token
  const except = names.filter((name) => /round|calls|no content|in the text/.test(name))

  it.effect("prompts with the template's ids", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.gptOss(harmony, { effort: "medium", date: "1970-01-01" })
      assert.strictEqual(yield* comparePrompts({ template: "gpt-oss", renderer, flags: "generate", except }), 8)
      assert.strictEqual(yield* compareExamples({ template: "gpt-oss", renderer, flags: "plain", except }), 4)
    }))

  it.effect("takes the date from the clock", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.byName("gpt_oss_high_reasoning", harmony)
      const prompt = renderer.tokenizer.decode(yield* renderer.generationPrompt([Message.user("Hi")]))
      assert.match(prompt, /Current date: 19(70-01-01|69-12-31)\n\nReasoning: high/)
    }))
})

describe("Kimi K2", () => {
  // tools are declared sorted and compact, as the model's own tokenizer does before its template sees them
  const tools = ["a tool", "a tool without parameters"]
  // the template lets text become tokens
  const text = "reasoning in the text"

  it.effect("prompts with the template's ids", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.kimiK2(kimi)
      assert.strictEqual(
        yield* comparePrompts({ template: "kimi-k2-thinking", renderer, flags: "generate", except: [...tools, text] }),
        10
      )
      // the template forgets the reasoning of a finished conversation; training must not
      const except = [...tools, text, "reasoning in its field"]
      assert.strictEqual(yield* compareExamples({ template: "kimi-k2-thinking", renderer, flags: "plain", except }), 5)
    }))
})

describe("every renderer", () => {
  const all = Effect.all({
    role_colon: Renderers.roleColon(chatml),
    llama3: Renderers.llama3(llamaLike),
    qwen3: Renderers.qwen3(chatml),
    "qwen3, kept": Renderers.qwen3(chatml, { keepThinking: true }),
    qwen3_disable_thinking: Renderers.qwen3DisableThinking(chatml),
    qwen3_instruct: Renderers.qwen3Instruct(chatml),
    qwen3_5: Renderers.qwen35(chatml),
    "qwen3_5, kept": Renderers.qwen35(chatml, { keepThinking: true }),
    qwen3_5_disable_thinking: Renderers.qwen35DisableThinking(chatml),
    qwen3_8: Renderers.qwen38(chatml),
    qwen3_8_disable_thinking: Renderers.qwen38DisableThinking(chatml),
    "qwen3_5_disable_thinking, kept": Renderers.qwen35DisableThinking(chatml, { keepThinking: true }),
    deepseekv3: Renderers.deepseekV3(deepseekLike),
    deepseekv3_thinking: Renderers.deepseekV3Thinking(deepseekLike),
    "deepseekv3_thinking, kept": Renderers.deepseekV3Thinking(deepseekLike, { keepThinking: true }),
    gpt_oss: Renderers.gptOss(harmony),
    gpt_oss_low: Renderers.gptOss(harmony, { effort: "low" }),
    kimi_k2: Renderers.kimiK2(kimi),
    "kimi_k2, kept": Renderers.kimiK2(kimi, { keepThinking: true }),
    kimi_k25: Renderers.kimiK25(kimi),
    kimi_k26_disable_thinking: Renderers.kimiK26(kimi, { thinking: false }),
    "kimi_k26, kept": Renderers.kimiK26(kimi, { keepThinking: true }),
    deepseekv4_1: Renderers.deepseekV41(deepseekV4Like),
    deepseekv4_1_disable: Renderers.deepseekV41(deepseekV4Like, { effort: "none" }),
    "deepseekv4_1, kept": Renderers.deepseekV41(deepseekV4Like, { keepThinking: true }),
    deepseekv4: Renderers.deepseekV4(deepseekV4Like, { effort: "low" }),
    deepseekv4_disable: Renderers.deepseekV4(deepseekV4Like),
    glm5_disable_thinking: Renderers.glm5(glm, { thinking: false }),
    glm5_1: Renderers.glm51(glm),
    glm5_1_disable_thinking: Renderers.glm51(glm, { thinking: false }),
    gemma4: Renderers.gemma4(gemma),
    gemma4_disable_thinking: Renderers.gemma4(gemma, { thinking: false }),
    gemma4_large_disable_thinking: Renderers.gemma4(gemma, { thinking: false, large: true }),
    glm5_3: Renderers.glm53(glm),
    "glm5_3, dropped": Renderers.glm53(glm, { keepThinking: false }),
    nemotron3_disable_thinking: Renderers.nemotron3(chatml, { thinking: false }),
    nemotron3_ultra_disable_thinking: Renderers.nemotron3Ultra(chatml, { thinking: false }),
    qwen3_vl_instruct: Renderers.qwen3Vl(chatml),
    qwen3_6: Renderers.qwen36(chatml),
    local_chat: Renderers.localChat(localLike),
    tml_v0: Renderers.tmlV0(inkling)
  })

  const reasons = (name: string) =>
    /qwen3$|qwen3, kept|qwen3_[568]$|qwen3_5, kept|thinking(, kept)?$|gpt_oss|kimi|deepseekv4|glm|gemma|local|tml/.test(
      name
    ) &&
    !/disable/.test(name)
  const callsTools = (name: string) => !/role_colon|llama3/.test(name)

  const turns = (name: string): ReadonlyArray<ReadonlyArray<Message.Message>> => [
    [Message.user("the cat?"), Message.assistant("sat.")],
    [
      Message.system("be terse"),
      Message.user("the cat?"),
      Message.assistant("sat."),
      Message.user("the mat?"),
      Message.assistant(/^qwen3_[568]|glm|gemma|nemotron/.test(name) ? "was\n\nsat on" : "  was\n\nsat on")
    ],
    ...(reasons(name) ? [[Message.user("the cat?"), Message.assistant("sat.", "it had\n a mat")]] : []),
    ...(callsTools(name)
      ? [[
        Message.user("the cat?"),
        {
          ...Message.assistant("looking"),
          toolCalls: [
            {
              ...(name.startsWith("kimi") ? { id: "functions.find:0" } : {}),
              name: "find",
              arguments: "{\"what\": \"cat\"}"
            }
          ]
        }
      ]]
      : [])
  ]

  it.effect("shows the sampler exactly what the example begins with, and reads back what it trains", () =>
    Effect.gen(function*() {
      for (const [name, renderer] of Object.entries(yield* all)) {
        for (const messages of turns(name)) {
          const { tokens, weights } = yield* renderer.supervised(messages)
          const prompt = yield* renderer.generationPrompt(messages.slice(0, -1))
          assert.deepStrictEqual(Array.from(tokens.subarray(0, prompt.length)), Array.from(prompt), name)
          assert.isTrue(weights.every((weight, i) => weight === (i < prompt.length ? 0 : 1)), name)
          const parsed = renderer.parse(tokens.subarray(prompt.length))
          assert.strictEqual(parsed.termination, "stop_sequence", name)
          assert.deepStrictEqual(parsed.message, messages.at(-1), name)
          assert.isTrue(Option.isNone(parsed.failure))
        }
      }
    }))

  it.effect("reads token by token what it reads at once", () =>
    Effect.gen(function*() {
      for (const [name, renderer] of Object.entries(yield* all)) {
        for (const messages of turns(name)) {
          const { tokens } = yield* renderer.supervised(messages)
          const prompt = yield* renderer.generationPrompt(messages.slice(0, -1))
          const parser = renderer.parser()
          const deltas = Array.from(tokens.subarray(prompt.length), (id) => parser.push([id])).flat()
          const end = parser.end()
          const answer = messages.at(-1) ?? Message.user("")
          const heard = [...deltas, ...end.deltas]
          assert.deepStrictEqual(end.parsed.message, answer, name)
          assert.strictEqual(
            heard.map((delta) => delta._tag === "Text" ? delta.text : "").join(""),
            Message.text(answer),
            name
          )
          assert.strictEqual(
            heard.map((delta) => delta._tag === "Thinking" ? delta.thinking : "").join(""),
            Message.thinking(answer),
            name
          )
        }
      }
    }))

  it.effect("lets no text become a control token", () =>
    Effect.gen(function*() {
      for (const [name, renderer] of Object.entries(yield* all)) {
        const control = renderer.tokenizer.addedTokens.map((token) => token.content).join(" ")
        const ids = (text: string) =>
          Effect.map(
            renderer.generationPrompt([Message.user(text)]),
            (ids) => Array.from(ids).filter((id) => id >= tiny.idOf("<|bos|>"))
          )
        assert.deepStrictEqual(yield* ids(control), yield* ids("harmless"), name)
        const trusted = yield* renderer.generationPrompt([{ ...Message.user(control), markup: true }])
        assert.isAbove(Array.from(trusted).filter((id) => id >= tiny.idOf("<|bos|>")).length, (yield* ids("")).length)
      }
    }))

  it.effect("keeps each prompt a beginning of the next where it says so", () =>
    Effect.gen(function*() {
      const messages = [
        Message.system("be terse"),
        Message.user("one"),
        Message.assistant("1", "uno"),
        Message.user("two"),
        Message.assistant("2", "due"),
        Message.user("three")
      ]
      for (const [name, renderer] of Object.entries(yield* all)) {
        const plain = reasons(name)
          ? messages
          : messages.map((message) => ({ ...message, content: Message.text(message) }))
        const prompts = yield* Effect.forEach([2, 4, 6], (n) => renderer.generationPrompt(plain.slice(0, n)))
        const extends_ = prompts.every((prompt, i) => {
          const next = prompts[i + 1]
          return next === undefined || prompt.every((id, at) => id === next[at])
        })
        const whole = yield* renderer.supervised(plain.slice(0, 5), "all_assistant_messages")
        const isPrefix = prompts.slice(0, 2).every((prompt) => prompt.every((id, at) => id === whole.tokens[at]))
        if (renderer.extends) assert.isTrue(extends_ && isPrefix, name)
      }
    }))

  it.effect("splits a conversation into one example an answer when its history is rewritten", () =>
    Effect.gen(function*() {
      const messages = [
        Message.user("one"),
        Message.assistant("1", "uno"),
        Message.user("two"),
        Message.assistant("2", "due")
      ]
      const renderer = yield* Renderers.qwen3(chatml)
      assert.isFalse(renderer.extends)
      const examples = yield* renderer.supervisedAll(messages, "all_assistant_messages")
      assert.strictEqual(examples.length, 2)
      assert.deepStrictEqual(examples[0], yield* renderer.supervised(messages.slice(0, 2)))
      assert.deepStrictEqual(examples[1], yield* renderer.supervised(messages))
      assert.strictEqual((yield* renderer.supervisedAll(messages)).length, 1)
      assert.include((yield* Effect.flip(renderer.supervisedAll(messages, "all_tokens"))).message, "all_tokens")
      const kept = yield* Renderers.qwen3(chatml, { keepThinking: true })
      assert.strictEqual((yield* kept.supervisedAll(messages, "all_assistant_messages")).length, 1)
    }))
})

describe("GLM 5.3", () => {
  it.effect("keeps earlier reasoning, as its template does, unless it is told not to", () =>
    Effect.gen(function*() {
      const messages = [
        Message.user("one"),
        Message.assistant("1", "uno"),
        Message.user("two")
      ]
      const shown = (renderer: Renderer.Renderer) =>
        Effect.map(
          renderer.generationPrompt(messages),
          (prompt) => renderer.tokenizer.decode(prompt).includes("uno")
        )
      assert.isTrue(yield* shown(yield* Renderers.glm53(glm)))
      assert.isTrue(yield* shown(yield* Renderers.glm53(glm, {})))
      assert.isTrue(yield* shown(yield* Renderers.glm53(glm, { keepThinking: true })))
      assert.isFalse(yield* shown(yield* Renderers.glm53(glm, { keepThinking: false })))
    }))
})

describe("local/chat", () => {
  const tools = [
    {
      name: "add",
      description: "Adds two numbers",
      parameters: {
        type: "object",
        properties: { a: { type: "number" }, b: { type: ["number", "null"] }, note: {} },
        required: ["a"]
      }
    },
    { name: "now", description: "", parameters: {} }
  ]

  it.effect("writes what its format says", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.localChat(localLike)
      const call = { name: "add", arguments: "{\"a\":1.0,\"b\":[\"é\",{\"c\":null}]}" }
      const messages = [
        ...(yield* renderer.toolMessages(tools, "Be brief.")),
        Message.user("1+1?"),
        { ...Message.assistant("Let me see", "hm"), toolCalls: [call, { name: "now", arguments: "{}" }] },
        { role: "tool", content: "2" },
        { role: "tool", content: "noon" },
        Message.assistant("2"),
        Message.user("Thanks")
      ]
      const text = [
        "<|im_start|>system\nBe brief.\n\n<tools>\nadd(a: number, b?: number|null, note?: any) Adds two numbers\nnow()\n",
        "</tools><|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nLet me see\n",
        "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1.0, \"b\": [\"é\", {\"c\": null}]}}\n</tool_call>\n",
        "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call><|im_end|>\n",
        "<|im_start|>user\n<tool_response>\n2\n</tool_response>\n<tool_response>\nnoon\n</tool_response><|im_end|>\n",
        "<|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\nThanks<|im_end|>\n<|im_start|>assistant\n"
      ].join("")
      const prompt = yield* renderer.generationPrompt(messages)
      assert.strictEqual(renderer.tokenizer.decode(prompt), text)
      assert.deepStrictEqual(Array.from(prompt), Array.from(localLike.encode(text, { addSpecialTokens: false })))
    }))

  const directory = new URL("../../local/models/chat/", import.meta.url)
  it.effect.skipIf(!existsSync(new URL("chat_template.jinja", directory)))(
    "prompts with its template's ids",
    () =>
      Effect.gen(function*() {
        const read = (name: string) => readFileSync(new URL(name, directory), "utf8")
        const tokenizer = yield* Tokenizer.fromHuggingFace({
          id: "local/chat",
          tokenizerJson: JSON.parse(read("tokenizer.json")),
          tokenizerConfig: JSON.parse(read("tokenizer_config.json")),
          chatTemplates: { default: read("chat_template.jinja") }
        })
        const renderer = yield* Renderers.forModel("local/chat", tokenizer)
        assert.strictEqual(renderer.name, "local_chat")
        const template = yield* ChatTemplate.fromTokenizer(tokenizer)
        for (const name of names) {
          const { messages, tools } = conversation(name)
          const text = yield* template.render(messages.map(Message.toTemplate), {
            addGenerationPrompt: true,
            tools: tools.length === 0 ? undefined : tools.map((tool) => ({ type: "function", function: tool }))
          })
          const ids = yield* renderer.generationPrompt(yield* declared(renderer, name))
          assert.strictEqual(tokenizer.decode(ids), text, name)
          // an answer is sampled after its header: a line break it begins with is no part of the header's
          // and the template lets text become control tokens
          if (name === "indentation" || name === "reasoning in the text") continue
          assert.deepStrictEqual(Array.from(ids), Array.from(tokenizer.encode(text, { addSpecialTokens: false })), name)
        }
      })
  )
})

describe("MiniMax M2", () => {
  it.effect("opens the reasoning, reads calls, and folds the line break before bare calls into the header", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.minimaxM2(minimax)
      const call = { ...Message.assistant("", "so"), toolCalls: [{ name: "f", arguments: "{\"x\": 1, \"y\": \"z\"}" }] }
      const messages = [Message.user("go"), call]
      const { tokens } = yield* renderer.supervised(messages)
      const prompt = yield* renderer.generationPrompt(messages.slice(0, 1))
      assert.isTrue(renderer.tokenizer.decode(prompt).endsWith("]~b]ai\n<think>\n"))
      assert.deepStrictEqual(renderer.parse(tokens.subarray(prompt.length)).message, {
        ...call,
        content: [{ type: "thinking", thinking: "so" }]
      })
    }))
})

describe("masking", () => {
  const messages = [
    Message.system("S"),
    Message.user("U1"),
    Message.assistant("A1"),
    Message.user("U2"),
    { ...Message.assistant("A2"), toolCalls: [{ name: "find", arguments: "{}" }] },
    { role: "tool", content: "T", name: "find" },
    Message.assistant("A3")
  ]

  const trained = Effect.fnUntraced(
    function*(mode: Renderer.TrainOnWhat, given: ReadonlyArray<Message.Message> = messages) {
      const renderer = yield* Renderers.qwen3Instruct(chatml)
      const { tokens, weights } = yield* renderer.supervised(given, mode)
      assert.strictEqual(tokens.length, weights.length)
      return renderer.tokenizer.decode(tokens.filter((_, i) => weights[i] === 1))
    }
  )

  const a1 = "A1<|im_end|>"
  const a2 = "A2\n<tool_call>\n{\"name\": \"find\", \"arguments\": {}}\n</tool_call><|im_end|>"
  const a3 = "A3<|im_end|>"
  const s = "S<|im_end|>"
  const u1 = "U1<|im_end|>"
  const u2 = "U2<|im_end|>"
  const t = "<tool_response>\nT\n</tool_response><|im_end|>"

  it.effect("weighs what the mode says", () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* trained("last_assistant_message"), a3)
      assert.strictEqual(yield* trained("last_assistant_turn"), a2 + a3)
      assert.strictEqual(yield* trained("all_assistant_messages"), a1 + a2 + a3)
      assert.strictEqual(yield* trained("all_messages"), s + u1 + a1 + u2 + a2 + t + a3)
      assert.strictEqual(yield* trained("all_user_and_system_messages"), s + u1 + u2)
      const everything = yield* trained("all_tokens")
      assert.include(everything, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU1")
      const custom = messages.map((message, i) => ({ ...message, trainable: i === 1 || i === 6 }))
      assert.strictEqual(yield* trained("customized", custom), u1 + a3)
    }))

  it.effect("wants `trainable` with customized and nowhere else", () =>
    Effect.gen(function*() {
      assert.include((yield* Effect.flip(trained("customized"))).message, "trainable")
      const marked = messages.map((message) => ({ ...message, trainable: true }))
      assert.include((yield* Effect.flip(trained("all_messages", marked))).message, "trainable")
    }))
})

describe("parsing", () => {
  const say = (renderer: Renderer.Renderer, text: string) =>
    renderer.parse(renderer.tokenizer.encode(text, { addSpecialTokens: false }))

  it.effect("tells how an answer ended", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.qwen3(chatml)
      assert.strictEqual(say(renderer, "done<|im_end|>").termination, "stop_sequence")
      const cut = say(renderer, "cut sh")
      assert.strictEqual(cut.termination, "malformed")
      assert.deepStrictEqual(Option.map(cut.failure, ({ kind }) => kind), Option.some("structural"))
      assert.strictEqual(Message.text(cut.message), "cut sh")
      assert.strictEqual(say(renderer, "a<|im_end|>b<|im_end|>").termination, "malformed")
      // what follows the end is no part of the answer
      assert.strictEqual(Message.text(say(renderer, "a<|im_end|>b<|im_end|>").message), "a")
      const base = yield* Renderers.roleColon(chatml)
      assert.strictEqual(say(base, " Paris\n\nUser:").termination, "stop_sequence")
      assert.strictEqual(say(base, " Paris\n\nUser:").message.content, "Paris")
      assert.strictEqual(say(base, " Paris<|end|>").termination, "eos")
      assert.strictEqual(say(base, " Paris\n\nUser: more\n\nUser:").termination, "malformed")
      assert.strictEqual(say(base, " Paris").termination, "malformed")
      assert.deepStrictEqual(base.stop, ["\n\nUser:"])
    }))

  it.effect("keeps tool calls that cannot be read, and says why", () =>
    Effect.gen(function*() {
      const qwen = yield* Renderers.qwen3(chatml)
      const bad = say(qwen, "<tool_call>\n{\"name\": \"f\", arguments}\n</tool_call><|im_end|>")
      assert.strictEqual(bad.termination, "stop_sequence")
      assert.deepStrictEqual(Option.map(bad.failure, ({ kind }) => kind), Option.some("content"))
      assert.include(bad.message.unparsedToolCalls?.[0]?.rawText ?? "", "arguments}")
      const open = say(qwen, "wait <tool_call>\n{\"name\"<|im_end|>")
      assert.include(open.message.unparsedToolCalls?.[0]?.error ?? "", "unterminated")
      assert.strictEqual(Message.text(open.message), "wait ")
      for (const odd of ["[1]", "{\"name\": 1}", "{\"name\": \"f\"}"]) {
        assert.strictEqual(say(qwen, `<tool_call>${odd}</tool_call><|im_end|>`).message.unparsedToolCalls?.length, 1)
      }
      const two = say(
        qwen,
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1.0}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>"
      )
      assert.deepStrictEqual(two.message, {
        role: "assistant",
        content: "",
        toolCalls: [{ name: "f", arguments: "{\"x\": 1.0}" }, { name: "g", arguments: "{}" }]
      })
      const deepseek = yield* Renderers.deepseekV3(deepseekLike)
      const half = say(
        deepseek,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{<｜tool▁calls▁end｜><｜end▁of▁sentence｜>"
      )
      assert.deepStrictEqual(half.message.toolCalls, [{ name: "f", arguments: "{}" }])
      assert.strictEqual(half.message.unparsedToolCalls?.length, 1)
      const oss = yield* Renderers.gptOss(harmony)
      const call = say(oss, " to=functions.f<|channel|>commentary <|constrain|>json<|message|>{\"a\": 1}<|call|>")
      assert.deepStrictEqual(call.message.toolCalls, [{ name: "f", arguments: "{\"a\": 1}" }])
      const broken = say(oss, " to=functions.f<|channel|>commentary json<|message|>{<|call|>")
      assert.strictEqual(broken.message.unparsedToolCalls?.length, 1)
      assert.strictEqual(say(oss, " to=functions.f<|call|>").message.unparsedToolCalls?.length, 1)
    }))

  it.effect("puts a prompt's opened reasoning back, and takes it for text when it was never closed", () =>
    Effect.gen(function*() {
      const renderer = yield* Renderers.deepseekV3Thinking(deepseekLike)
      const end = "<｜end▁of▁sentence｜>"
      const expected = Message.assistant("yes", "so")
      assert.deepStrictEqual(say(renderer, `so</think>yes${end}`).message, expected)
      assert.deepStrictEqual(say(renderer, `<think>so</think>yes${end}`).message, expected)
      assert.deepStrictEqual(say(renderer, `just an answer${end}`).message, Message.assistant("just an answer"))
      const qwen = yield* Renderers.qwen3(chatml)
      assert.deepStrictEqual(say(qwen, "<think>\nnever ends").message.content, [
        { type: "thinking", thinking: "never ends" }
      ])
    }))

  const text = FastCheck.array(
    FastCheck.constantFrom(
      "<think>",
      "</think>",
      "<tool_call>",
      "</tool_call>",
      "\n",
      "a",
      " b",
      "<",
      "{}",
      "<|im_end|>"
    )
  )
  const renderer = Effect.runSync(Renderers.qwen3(chatml))

  it.prop("reads any answer the same in one piece and in many", { text }, ({ text }) => {
    const ids = chatml.encode(text.join(""), { addSpecialTokens: false })
    const parser = renderer.parser()
    for (const id of ids) parser.push([id])
    assert.deepStrictEqual(parser.end().parsed, renderer.parse(ids))
  })
})

describe("choosing", () => {
  it("recommends what the cookbook does", () => {
    const table: ReadonlyArray<readonly [string, string | undefined]> = [
      ["meta-llama/Llama-3.1-8B-Instruct", "llama3"],
      ["meta-llama/Llama-3.2-1B", "role_colon"],
      ["Qwen/Qwen3-8B", "qwen3"],
      ["Qwen/Qwen3-8B-Base", "role_colon"],
      ["Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3_instruct"],
      ["Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3_vl_instruct"],
      ["Qwen/Qwen3.5-4B", "qwen3_5"],
      ["Qwen/Qwen3.5-35B-A3B-Base", "role_colon"],
      ["Qwen/Qwen3.8-27B", "qwen3_8_xhigh_reasoning"],
      ["deepseek-ai/DeepSeek-V3.1", "deepseekv3"],
      ["deepseek-ai/DeepSeek-V3.1-Base", "role_colon"],
      ["openai/gpt-oss-20b:peft", "gpt_oss_no_sysprompt"],
      ["moonshotai/Kimi-K2-Thinking", "kimi_k2"],
      ["moonshotai/Kimi-K2.5", "kimi_k25"],
      ["moonshotai/Kimi-K2.6", "kimi_k26"],
      ["Qwen/Qwen3.6-27B", "qwen3_5"],
      ["deepseek-ai/DeepSeek-V4.1-Flash-1017", "deepseekv4_1"],
      ["zai-org/GLM-5.3-Flash", "glm5_3_max_reasoning"],
      ["nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron3"],
      ["nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", "nemotron3_ultra"],
      ["thinkingmachines/Inkling-Small", "tml_v0"],
      ["local/chat", "local_chat"],
      ["local/tiny", "role_colon"],
      ["deepseek-ai/DeepSeek-V4-Flash-0731", "deepseekv4"],
      ["zai-org/GLM-5", "glm5"],
      ["zai-org/GLM-4.7-Flash", "glm5"],
      ["zai-org/GLM-5.1", "glm5_1"],
      ["google/gemma-4-E4B-it", "gemma4"],
      ["google/gemma-4-31B-it", "gemma4"],
      ["MiniMaxAI/MiniMax-M2.5", "minimax_m2"],
      ["somebody/else", undefined]
    ]
    for (const [model, name] of table) assert.strictEqual(Renderers.recommended(model)[0], name, model)
  })

  it.effect("finds renderers by name and model, and says when there is none", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* Renderers.byName("qwen3_instruct", chatml)).name, "qwen3_instruct")
      assert.include((yield* Effect.flip(Renderers.byName("nothing", chatml))).message, "role_colon")
      assert.strictEqual((yield* Renderers.forModel("Qwen/Qwen3-8B", chatml)).name, "qwen3")
      assert.strictEqual((yield* Renderers.forModel("somebody/else", chatml)).name, "template")
      const bare = { ...chatml, chatTemplates: {} }
      const unknown = yield* Effect.flip(Renderers.forModel("somebody/else", bare))
      assert.include(unknown.message, "Renderers.byName")
      for (const name of Renderers.names) {
        const made = yield* Effect.either(Renderers.byName(name, chatml))
        // the name is the renderer's own, except for one that the cookbook knows by two
        if (Either.isRight(made) && name !== "deepseekv3_disable_thinking") assert.strictEqual(made.right.name, name)
      }
      assert.include((yield* Effect.flip(Renderers.kimiK2(llamaLike))).message, "<|im_end|>")
    }))

  it.effect("a model without a renderer prompts with its template", () =>
    Effect.gen(function*() {
      const template = yield* ChatTemplate.compile(
        "{{ bos }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}",
        { bos: "<|bos|>" }
      )
      const renderer = Renderers.fromTemplate(template, chatml)
      const prompt = yield* renderer.generationPrompt([Message.user("hi")], { prefill: "well" })
      assert.strictEqual(chatml.decode(prompt), "<|bos|>[user]hi[a]well")
      assert.strictEqual(prompt[0], tiny.idOf("<|bos|>"))
      assert.deepStrictEqual(renderer.stop, [tiny.idOf("<|end|>")])
      assert.strictEqual(
        renderer.parse(chatml.encode("yes<|end|>", { addSpecialTokens: false })).message.content,
        "yes"
      )
      // an answer is written as [assistant], the prompt ends with [a]
      const refused = yield* Effect.flip(renderer.supervised([Message.user("hi"), Message.assistant("yes")]))
      assert.include(refused.message, "message 1: the template does not write this answer behind the prompt")
    }))

  describe("made from a template", () => {
    const frame = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    const conversation = [
      Message.system("Be brief."),
      Message.user("hi"),
      Message.assistant("yes"),
      Message.user("why"),
      Message.assistant("no")
    ]
    const rendererOf = (source: string) =>
      Effect.map(ChatTemplate.compile(source), (template) => Renderers.fromTemplate(template, chatml))
    /** The text that is trained on, piece by piece. */
    const trained = ({ tokens, weights }: Renderer.Supervised): ReadonlyArray<string> => {
      const pieces: Array<Array<number>> = []
      tokens.forEach((token, i) => {
        if (weights[i] !== 1) return
        if (i === 0 || weights[i - 1] !== 1) pieces.push([])
        pieces.at(-1)?.push(token)
      })
      return pieces.map((piece) => chatml.decode(piece))
    }

    it.effect("trains on answers with the token that ends them", () =>
      Effect.gen(function*() {
        const renderer = yield* rendererOf(frame)
        assert.isTrue(renderer.extends)
        assert.deepStrictEqual(Option.fromNullable(renderer.stop[0]), chatml.tokenToId("<|im_end|>"))
        const of = (mode: Renderer.TrainOnWhat) => Effect.map(renderer.supervised(conversation, mode), trained)
        assert.deepStrictEqual(yield* of("last_assistant_message"), ["no<|im_end|>"])
        assert.deepStrictEqual(yield* of("last_assistant_turn"), ["no<|im_end|>"])
        assert.deepStrictEqual(yield* of("all_assistant_messages"), ["yes<|im_end|>", "no<|im_end|>"])
        assert.deepStrictEqual(yield* of("all_user_and_system_messages"), [
          "Be brief.<|im_end|>",
          "hi<|im_end|>",
          "why<|im_end|>"
        ])
        assert.strictEqual((yield* of("all_messages")).length, 5)
        assert.strictEqual((yield* of("all_tokens")).length, 1)
        const marked = conversation.map((message, i) => ({ ...message, trainable: i === 2 }))
        const custom = yield* renderer.supervised(marked, "customized")
        assert.deepStrictEqual(trained(custom), ["yes<|im_end|>"])
        assert.include((yield* Effect.flip(renderer.supervised(conversation, "customized"))).message, "trainable")
        // the tokens are those of the text, whatever is trained on
        assert.strictEqual(chatml.decode(custom.tokens).split("<|im_end|>").length, 6)
      }))

    it.effect("the same examples as the renderer of the family, where the template is the family's", () =>
      Effect.gen(function*() {
        const family = yield* Renderers.qwen3Instruct(chatml)
        const renderer = yield* rendererOf(frame)
        const ours = yield* renderer.supervised(conversation)
        const theirs = yield* family.supervised(conversation)
        // the template ends with a line break, which belongs to the next header
        assert.deepStrictEqual(ours.tokens.slice(0, theirs.tokens.length), theirs.tokens)
        assert.deepStrictEqual(ours.weights.slice(0, theirs.weights.length), theirs.weights)
        assert.deepStrictEqual(
          yield* renderer.generationPrompt(conversation.slice(0, 4)),
          yield* family.generationPrompt(conversation.slice(0, 4))
        )
      }))

    it.effect("uses the template's own marks of answers", () =>
      Effect.gen(function*() {
        const renderer = yield* rendererOf(
          "{% for m in messages %}\n{% if m.role == 'assistant' %}<|im_start|>assistant: \n{% generation %}" +
            "{{ m.content }}<|im_end|>{% endgeneration %}{% else %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>" +
            "{% endif %}\n{% endfor %}"
        )
        const example = yield* renderer.supervised(conversation, "all_assistant_messages")
        assert.deepStrictEqual(trained(example), ["yes<|im_end|>", "no<|im_end|>"])
        assert.notMatch(chatml.decode(example.tokens), /[\uE0F0\uE0F1]/)
      }))

    it.effect("a template that drops reasoning makes one example for each answer, and says which message it rewrites", () =>
      Effect.gen(function*() {
        const renderer = yield* rendererOf(
          "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and loop.last %}" +
            "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}" +
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        )
        const reasoned = (thinking: string, text: string): Message.Message => ({
          role: "assistant",
          content: [{ type: "thinking", thinking }, { type: "text", text }]
        })
        const messages = [Message.user("hi"), reasoned("hm", "yes"), Message.user("why"), reasoned("ah", "no")]
        assert.isFalse(renderer.extends)
        const refused = yield* Effect.flip(renderer.supervised(messages, "all_assistant_messages"))
        assert.include(refused.message, "message 1: the template writes this answer differently")
        const examples = yield* renderer.supervisedAll(messages, "all_assistant_messages")
        assert.deepStrictEqual(examples.map(trained), [
          ["<think>hm</think>yes<|im_end|>"],
          ["<think>ah</think>no<|im_end|>"]
        ])
        const turn = {
          messages: messages.slice(0, 1),
          prompt: yield* renderer.generationPrompt(messages.slice(0, 1)),
          completion: chatml.encode("<think>hm</think>yes<|im_end|>", { addSpecialTokens: false })
        }
        const forked = renderer.continue(turn, [Message.user("why")])
        assert(Either.isLeft(forked))
        assert.strictEqual(forked.left.reason, "HistoryRewritten")
      }))

    it.effect("continues a turn with the exact ids that were sampled", () =>
      Effect.gen(function*() {
        const renderer = yield* rendererOf(frame)
        const messages = conversation.slice(0, 2)
        const prompt = yield* renderer.generationPrompt(messages)
        const completion = chatml.encode("yes<|im_end|>", { addSpecialTokens: false })
        const next = yield* renderer.continue({ messages, prompt, completion }, [Message.user("why")])
        assert.deepStrictEqual(next, yield* renderer.generationPrompt(conversation.slice(0, 4)))
        const cut = completion.slice(0, -1)
        const refused = renderer.continue({ messages, prompt, completion: cut }, [Message.user("why")])
        assert(Either.isLeft(refused))
        assert.strictEqual(refused.left.reason, "AnswerTruncated")
        const closed = yield* renderer.continue({ messages, prompt, completion: cut }, [Message.user("why")], {
          closeTruncated: true
        })
        assert.deepStrictEqual(closed, next)
      }))

    it.effect("tools reach a template that has them, and are refused by one that has not", () =>
      Effect.gen(function*() {
        const tool = { name: "f", description: "d", parameters: {} }
        const none = yield* rendererOf(frame)
        assert.include((yield* Effect.flip(none.toolMessages([tool]))).message, "has no tools")
        const some = yield* rendererOf(
          `{% if tools %}<|im_start|>tools {{ tools[0].function.name }}<|im_end|>\n{% endif %}<tool_call>${frame}`
        )
        const declared = yield* some.toolMessages([tool], "Be brief.")
        const text = chatml.decode(yield* some.generationPrompt([...declared, Message.user("hi")]))
        assert.include(text, "<|im_start|>tools f<|im_end|>\n")
        const answer = some.parse(
          chatml.encode(`<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call><|im_end|>`, {
            addSpecialTokens: false
          })
        )
        assert.deepStrictEqual(answer.message.toolCalls, [{ name: "f", arguments: "{}" }])
      }))
  })

  it.effect("has no tools where the format has none", () =>
    Effect.gen(function*() {
      const tool = { name: "f", description: "d", parameters: {} }
      assert.include((yield* Effect.flip((yield* Renderers.llama3(llamaLike)).toolMessages([tool]))).message, "Llama 3")
      assert.include((yield* Effect.flip((yield* Renderers.roleColon(chatml)).toolMessages([tool]))).message, "tools")
    }))
})
