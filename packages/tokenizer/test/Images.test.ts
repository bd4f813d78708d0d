/**
 * Images in messages: their slots in the ids, and the chunks they become.
 */
import { Chat, Message, Renderer, Renderers } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Stream } from "effect"
import { Refusal } from "../src/internal/renderer/format.js"
import { imageFile, inklingImageTokens, kimiImageTokens, qwenImageTokens } from "../src/internal/renderer/images.js"
import { chatml, llamaLike, withTokens } from "./support/synthetic.js"

/** The beginning of a PNG, which says how large it is. */
const png = (width: number, height: number): Message.ImagePart => {
  const bytes = new Uint8Array(33)
  bytes.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52])
  const view = new DataView(bytes.buffer)
  view.setUint32(16, width)
  view.setUint32(20, height)
  return Message.image(bytes, "png")
}

/** A JPEG's comment, a table, and the segment with its size. */
const jpeg = (width: number, height: number): Message.ImagePart =>
  Message.image(
    Uint8Array.from([
      ...[0xff, 0xd8],
      ...[0xff, 0xfe, 0, 4, 0xff, 0xc0],
      ...[0xff, 0xc4, 0, 3, 0],
      ...[0xff, 0xff, 0xc2, 0, 11, 8, height >> 8, height & 255, width >> 8, width & 255, 1, 0, 0, 0]
    ]),
    "jpeg"
  )

const seeing = withTokens(["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"])

const renderer = Effect.runSync(Renderers.qwen3Vl(seeing, { imageTokens: ({ height, width }) => width + height }))

const shown: ReadonlyArray<Message.Message> = [
  Message.system("be terse"),
  Message.user([{ type: "text", text: "what is " }, png(2, 3), { type: "text", text: " and " }, jpeg(1, 1)])
]

