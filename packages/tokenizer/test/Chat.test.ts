/**
 * Messages in, message out, over anything that samples.
 */
import { Chat, Message, Renderers, TokenizerFiles, Tokenizers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Layer, Option, Stream } from "effect"
import { chatml } from "./support/synthetic.js"
import * as tiny from "./support/tiny.js"

/** A sampler that returns scripted completions in order and records its prompts. */
const scripted = (...answers: ReadonlyArray<string>) => {
  const prompts: Array<Int32Array> = []
  const stops: Array<unknown> = []
  const sequence = (prompt: Int32Array, stop: unknown): Chat.Sequence => {
    const tokens = chatml.encode(answers[prompts.length] ?? "", { addSpecialTokens: false })
    prompts.push(prompt)
    stops.push(stop)
    return { tokens, logprobs: new Float32Array(tokens.length).fill(-0.5), stopReason: "stop" }
  }
  const sample: Chat.Sample = (prompt, { stop }) => Effect.sync(() => ({ sequences: [sequence(prompt, stop)] }))
  // one token at a time
  const stream: Chat.SampleStream = (prompt, { stop }) =>
    Stream.suspend(() => {
      const { logprobs = [], stopReason, tokens } = sequence(prompt, stop)
      return Stream.fromIterable(
        Array.from(tokens, (id, i) => ({ tokens: [id], logprobs: [logprobs[i] ?? 0], stopReason }))
      )
    })
  return { sample, stream, prompts, stops }
}

const tool = { name: "find", description: "Finds", parameters: { type: "object", properties: {} } }

