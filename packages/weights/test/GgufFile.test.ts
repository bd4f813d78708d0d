import { Gguf, GgufFile, Safetensors } from "@effect-tinker/weights"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import { formats } from "../src/internal/ggufBlocks.js"
import * as format from "../src/internal/ggufFormat.js"
import type { MetadataValue } from "../src/internal/ggufReader.js"
import { parseHeader } from "../src/internal/ggufReader.js"
import { fromMetadata } from "../src/internal/ggufTokenizerReader.js"
import * as fixtures from "./fixtures.js"
// Blocks of random bytes, and the values that gguf-py makes of them.
import blocks from "./gguf-blocks.json" with { type: "json" }

const bytesOf = (base64: string): Uint8Array => new Uint8Array(Buffer.from(base64, "base64"))

const padded = (bytes: Uint8Array): Uint8Array => {
  const whole = new Uint8Array(bytes.length + format.padding(bytes.length))
  whole.set(bytes)
  return whole
}

/** A file with one tensor of plain floats. */
const small = (name = "a", values = 8): Uint8Array =>
  new Uint8Array(Buffer.concat([
    format.encodeHeader({
      "general.architecture": format.string("llama"),
      "tokenizer.ggml.tokens": { type: "strings", value: ["x", "y", "z"] },
      "tokenizer.ggml.token_type": { type: "i32s", value: [1, 1, 3] }
    }, [{ name, type: "F32", shape: [values / 4, 4] }]),
    padded(new Uint8Array(values * 4))
  ]))

/** Writes bytes to a file and opens it. */
const opened = Effect.fnUntraced(function*(bytes: Uint8Array) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* fs.makeTempFileScoped({ suffix: ".gguf" })
  yield* fs.writeFile(path, bytes)
  return yield* GgufFile.open(path)
})

const refusal = (bytes: Uint8Array) => Effect.map(Effect.flip(opened(bytes)), (error) => error.message)