describe("images", () => {
  it("have the size that their file says", () => {
    for (const part of [png(640, 480), jpeg(640, 480)]) {
      const file = imageFile(part)
      assert.deepStrictEqual(file instanceof Refusal ? file : file.size, { width: 640, height: 480 })
    }
  })

  it("take as many tokens as the models' processors say", () => {
    const qwen = [[640, 480, 300], [16, 50, 75], [7000, 5000, 16_308], [80, 48, 77], [3, 1, 70]]
    for (const [width = 0, height = 0, count] of qwen) assert.strictEqual(qwenImageTokens({ width, height }), count)
    const inkling = [[64, 64, 4], [100, 40, 3], [640, 480, 204], [33, 900, 23], [2000, 1500, 1938], [3000, 2500, 4788]]
    for (const [width = 0, height = 0, count] of inkling) {
      assert.strictEqual(inklingImageTokens({ width, height }), count)
    }
    const kimi = [[28, 28, 1], [29, 28, 2], [1, 1, 1], [2800, 1400, 4186]]
    for (const [width = 0, height = 0, count] of kimi) assert.strictEqual(kimiImageTokens({ width, height }), count)
    assert.instanceOf(qwenImageTokens({ width: 10_000, height: 10 }), Refusal)
  })

  it.effect("stand in the ids as slots, and in the chunks as themselves", () =>
    Effect.gen(function*() {
      const ids = yield* renderer.generationPrompt(shown)
      assert.strictEqual(ids.filter((id) => id === Renderer.imageSlot).length, 5 + 2)
      const chunks = yield* Renderer.chunks(shown, ids)
      assert.deepStrictEqual(
        chunks.map((chunk) => chunk.type === "image" ? [chunk.format, chunk.expectedTokens] : chunk.type),
        ["encoded_text", ["png", 5], "encoded_text", ["jpeg", 2], "encoded_text"]
      )
      const texts = chunks.map((chunk) => chunk.type === "image" ? "" : seeing.decode(chunk.tokens))
      assert.isTrue(texts[0]?.endsWith("what is <|vision_start|>"))
      assert.strictEqual(texts[2], "<|vision_end|> and <|vision_start|>")
    }))

  it.effect("count in examples and in continued prompts", () =>
    Effect.gen(function*() {
      const answer = Message.assistant("a cat")
      const { tokens, weights } = yield* renderer.supervised([...shown, answer])
      assert.strictEqual(tokens.length, weights.length)
      assert.isTrue(tokens.every((id, i) => id !== Renderer.imageSlot || weights[i] === 0))
      const prompt = yield* renderer.generationPrompt(shown)
      const turn = { messages: shown, prompt, completion: tokens.slice(prompt.length) }
      const fresh = [Message.user([png(4, 4)])]
      const next = Either.getOrThrow(renderer.continue(turn, fresh))
      assert.deepStrictEqual(
        Array.from(next),
        Array.from(yield* renderer.generationPrompt([...shown, answer, ...fresh]))
      )
      assert.strictEqual((yield* Renderer.chunks([...shown, answer, ...fresh], next)).length, 7)
    }))

  it.effect("are refused where they would be lost", () =>
    Effect.gen(function*() {
      const messages = [Message.user([png(1, 1)])]
      const without = yield* Renderers.llama3(llamaLike)
      assert.isFalse(without.images)
      assert.include((yield* Effect.flip(without.generationPrompt(messages))).message, "no images")
      const template = yield* Renderers.forModel("somebody/else", chatml)
      assert.include((yield* Effect.flip(template.generationPrompt(messages))).message, "image")
      const answer: Message.Message = { role: "assistant", content: [png(1, 1)] }
      assert.include((yield* Effect.flip(renderer.generationPrompt([...messages, answer]))).message, "assistant")
      const unknown = yield* Renderers.nemotron3Ultra(seeing)
      assert.include((yield* Effect.flip(unknown.generationPrompt(messages))).message, "imageTokens")
      for (const image of ["https://example.com/cat.png", "data:image/png;base64,%%%", "data:image/png;base64,AAAA"]) {
        const bad = [Message.user([{ type: "image", image }])]
        assert.strictEqual((yield* Effect.flip(renderer.generationPrompt(bad)))._tag, "RenderFailed")
      }
    }))

  it.effect("must be those of the messages", () =>
    Effect.gen(function*() {
      const ids = yield* renderer.generationPrompt(shown)
      assert.isTrue(Either.isLeft(Renderer.chunks([Message.user("none")], ids)))
      assert.isTrue(Either.isLeft(Renderer.chunks([...shown, ...shown], ids)))
      assert.strictEqual((yield* Renderer.chunks([Message.user("none")], Int32Array.of(1, 2))).length, 1)
    }))

  it.effect("reach a sampler as chunks, and text as ids", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.make(renderer)
      const [stop] = renderer.stop
      const drawn = Effect.succeed({ sequences: [{ tokens: [Number(stop)] }] })
      const types: Array<string> = []
      yield* chat.ask((_, __, chunks) => {
        types.push(...chunks.map(({ type }) => type))
        return drawn
      }, shown)
      assert.deepStrictEqual(types, ["encoded_text", "image", "encoded_text", "image", "encoded_text"])
      const prompts: Array<Int32Array | ReadonlyArray<Renderer.Chunk>> = []
      const client: Chat.Sampler = {
        sample: ({ prompt }) => {
          prompts.push(prompt)
          return drawn
        }
      }
      const { turn } = yield* chat.ask(client, "no image")
      assert.strictEqual(prompts[0], turn.prompt)
      const answer = yield* chat.ask(client, shown)
      assert.deepStrictEqual(prompts[1], yield* Renderer.chunks(answer.turn.messages, answer.turn.prompt))
      // images stay in their places when the conversation continues, and between pieces of a streamed answer
      const next = yield* chat.reply(client, answer, Message.user([png(1, 1)]))
      assert.deepStrictEqual(prompts[2], yield* Renderer.chunks(next.turn.messages, next.turn.prompt))
      const pieces = Chat.inPieces({
        sample: ({ prompt }) => {
          prompts.push(prompt)
          return Effect.succeed({
            sequences: [{ tokens: [prompts.length > 4 ? Number(stop) : 5], stopReason: "length" }]
          })
        }
      }, { first: 1 })
      yield* Stream.runDrain(chat.askStream(pieces, shown))
      const chunks = yield* Renderer.chunks(answer.turn.messages, answer.turn.prompt)
      assert.deepStrictEqual(prompts.slice(3, 5), [
        chunks,
        [...chunks, { type: "encoded_text", tokens: Int32Array.of(5) }]
      ])
    }))
})
