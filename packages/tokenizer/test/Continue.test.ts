/**
 * Prompts that go on from sampled tokens.
 */
import { Message, Renderer, Renderers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, FastCheck, Option } from "effect"
import { chatml, deepseekLike, harmony, kimi, llamaLike } from "./support/synthetic.js"

const renderers = Effect.runSync(Effect.all({
  role_colon: Renderers.roleColon(chatml),
  llama3: Renderers.llama3(llamaLike),
  qwen3: Renderers.qwen3(chatml),
  "qwen3, kept": Renderers.qwen3(chatml, { keepThinking: true }),
  qwen3_disable_thinking: Renderers.qwen3DisableThinking(chatml),
  qwen3_instruct: Renderers.qwen3Instruct(chatml),
  qwen3_5: Renderers.qwen35(chatml),
  "qwen3_5, kept": Renderers.qwen35(chatml, { keepThinking: true }),
  deepseekv3: Renderers.deepseekV3(deepseekLike),
  deepseekv3_thinking: Renderers.deepseekV3Thinking(deepseekLike),
  gpt_oss: Renderers.gptOss(harmony),
  kimi_k2: Renderers.kimiK2(kimi),
  "kimi_k2, kept": Renderers.kimiK2(kimi, { keepThinking: true })
}))

const question = [Message.user("the cat?")]

/** What a model would have sampled: an answer as examples write it, after the prompt. */
const sampled = Effect.fnUntraced(function*(
  renderer: Renderer.Renderer,
  answer: Message.Message,
  messages: ReadonlyArray<Message.Message> = question
) {
  const prompt = yield* renderer.generationPrompt(messages)
  const { tokens } = yield* renderer.supervised([...messages, answer])
  return { messages, prompt, completion: tokens.slice(prompt.length) } satisfies Renderer.Turn
})

/** An answer in exactly these words. */
const saying = Effect.fnUntraced(function*(
  renderer: Renderer.Renderer,
  text: string,
  messages: ReadonlyArray<Message.Message> = question
) {
  return {
    messages,
    prompt: yield* renderer.generationPrompt(messages),
    completion: renderer.tokenizer.encode(text, { addSpecialTokens: false })
  } satisfies Renderer.Turn
})

const reason = (result: Either.Either<Int32Array, { readonly reason: string }>): string =>
  Either.match(result, { onLeft: (error) => error.reason, onRight: () => "continued" })

const call = { name: "find", arguments: "{\"what\": \"cat\", \"deep\": {\"a\": 1, \"b\": [true, null]}}" }