describe("Chat", () => {
  it.effect("asks, and keeps the exact tokens and log probabilities of the answer", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.make(yield* Renderers.qwen3Instruct(chatml), { system: "be terse" })
      const { prompts, sample, stops } = scripted("sat<|im_end|>")
      const answer = yield* chat.ask(sample, "the cat?")
      assert.strictEqual(answer.text, "sat")
      assert.strictEqual(answer.termination, "stop_sequence")
      assert.deepStrictEqual(answer.stopReason, Option.some("stop"))
      assert.strictEqual(answer.logprobs.length, answer.turn.completion.length)
      assert.deepStrictEqual(answer.turn.prompt, prompts[0])
      assert.deepStrictEqual(stops[0], chat.renderer.stop)
      assert.include(chatml.decode(answer.turn.prompt), "be terse")
    }))

  it.effect("goes on from the sampled tokens, through tools", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.make(yield* Renderers.qwen3Instruct(chatml), { tools: [tool] })
      const call = "<tool_call>\n{ \"name\":\"find\",  \"arguments\": {\"a\":1} }\n</tool_call><|im_end|>"
      const { prompts, sample } = scripted(call, "on the mat<|im_end|>", "yes<|im_end|>")
      const first = yield* chat.ask(sample, "the cat?")
      assert.deepStrictEqual(first.message.toolCalls?.[0]?.name, "find")
      const second = yield* chat.reply(sample, first, { role: "tool", content: "mat", name: "find" })
      const third = yield* chat.reply(sample, second, "sure?")
      assert.strictEqual(third.text, "yes")
      for (const [i, { turn }] of [first, second].entries()) {
        const kept = [...turn.prompt, ...turn.completion]
        assert.deepStrictEqual(Array.from(prompts[i + 1] ?? []).slice(0, kept.length), kept)
      }
      assert.isTrue(Option.isNone(third.fork))
    }))

  it.effect("says why it wrote the prompt again", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.make(yield* Renderers.qwen3(chatml))
      const { prompts, sample } = scripted("<think>\nhm\n</think>\n\nsat<|im_end|>", "yes<|im_end|>", "cut")
      const first = yield* chat.ask(sample, "the cat?")
      const second = yield* chat.reply(sample, first, "sure?")
      assert.deepStrictEqual(Option.map(second.fork, ({ reason }) => reason), Option.some("HistoryRewritten"))
      assert.notInclude(chatml.decode(prompts[1] ?? []), "hm")
      const third = yield* chat.reply(sample, first, "sure?", { history: "sampled" })
      assert.isTrue(Option.isNone(third.fork))
      assert.include(chatml.decode(prompts[2] ?? []), "hm")
      assert.deepStrictEqual(Option.map(third.failure, ({ kind }) => kind), Option.some("structural"))
    }))

  it.effect("streams the same answer in parts", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.make(yield* Renderers.qwen3(chatml))
      const words = "<think>\nhm\n</think>\n\nsat on the mat<|im_end|>"
      const whole = yield* chat.ask(scripted(words).sample, "the cat?")
      const parts = Chunk.toReadonlyArray(yield* Stream.runCollect(chat.askStream(scripted(words).stream, "the cat?")))
      const last = parts.at(-1)
      assert.isTrue(last?._tag === "Answer")
      assert.deepStrictEqual(last?._tag === "Answer" ? last.answer : undefined, whole)
      assert.strictEqual(parts.map((part) => part._tag === "Text" ? part.text : "").join(""), "sat on the mat")
      assert.strictEqual(parts.map((part) => part._tag === "Thinking" ? part.thinking : "").join(""), "hm")
      const next = yield* Stream.runLast(chat.replyStream(scripted("yes<|im_end|>").stream, whole, "sure?"))
      assert.isTrue(Option.isSome(next) && next.value._tag === "Answer" && Option.isSome(next.value.answer.fork))
    }))

  it.effect("streams from a client that only returns whole sequences, in pieces that double", () =>
    Effect.gen(function*() {
      const words = "<think>\nhm\n</think>\n\nsat on the mat, and then on the other mat<|im_end|>"
      const reply = chatml.encode(words, { addSpecialTokens: false })
      const asked: Array<
        { readonly prompt: Int32Array; readonly maxTokens?: number | undefined; readonly seed?: number | undefined }
      > = []
      /** Goes on with the reply from wherever the prompt ends. */
      const client = (length: number): Chat.Sampler => ({
        sample: ({ maxTokens = Infinity, prompt, ...rest }) =>
          Effect.sync(() => {
            assert(prompt instanceof Int32Array)
            asked.push({ prompt, maxTokens, ...rest })
            const from = prompt.length - length
            const tokens = reply.slice(from, from + maxTokens)
            const stopReason = from + maxTokens < reply.length ? "length" : "stop"
            return { sequences: [{ tokens, logprobs: new Float32Array(tokens.length).fill(-0.5), stopReason }] }
          })
      })
      const chat = yield* Chat.make(yield* Renderers.qwen3(chatml))
      const whole = yield* chat.ask(scripted(words).sample, "the cat?")
      const sampler = client(whole.turn.prompt.length)
      const parts = Chunk.toReadonlyArray(
        yield* Stream.runCollect(chat.askStream(Chat.inPieces(sampler, { first: 2 }), "the cat?", { seed: 7 }))
      )
      const last = parts.at(-1)
      assert.deepStrictEqual(last?._tag === "Answer" ? last.answer : undefined, whole)
      assert.deepStrictEqual(asked.map(({ maxTokens }) => maxTokens), [2, 4, 8, 16, 32].slice(0, asked.length))
      assert.isAbove(asked.length, 2)
      assert.deepStrictEqual(asked.map(({ seed }) => seed), asked.map((_, i) => 7 + i))
      assert.deepStrictEqual(
        Array.from(asked[1]?.prompt ?? []),
        [...whole.turn.prompt, ...reply.slice(0, 2)]
      )
      // a limit is the sum of the pieces
      asked.length = 0
      const cut = yield* Stream.runLast(
        chat.askStream(Chat.inPieces(sampler, { first: 2 }), "the cat?", { maxTokens: 5 })
      )
      assert.deepStrictEqual(asked.map(({ maxTokens }) => maxTokens), [2, 3])
      assert.isTrue(
        Option.isSome(cut) && cut.value._tag === "Answer" &&
          Option.contains(cut.value.answer.stopReason, "length") && cut.value.answer.turn.completion.length === 5
      )
      // a format with stop strings is not cut where one could straddle
      asked.length = 0
      const colon = yield* Chat.make(yield* Renderers.roleColon(chatml))
      yield* Stream.runDrain(colon.askStream(Chat.inPieces(sampler), "the cat?", { maxTokens: 100 }))
      assert.deepStrictEqual(asked.map(({ maxTokens }) => maxTokens), [100])
    }))

  it.effect("makes examples of exchanges and conversations", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.make(yield* Renderers.qwen3Instruct(chatml), { system: "be terse" })
      const [one, two] = yield* chat.supervised([
        { user: "the cat?", assistant: "sat" },
        [Message.user("a?"), Message.assistant("b"), Message.user("c?"), Message.assistant("d")]
      ])
      const trained = (example: typeof one) =>
        chatml.decode(example?.tokens.filter((_, i) => example.weights[i] === 1) ?? [])
      assert.strictEqual(trained(one), "sat<|im_end|>")
      assert.strictEqual(trained(two), "d<|im_end|>")
    }))

  it.effect("finds tokenizer and renderer of a model, given its name or a client that knows it", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.forModel({ baseModel: Effect.succeed("local/tiny") })
      assert.strictEqual(chat.renderer.name, "role_colon")
      assert.strictEqual((yield* Chat.forModel("local/tiny", { renderer: "role_colon" })).renderer.name, "role_colon")
      const info = (modelData: { readonly modelName?: string }) => ({ getInfo: Effect.succeed({ modelData }) })
      assert.strictEqual((yield* Chat.forModel(info({ modelName: "local/tiny" }))).renderer.name, "role_colon")
      assert.include((yield* Effect.flip(Chat.forModel(info({})))).message, "give its name")
      const unknown = yield* Effect.flip(Chat.forModel("nobody/nothing"))
      assert.strictEqual(unknown._tag, "TokenizerNotFound")
    }).pipe(Effect.provide(
      Tokenizers.layer({ registry: { "local/tiny": Effect.succeed(chatml) } }).pipe(
        Layer.provide(
          TokenizerFiles.layerMemory({ "org/model": { "tokenizer.json": JSON.stringify(tiny.tokenizerJson) } })
        )
      )
    )))
})