describe("GgufFile", () => {
  it("every format has the values of gguf-py, bit for bit", () => {
    for (const [name, { bytes, floats, type }] of Object.entries(blocks)) {
      const expected = new Float32Array(bytesOf(floats).buffer)
      const found = formats.get(type)
      assert.strictEqual(found?.name, name)
      const values = new Float32Array(expected.length)
      found?.decode(bytesOf(bytes), values)
      assert.deepStrictEqual(values, expected, name)
    }
  })

  it.scoped("reads what was written: configuration, tokenizer and rows of tensors", () =>
    Effect.gen(function*() {
      const model = yield* fixtures.qwen3(1)
      const path = yield* Gguf.writeModel({ ...model, output: model.at("model.gguf"), format: "f32", name: "tiny" })
      const file = yield* GgufFile.open(path)
      assert.strictEqual(file.metadata.get("general.name"), "tiny")
      const name = GgufFile.tensorName("qwen3", "model.layers.1.mlp.down_proj.weight") ?? ""
      const info = file.tensors.get(name)
      assert.deepStrictEqual(info?.shape, [fixtures.hidden, fixtures.inner])
      assert.strictEqual(info?.format, "F32")
      const all = yield* file.floats(name, 0, fixtures.hidden)
      const two = yield* file.floats(name, 3, 2)
      assert.deepStrictEqual(two, all.slice(3 * fixtures.inner, 5 * fixtures.inner))
      assert.include((yield* Effect.flip(file.floats(name, fixtures.hidden, 1))).message, "has only 32 rows")
      const tokenizer = yield* file.tokenizer
      assert.strictEqual(tokenizer.chatTemplate, "{{ messages }}")
      assert.isString(tokenizer.tokenizerConfig["eos_token"])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("refuses headers that are damaged or claim what the file does not have", () =>
    Effect.gen(function*() {
      assert.include(yield* refusal(new TextEncoder().encode("GGML, not GGUF at all, and long enough")), "not a GGUF")
      assert.include(yield* refusal(small().slice(0, 100)), "beyond the end")
      assert.include(yield* refusal(small().slice(0, -8)), "a ends beyond the end of the file")
      const version = small()
      new DataView(version.buffer).setUint32(4, 1, true)
      assert.include(yield* refusal(version), "version 1 is not supported")
      const count = small()
      new DataView(count.buffer).setBigUint64(8, 2n ** 60n, true)
      assert.include(yield* refusal(count), "the number of tensors is")
      const two = Buffer.concat([
        format.encodeHeader({}, [
          { name: "a", type: "F32", shape: [8] },
          { name: "b", type: "F32", shape: [8] }
        ]),
        new Uint8Array(64)
      ])
      // the second offset, eight bytes before the padding's end, made that of the first
      const at = two.lastIndexOf(Buffer.from([32, 0, 0, 0, 0, 0, 0, 0]))
      two.writeUInt8(0, at)
      assert.include(yield* refusal(new Uint8Array(two)), "b overlaps another tensor")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.effect("a vocabulary of scores becomes merges: the best result first, then the one whose left part comes first", () =>
    Effect.gen(function*() {
      const metadata = new Map<string, MetadataValue>([
        ["tokenizer.ggml.model", "llama"],
        ["tokenizer.ggml.tokens", ["<unk>", "<s>", "a", "b", "c", "ab", "bc", "abc", "<0x41>", "a<"]],
        ["tokenizer.ggml.token_type", [2, 3, 1, 1, 1, 1, 1, 1, 6, 4]],
        ["tokenizer.ggml.scores", [0, 0, -1, -2, -3, -5, -4, -6, 0, 0]],
        ["tokenizer.ggml.bos_token_id", 1],
        ["tokenizer.ggml.unknown_token_id", 0],
        ["tokenizer.ggml.add_bos_token", true]
      ])
      const read = (more: ReadonlyArray<readonly [string, MetadataValue]> = []) =>
        fromMetadata("file", new Map([...metadata, ...more]))
      const { tokenizerConfig, tokenizerJson } = yield* read()
      const json = JSON.parse(JSON.stringify(tokenizerJson))
      // bc at -4, ab at -5, abc at -6: of its two ways a (2) is before ab (5)
      assert.deepStrictEqual(json.model.merges, [["b", "c"], ["a", "b"], ["a", "bc"], ["ab", "c"]])
      assert.deepInclude(json.model, { unk_token: "<unk>", byte_fallback: true, fuse_unk: true })
      assert.strictEqual(json.model.vocab["abc"], 7)
      const added: ReadonlyArray<{ readonly id: number; readonly content: string; readonly special: boolean }> =
        json.added_tokens
      assert.deepStrictEqual(added.map(({ content, id, special }) => [id, content, special]), [
        [1, "<s>", true],
        [9, "a<", false]
      ])
      assert.deepStrictEqual(tokenizerConfig, {
        bos_token: "<s>",
        eos_token: null,
        pad_token: null,
        unk_token: "<unk>",
        add_bos_token: true
      })
      // A space stands before every text, unless the file says otherwise.
      assert.strictEqual(json.normalizer.normalizers[0].prepend, "▁")
      assert.strictEqual(json.decoder.decoders.length, 4)
      const plain = JSON.parse(
        JSON.stringify((yield* read([["tokenizer.ggml.add_space_prefix", false]])).tokenizerJson)
      )
      assert.strictEqual(plain.normalizer.type, "Replace")
      assert.strictEqual(plain.decoder.decoders.length, 3)
      for (
        const [key, value, message] of [
          ["tokenizer.ggml.scores", "none", "the vocabulary has no scores"],
          ["tokenizer.ggml.tokens", [1], "the file has no vocabulary"],
          ["tokenizer.ggml.model", "t5", "tokenizers of the kind \"t5\" are not supported"]
        ] as const
      ) {
        assert.include((yield* Effect.flip(read([[key, value]]))).message, message)
      }
    }))

  it.scoped("data begin at a multiple of the alignment, which is a power of two from 8 to 4096", () =>
    Effect.gen(function*() {
      const values = Float32Array.from({ length: 8 }, (_, i) => i + 1)
      const aligned = (alignment: number) => {
        const header = format.encodeHeader(
          { "general.alignment": format.u32(alignment) },
          [{ name: "a", type: "F32", shape: [2, 4] }]
        )
        // It is padded to 32 already, whatever it says.
        const start = Math.ceil(header.length / Math.max(alignment, 1)) * Math.max(alignment, 1)
        const bytes = new Uint8Array(start + 32)
        bytes.set(header)
        bytes.set(new Uint8Array(values.buffer), start)
        return bytes
      }
      for (const alignment of [4096, 2048, 64]) {
        const file = yield* opened(aligned(alignment))
        assert.deepStrictEqual(yield* file.floats("a", 0, 2), values, String(alignment))
      }
      for (const alignment of [8192, 4, 0, 96]) {
        assert.include(
          yield* refusal(aligned(alignment)),
          "expected a power of two from 8 to 4096"
        )
      }
    }).pipe(Effect.provide(NodeContext.layer)))

  it("10,000 mutated headers: each is read or refused, and none makes room for more than the file holds", () => {
    const original = small()
    const next = fixtures.numbers(42)
    const integer = (below: number): number => Math.floor((next() * 5 + 0.5) * below) % below
    let refused = 0
    for (let round = 0; round < 10_000; round++) {
      const bytes = original.slice(0, integer(4) === 0 ? integer(original.length) + 1 : original.length)
      const view = new DataView(bytes.buffer)
      for (let change = 0; change <= integer(3); change++) {
        const at = integer(bytes.length)
        if (integer(2) === 0 || at + 8 > bytes.length) bytes[at] = integer(256)
        else view.setBigUint64(at, [2n ** 63n, 2n ** 32n - 1n, 2n ** 53n, 1n, 0n][integer(5)] ?? 0n, true)
      }
      const header = parseHeader(bytes, bytes.length)
      if (Either.isLeft(header)) refused++
      else if (typeof header.right === "number") assert.fail("the whole file was given")
      else {
        const { metadata, tensors } = header.right
        assert.isAtMost(metadata.size + tensors.length, bytes.length)
        for (const value of metadata.values()) {
          if (typeof value === "object" || typeof value === "string") assert.isAtMost(value.length, bytes.length)
        }
      }
    }
    assert.isAbove(refused, 1000)
  })

  it.effect("10,000 mutated safetensors headers: each is read or refused", () =>
    Effect.gen(function*() {
      const original = fixtures.safetensors({ a: fixtures.random(1, 4, 8), b: fixtures.random(2, 8) })
      const next = fixtures.numbers(43)
      const integer = (below: number): number => Math.floor((next() * 5 + 0.5) * below) % below
      const headerBytes = original.length - 4 * 40
      let refused = 0
      for (let round = 0; round < 10_000; round++) {
        const bytes = original.slice(0, integer(8) === 0 ? integer(original.length) + 1 : original.length)
        for (let change = 0; change <= integer(4); change++) {
          bytes[integer(Math.min(headerBytes, bytes.length))] = integer(3) === 0 ? integer(256) : 48 + integer(10)
        }
        const result = yield* Safetensors.open("mutated").pipe(
          Effect.scoped,
          Effect.either,
          Effect.provideService(FileSystem.FileSystem, fixtures.inMemory(bytes))
        )
        if (Either.isLeft(result)) refused++
        else assert.isAtMost(result.right.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0), bytes.length)
      }
      assert.isAbove(refused, 1000)
    }))
})