describe("continue", () => {
  it.effect("is the prompt of the whole conversation, where the format only appends", () =>
    Effect.gen(function*() {
      const followUp = [Message.user("and the mat?")]
      for (const [name, renderer] of Object.entries(renderers)) {
        const answer = Message.assistant("sat on it")
        const turn = yield* sampled(renderer, answer)
        const next = renderer.continue(turn, followUp)
        if (!renderer.extends) continue
        assert.deepStrictEqual(
          Array.from(Either.getOrThrow(next)),
          Array.from(yield* renderer.generationPrompt([...question, answer, ...followUp])),
          name
        )
      }
    }))

  it.effect("keeps the tokens that were sampled, however they spell the text", () =>
    Effect.gen(function*() {
      const renderer = renderers.qwen3_instruct
      const { tokenizer } = renderer
      const prompt = yield* renderer.generationPrompt(question)
      // letter by letter, as no encoder would write it
      const letters = Array.from(
        "the cat",
        (letter) => Array.from(tokenizer.encode(letter, { addSpecialTokens: false }))
      )
      const completion = Int32Array.from([...letters.flat(), ...renderer.stop.map(Number).slice(0, 1)])
      const turn = { messages: question, prompt, completion }
      const next = Either.getOrThrow(renderer.continue(turn, [Message.user("so?")]))
      assert.deepStrictEqual(Array.from(next.subarray(0, prompt.length + completion.length)), [
        ...prompt,
        ...completion
      ])
      const rendered = yield* renderer.generationPrompt([
        ...question,
        Message.assistant("the cat"),
        Message.user("so?")
      ])
      assert.strictEqual(tokenizer.decode(next), tokenizer.decode(rendered))
      assert.notDeepEqual(Array.from(next), Array.from(rendered))
    }))

  it.effect("refuses where the template drops reasoning, and only there", () =>
    Effect.gen(function*() {
      const reasoned = Message.assistant("sat", "it had a mat")
      const plain = Message.assistant("sat")
      const table: ReadonlyArray<readonly [keyof typeof renderers, Message.Message, string]> = [
        ["qwen3", reasoned, "HistoryRewritten"],
        ["qwen3, kept", reasoned, "continued"],
        ["qwen3_5", reasoned, "HistoryRewritten"],
        ["qwen3_5", plain, "HistoryRewritten"],
        ["qwen3_5, kept", reasoned, "continued"],
        ["qwen3_disable_thinking", plain, "HistoryRewritten"],
        ["deepseekv3", plain, "continued"],
        ["deepseekv3_thinking", reasoned, "HistoryRewritten"],
        ["gpt_oss", reasoned, "HistoryRewritten"],
        ["kimi_k2", plain, "continued"],
        ["kimi_k2, kept", reasoned, "continued"]
      ]
      for (const [name, answer, expected] of table) {
        const renderer = renderers[name]
        const turn = yield* sampled(renderer, answer)
        const next = [Message.user("and the mat?")]
        assert.strictEqual(reason(renderer.continue(turn, next)), expected, name)
        assert.strictEqual(reason(renderer.continue(turn, next, { history: "sampled" })), "continued", name)
      }
      // an answer that never reasoned has nothing to lose, although the template would have it reason
      const silent = yield* saying(renderers.qwen3, "sat<|im_end|>")
      assert.strictEqual(reason(renderers.qwen3.continue(silent, [Message.user("so?")])), "continued")
    }))

  it.effect("goes on within a round of tools that the template leaves alone, and stops when a question ends it", () =>
    Effect.gen(function*() {
      const renderer = renderers.qwen3
      const called = { ...Message.assistant("", "I look"), toolCalls: [call] }
      const answer: Message.Message = { role: "tool", content: "on the mat", name: "find" }
      const turn = yield* sampled(renderer, called)
      const prompt = Either.getOrThrow(renderer.continue(turn, [answer, { ...answer, content: "asleep" }]))
      assert.deepStrictEqual(
        Array.from(prompt),
        Array.from(
          yield* renderer.generationPrompt([...question, called, answer, { ...answer, content: "asleep" }])
        )
      )
      const messages = [...question, called, answer]
      const second = { ...(yield* saying(renderer, "it sleeps<|im_end|>", messages)) }
      // the second answer did not reason, but the first did
      const refused = renderer.continue(second, [Message.user("and now?")])
      assert.strictEqual(reason(refused), "HistoryRewritten")
      assert.strictEqual(Either.isLeft(refused) ? refused.left.index : undefined, 1)
    }))

  it.effect("names why it does not continue", () =>
    Effect.gen(function*() {
      const renderer = renderers.qwen3_instruct
      const next = [Message.user("so?")]
      const cut = yield* saying(renderer, "sat on")
      const whole = yield* saying(renderer, "sat on<|im_end|>")
      assert.strictEqual(reason(renderer.continue(cut, next)), "AnswerTruncated")
      assert.deepStrictEqual(
        Either.map(renderer.continue(cut, next, { closeTruncated: true }), (ids) => Array.from(ids)),
        Either.map(renderer.continue(whole, next), (ids) => Array.from(ids))
      )
      // more tokens than a call has arguments
      const long = { ...cut, completion: new Int32Array(150_000).fill(cut.completion[0] ?? 0) }
      assert.isTrue(Either.isRight(renderer.continue(long, next, { closeTruncated: true })))
      const twice = yield* saying(renderer, "sat<|im_end|> more<|im_end|>")
      assert.strictEqual(reason(renderer.continue(twice, next)), "AnswerMalformed")
      const beyond = yield* saying(renderer, "sat<|im_end|> more")
      assert.strictEqual(reason(renderer.continue(beyond, next)), "AnswerMalformed")
      assert.strictEqual(reason(renderer.continue(whole, [])), "NothingNew")
      assert.strictEqual(reason(renderer.continue(whole, [Message.assistant("I said")])), "UnsampledAnswer")
      assert.strictEqual(reason(renderer.continue(whole, [{ role: "critic", content: "bad" }])), "UnknownRole")
      const prefilled = { ...whole, prompt: yield* renderer.generationPrompt(question, { prefill: "well" }) }
      assert.strictEqual(reason(renderer.continue(prefilled, next)), "PromptMismatch")
      const late = renderers["qwen3_5, kept"]
      const turn = yield* sampled(late, Message.assistant("sat"))
      assert.strictEqual(reason(late.continue(turn, [Message.system("be kind")])), "Unrenderable")
    }))

  it.effect("takes the header a stop string has already written", () =>
    Effect.gen(function*() {
      const renderer = renderers.role_colon
      const turn = yield* saying(renderer, " sat\n\nUser:")
      const next = Either.getOrThrow(renderer.continue(turn, [Message.user("so?")]))
      const { tokenizer } = renderer
      assert.isTrue(tokenizer.decode(next).endsWith("Assistant: sat\n\nUser: so?\n\nAssistant:"))
      assert.strictEqual(
        reason(renderer.continue(yield* saying(renderer, " sat<|end|>"), [Message.user("?")])),
        "AnswerMalformed"
      )
      assert.strictEqual(
        reason(renderer.continue(yield* saying(renderer, " sat"), [Message.user("?")])),
        "AnswerTruncated"
      )
      assert.strictEqual(reason(renderer.continue(turn, [Message.system("?")])), "Unrenderable")
    }))

  const word = FastCheck.constantFrom("the", " cat", "\n", "<|im_end|>", "<think>", " ", "é", "{}", "\n\n")
  const text = FastCheck.array(word, { maxLength: 6 }).map((words) => words.join(""))
  const fresh = FastCheck.array(
    FastCheck.record({ role: FastCheck.constantFrom("user", "tool", "system"), content: text }),
    { minLength: 1, maxLength: 3 }
  )

  it.prop(
    "begins with the exact ids given, whatever was sampled and whatever follows",
    {
      name: FastCheck.constantFrom(...Object.keys(renderers)),
      answer: text,
      fresh,
      closeTruncated: FastCheck.boolean()
    },
    ({ answer, closeTruncated, fresh, name }) => {
      const renderer = Object.entries(renderers).find(([key]) => key === name)?.[1] ?? renderers.qwen3
      const prompt = Effect.runSync(renderer.generationPrompt(question))
      const stop = typeof renderer.stop[0] === "number" ? [renderer.stop[0]] : []
      const completion = Int32Array.from([
        ...renderer.tokenizer.encode(answer, { addSpecialTokens: false }),
        ...(closeTruncated ? [] : stop)
      ])
      const result = renderer.continue({ messages: question, prompt, completion }, fresh, { closeTruncated })
      if (Either.isLeft(result)) return
      const kept = prompt.length + completion.length
      assert.deepStrictEqual(Array.from(result.right.subarray(0, kept)), [...prompt, ...completion])
      // what follows the answer is what a separate conversation has after the same messages
      assert.isAbove(result.right.length, kept)
    },
    { fastCheck: { numRuns: 300 } }
  )

  it.prop(
    "never rewrites where it says it extends",
    {
      name: FastCheck.constantFrom(
        ...Object.entries(renderers).filter(([, { extends: extending }]) => extending).map(([name]) => name)
      ),
      answers: FastCheck.array(FastCheck.constantFrom("the cat", " sat", "on the mat"), { minLength: 1, maxLength: 4 })
    },
    ({ answers, name }) => {
      const renderer = Object.entries(renderers).find(([key]) => key === name)?.[1] ?? renderers.llama3
      let messages: ReadonlyArray<Message.Message> = question
      let prompt = Effect.runSync(renderer.generationPrompt(messages))
      for (const words of answers) {
        const answer = Message.assistant(words.trim())
        const { tokens } = Effect.runSync(renderer.supervised([...messages, answer]))
        const turn = { messages, prompt, completion: tokens.slice(prompt.length) }
        const next = renderer.continue(turn, [Message.user("so?")])
        assert.strictEqual(reason(next), "continued")
        messages = [...messages, answer, Message.user("so?")]
        prompt = Either.getOrThrow(next)
        assert.deepStrictEqual(Array.from(prompt), Array.from(Effect.runSync(renderer.generationPrompt(messages))))
      }
    },
    { fastCheck: { numRuns: 60 } }
  )
})

