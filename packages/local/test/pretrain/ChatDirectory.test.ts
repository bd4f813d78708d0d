import { ChatTemplate, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Schema } from "effect"
import { createHash } from "node:crypto"
import { fileURLToPath } from "node:url"
import { Source } from "../../pretrain/world/Source.js"

const directory = fileURLToPath(new URL("../../models/chat/", import.meta.url))
const heldOut = fileURLToPath(new URL("../fixtures/chat-held-out.jsonl", import.meta.url))

const read = (name: string) => Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(directory + name))

const parsed = (name: string) => Effect.map(read(name), (text): unknown => JSON.parse(text))

const tokenizer = Effect.gen(function*() {
  return yield* Tokenizer.fromHuggingFace({
    id: "local/chat",
    tokenizerJson: yield* parsed("tokenizer.json"),
    tokenizerConfig: yield* parsed("tokenizer_config.json"),
    chatTemplates: { default: yield* read("chat_template.jinja") }
  })
})

const Call = Schema.Struct({
  name: Schema.String,
  arguments: Schema.Record({ key: Schema.String, value: Schema.Unknown })
})

const Prompt = Schema.parseJson(Schema.Struct({
  skill: Schema.String,
  system: Schema.optional(Schema.String),
  tools: Schema.optional(Schema.Array(Schema.Unknown)),
  messages: Schema.Array(Schema.Struct({
    role: Schema.String,
    content: Schema.String,
    reasoning: Schema.optional(Schema.String),
    toolCalls: Schema.optional(Schema.Array(Call))
  })),
  prompt: Schema.String,
  answer: Schema.String
}))

const specials = [
  "<|endoftext|>",
  "<|im_start|>",
  "<|im_end|>",
  "<think>",
  "</think>",
  "<tools>",
  "</tools>",
  "<tool_call>",
  "</tool_call>",
  "<tool_response>",
  "</tool_response>"
]

describe("models/chat", () => {
  it.effect("has its special tokens first, and the ones that end and pad named", () =>
    Effect.gen(function*() {
      const tokens = yield* tokenizer
      assert.deepStrictEqual(specials.map((_, id) => Option.getOrNull(tokens.idToToken(id))), specials)
      assert.deepStrictEqual(tokens.specialTokens.eos, Option.some("<|im_end|>"))
      assert.deepStrictEqual(tokens.specialTokens.pad, Option.some("<|endoftext|>"))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("gives every digit, and a made-up word wherever it stands, the same tokens", () =>
    Effect.gen(function*() {
      const tokens = yield* tokenizer
      assert.strictEqual(tokens.encode("1234567890").length, 10)
      const source = new Source(5, "held-out")
      const bare = (text: string) => Array.from(tokens.encode(text))
      let moved = 0
      for (let i = 0; i < 500; i++) {
        const word = source.word()
        if (!bare(` ${word}.`).join().includes(bare(word).join())) moved++
        assert.isTrue(bare(`"${word}"`).join().includes(bare(word).join()), word)
      }
      // A few begin with a word that is common enough to have a form with the space.
      assert.isBelow(moved, 25)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("renders every held-out prompt with its template as the world wrote it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const template = yield* ChatTemplate.compile(yield* read("chat_template.jinja"))
      const lines = (yield* fs.readFileString(heldOut)).trimEnd().split("\n")
      assert.strictEqual(lines.length, 1000)
      for (const line of lines) {
        const { messages, prompt, system, tools } = yield* Schema.decode(Prompt)(line)
        const text = yield* template.render(
          [
            ...(system === undefined ? [] : [{ role: "system", content: system }]),
            ...messages.map(({ content, reasoning, role, toolCalls }) => ({
              role,
              content,
              ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
              ...(toolCalls === undefined
                ? {}
                : { tool_calls: toolCalls.map((call) => ({ type: "function", function: call })) })
            }))
          ],
          { tools: tools?.map((tool) => ({ type: "function", function: tool })), addGenerationPrompt: true }
        )
        assert.strictEqual(text, prompt)
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("is what its record says, in at most 6 MiB", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const record = yield* Schema.decode(Schema.parseJson(Schema.Struct({
        sha256: Schema.Record({ key: Schema.String, value: Schema.String })
      })))(yield* read("record.json"))
      for (const [name, expected] of Object.entries(record.sha256)) {
        const bytes = yield* fs.readFile(directory + name)
        assert.strictEqual(createHash("sha256").update(bytes).digest("hex"), expected, name)
      }
      const sizes = yield* Effect.forEach(yield* fs.readDirectory(directory), (name) =>
        Effect.map(fs.stat(directory + name), ({ size }) => Number(size)))
      assert.isAtMost(
        sizes.reduce((sum, size) =>
          sum + size, 0),
        6 * 2 ** 20
      )
    }).pipe(Effect.provide(NodeContext.layer)))
})
