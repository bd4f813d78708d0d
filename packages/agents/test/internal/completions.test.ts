import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Completions from "../../src/internal/openai/completions.js"
import { chatRenderer } from "../support/chat.js"
import { head, read, reply, textOf } from "../support/wire.js"

describe("completions", () => {
  const decode = (fields: object) => read(Completions.decode, { model: "m", prompt: "x", ...fields })
  const asked = (fields: object) =>
    Effect.map(
      Effect.flatMap(decode(fields), (request) => Completions.toRequest(request, "r")),
      ({ rollout: _, ...rest }) => Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
    )

  it.effect("what a request says, and what it leaves out", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* asked({}), { prompt: "x", maxTokens: 16 })
      assert.deepStrictEqual(
        yield* asked({
          max_tokens: 3,
          temperature: 0.5,
          top_k: 4,
          top_p: 0.75,
          seed: 6,
          stop: ["a", "b"],
          logprobs: 2,
          echo: false,
          suffix: "",
          best_of: 1
        }),
        { prompt: "x", maxTokens: 3, temperature: 0.5, topK: 4, topP: 0.75, seed: 6, stop: ["a", "b"], topLogprobs: 2 }
      )
      assert.deepStrictEqual(yield* asked({ prompt: [5, 6], stop: "a" }), {
        prompt: [5, 6],
        maxTokens: 16,
        stop: ["a"]
      })
      assert.deepStrictEqual(yield* asked({ prompt: ["one"] }), { prompt: "one", maxTokens: 16 })
      assert.deepStrictEqual(yield* asked({ prompt: [[5]] }), { prompt: [5], maxTokens: 16 })
      for (
        const [fields, message] of [
          [{ echo: true }, "echo is not supported"],
          [{ suffix: "s" }, "suffix is not supported"],
          [{ best_of: 2 }, "best_of is not supported"],
          [{ prompt: ["a", "b"] }, "several prompts"],
          [{ prompt: "" }, "the prompt is empty"],
          [{ n: 129 }, "n"],
          [{ logprobs: 21 }, "logprobs"],
          [{ prompt: [1.5] }, "prompt"]
        ] as const
      ) {
        assert.include((yield* Effect.flip(asked(fields))).message, message)
      }
    }))

  it.effect("log probabilities with the places of their tokens, ids, and the tokens of all answers together", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const ids = Int32Array.from(renderer.tokenizer.encode("ab, c"))
      const texts = Array.from(ids, (id) => renderer.tokenizer.decode([id]))
      const [first = 0, second = 0] = ids
      const one = reply({
        sampledIds: ids,
        logprobs: Float32Array.from(ids, (_, i) => -1 - i),
        topLogprobs: [[[first, -1], [second, -2]]],
        promptIds: Int32Array.of(3, 4)
      })
      const request = yield* decode({ logprobs: 1, return_token_ids: true })
      const { choices, object, usage } = Completions.whole(head, request, renderer, [one, reply({ text: "No." })])
      assert.strictEqual(object, "text_completion")
      assert.deepStrictEqual(choices.map(({ index, text }) => [index, text]), [[0, "Hi."], [1, "No."]])
      const offsets: Array<number> = []
      let at = 0
      for (const text of texts) {
        offsets.push(at)
        at += text.length
      }
      assert.deepStrictEqual(choices[0]?.logprobs, {
        tokens: texts,
        token_logprobs: Array.from(ids, (_, i) => -1 - i),
        top_logprobs: [{ [texts[0] ?? ""]: -1, [texts[1] ?? ""]: -2 }],
        text_offset: offsets
      })
      assert.deepStrictEqual(choices[1]?.logprobs?.top_logprobs, [])
      assert.deepInclude(choices[0], { token_ids: Array.from(ids), prompt_token_ids: [3, 4] })
      assert.deepInclude(usage, { prompt_tokens: 7, completion_tokens: 4, total_tokens: 11 })
      assert.deepStrictEqual(usage.prompt_tokens_details, { cached_tokens: 5 })
      const plain = Completions.whole(head, yield* decode({}), renderer, [one])
      assert.isNull(plain.choices[0]?.logprobs)
      assert.notProperty(plain.choices[0], "token_ids")
    }))

  it.effect("streams each answer's pieces and its end, the usage where it is wanted, and that it is over", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const replies = [
        reply({
          deltas: [{ _tag: "Reasoning", text: "hm" }, { _tag: "Text", text: "H" }, { _tag: "Text", text: "i." }]
        }),
        reply({ deltas: [], text: "", finishReason: "length" })
      ]
      const stream = (fields: object) =>
        Effect.map(decode(fields), (request) => textOf(Completions.chunks(head, request, renderer, replies)))
      const events = yield* stream({})
      assert.strictEqual(events.at(-1), "[DONE]")
      assert.deepStrictEqual(
        events.slice(0, -1).map((event) => {
          const [{ finish_reason, index, text }] = JSON.parse(event).choices
          return [index, text, finish_reason]
        }),
        [[0, "H", null], [0, "i.", null], [0, "", "stop"], [1, "", "length"]]
      )
      const counted = yield* stream({ stream_options: { include_usage: true } })
      assert.strictEqual(counted.length, 6)
      const last = JSON.parse(counted.at(-2) ?? "")
      assert.deepStrictEqual([last.choices, last.usage.completion_tokens], [[], 4])
    }))
})