describe("continueConversation", () => {
  const renderer = renderers.qwen3_instruct
  const answer = { ...Message.assistant("I look"), toolCalls: [call] }
  const result: Message.Message = { role: "tool", content: "on the mat", name: "find" }

  it.effect("takes an answer that says the same in other words of JSON", () =>
    Effect.gen(function*() {
      const turn = yield* sampled(renderer, answer)
      const expected = Array.from(Either.getOrThrow(renderer.continue(turn, [result])))
      const echoes: ReadonlyArray<Message.Message> = [
        answer,
        {
          ...answer,
          toolCalls: [{ ...call, id: "call_1", arguments: "{\"deep\":{\"b\":[true,null],\"a\":1.0},\"what\":\"cat\"}" }]
        },
        { ...answer, content: [{ type: "text", text: "I " }, { type: "text", text: "look" }] }
      ]
      for (const echoed of echoes) {
        const next = Renderer.continueConversation(renderer, turn, [Message.user("the cat?"), echoed, result])
        assert.deepStrictEqual(Array.from(Either.getOrThrow(next)), expected)
      }
      const thought = yield* sampled(renderers["qwen3, kept"], Message.assistant("sat", "hm"))
      const dropped = Renderer.continueConversation(renderers["qwen3, kept"], thought, [
        ...question,
        Message.assistant("sat"),
        Message.user("so?")
      ])
      assert.strictEqual(reason(dropped), "continued")
    }))

  it.effect("names what differs", () =>
    Effect.gen(function*() {
      const turn = yield* sampled(renderer, answer)
      const after = (messages: ReadonlyArray<Message.Message>) =>
        Renderer.continueConversation(renderer, turn, [...messages, result])
      const table: ReadonlyArray<readonly [ReadonlyArray<Message.Message>, string, string]> = [
        [[...question, { ...answer, content: "I see" }], "AnswerDiffers", "content"],
        [[...question, Message.assistant("I look")], "AnswerDiffers", "toolCalls"],
        [[...question, { ...answer, toolCalls: [{ ...call, name: "seek" }] }], "AnswerDiffers", "toolCalls[0].name"],
        [
          [...question, { ...answer, toolCalls: [{ ...call, arguments: "{}" }] }],
          "AnswerDiffers",
          "toolCalls[0].arguments"
        ],
        [
          [...question, {
            ...answer,
            content: [{ type: "thinking", thinking: "x" }, { type: "text", text: "I look" }]
          }],
          "AnswerDiffers",
          "reasoning"
        ],
        [[Message.user("the dog?"), answer], "MessageEdited", "content"],
        [[Message.system("the cat?"), answer], "MessageEdited", "role"]
      ]
      for (const [messages, expected, field] of table) {
        const refused = after(messages)
        assert.strictEqual(reason(refused), expected, field)
        assert.isTrue(Either.isLeft(refused) && refused.left.description.startsWith(`${field}:`), field)
      }
      assert.strictEqual(reason(Renderer.continueConversation(renderer, turn, question)), "NothingNew")
      assert.strictEqual(reason(Renderer.continueConversation(renderer, turn, [])), "MessageEdited")
    }))

  it.effect("tells other tools from other words", () =>
    Effect.gen(function*() {
      const tool = { name: "find", description: "Finds things", parameters: { type: "object", properties: {} } }
      const declared = yield* renderer.toolMessages([tool])
      const turn = yield* sampled(renderer, answer, [...declared, ...question])
      const others = yield* renderer.toolMessages([tool, { ...tool, name: "seek" }])
      const conversation = [...others, ...question, answer, result]
      assert.strictEqual(reason(Renderer.continueConversation(renderer, turn, conversation)), "ToolsChanged")
      assert.isTrue(Option.isNone(Message.difference(answer, answer)))
    }))
})
