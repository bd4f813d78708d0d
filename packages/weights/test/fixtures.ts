/** Small random models and adapters on disk. */
import { Safetensors, SafetensorsHeader } from "@effect-tinker/weights"
import { FileSystem, Path } from "@effect/platform"
import type { Scope } from "effect"
import { Effect, Option } from "effect"

/** A generator of numbers that is the same everywhere: tests must not depend on chance. */
export const numbers = (seed: number) => {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state / 2 ** 32 - 0.5) * 0.2
  }
}

export interface Tensor {
  readonly shape: ReadonlyArray<number>
  readonly values: Float32Array
}

export const random = (seed: number, ...shape: ReadonlyArray<number>): Tensor => {
  const next = numbers(seed)
  return { shape, values: Float32Array.from({ length: SafetensorsHeader.elements(shape) }, next) }
}

export const safetensors = (tensors: Readonly<Record<string, Tensor>>): Uint8Array => {
  const names = Object.keys(tensors)
  const header = SafetensorsHeader.encode(
    names.map((name) => ({ name, dtype: "F32", shape: tensors[name]?.shape ?? [] }))
  )
  const parts = [header, ...names.map((name) => new Uint8Array(tensors[name]?.values.buffer ?? new ArrayBuffer(0)))]
  return new Uint8Array(Buffer.concat(parts))
}

export const write = Effect.fnUntraced(function*(
  directory: string,
  contents: Readonly<Record<string, string | Uint8Array>>
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  yield* fs.makeDirectory(directory, { recursive: true })
  for (const [name, content] of Object.entries(contents)) {
    yield* typeof content === "string"
      ? fs.writeFileString(path.join(directory, name), content)
      : fs.writeFile(path.join(directory, name), content)
  }
})

/** A file system whose every file has these bytes. */
export const inMemory = (bytes: Uint8Array): FileSystem.FileSystem => {
  let at = 0
  const file: Pick<FileSystem.File, "stat" | "seek" | "read"> = {
    stat: Effect.succeed({
      type: "File",
      size: FileSystem.Size(bytes.length),
      mtime: Option.none(),
      atime: Option.none(),
      birthtime: Option.none(),
      dev: 0,
      ino: Option.none(),
      mode: 0o600,
      nlink: Option.none(),
      uid: Option.none(),
      gid: Option.none(),
      rdev: Option.none(),
      blksize: Option.none(),
      blocks: Option.none()
    }),
    seek: (offset) =>
      Effect.sync(() => {
        at = Number(offset)
      }),
    read: (buffer) =>
      Effect.sync(() => {
        const part = bytes.subarray(at, at + buffer.length)
        buffer.set(part)
        at += part.length
        return FileSystem.Size(part.length)
      })
  }
  return FileSystem.makeNoop({ open: () => Effect.succeed(Object.assign(Object.create(null), file)) })
}

export const hidden = 32
export const inner = 64
export const vocabulary = 96
export const rank = 4
export const alpha = 8

/** What can differ from model to model. */
export interface Shape {
  /** Whether the output head has its own weight. Defaults to true. */
  readonly head?: boolean
  readonly layers?: number
  readonly hidden?: number
  readonly inner?: number
  /** Number of files. */
  readonly shards?: number
}

/** The weights of a dense model, and of an adapter for all of them. */
export const dense = (seed: number, shape: Shape) => {
  const { head = true, hidden = 32, inner = 64, layers = 2 } = shape
  const weights: Record<string, Tensor> = {}
  const adapter: Record<string, Tensor> = {}
  let next = seed * 1000
  const weight = (name: string, ...shape: ReadonlyArray<number>) => {
    weights[name] = random(next++, ...shape)
  }
  const lora = (name: string, outputs: number, inputs: number) => {
    adapter[`base_model.model.${name}.lora_A.weight`] = random(next++, rank, inputs)
    adapter[`base_model.model.${name}.lora_B.weight`] = random(next++, outputs, rank)
  }
  weight("model.embed_tokens.weight", vocabulary, hidden)
  weight("model.norm.weight", hidden)
  if (head) weight("lm_head.weight", vocabulary, hidden)
  lora("model.unembed_tokens", vocabulary, hidden)
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`
    for (const name of ["input_layernorm", "post_attention_layernorm"]) weight(`${at}.${name}.weight`, hidden)
    for (const name of ["q_norm", "k_norm"]) weight(`${at}.self_attn.${name}.weight`, 16)
    for (
      const [name, outputs, inputs] of [
        ["self_attn.q_proj", 32, hidden],
        ["self_attn.k_proj", 16, hidden],
        ["self_attn.v_proj", 16, hidden],
        ["self_attn.o_proj", hidden, 32],
        ["mlp.gate_proj", inner, hidden],
        ["mlp.up_proj", inner, hidden],
        ["mlp.down_proj", hidden, inner]
      ] as const
    ) {
      weight(`${at}.${name}.weight`, outputs, inputs)
      lora(`${at}.${name}`, outputs, inputs)
    }
  }
  return { weights, adapter }
}

export const qwen3Config = (shape: Shape) => ({
  model_type: "qwen3",
  architectures: ["Qwen3ForCausalLM"],
  hidden_size: shape.hidden ?? hidden,
  intermediate_size: shape.inner ?? inner,
  num_hidden_layers: shape.layers ?? 2,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  head_dim: 16,
  max_position_embeddings: 128,
  rms_norm_eps: 1e-6,
  rope_theta: 10_000,
  vocab_size: vocabulary
})

const alphabet = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i))

/** A vocabulary of single characters: enough for a file to be complete. */
export const tokenizerJson = JSON.stringify({
  model: {
    type: "BPE",
    vocab: Object.fromEntries(alphabet.map((token, i) => [token, i])),
    merges: [["a", "b"]]
  },
  added_tokens: [{ id: 94, content: "<|im_end|>", special: true }],
  pre_tokenizer: {
    type: "Sequence",
    pretokenizers: [
      {
        type: "Split",
        pattern: {
          Regex:
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
        },
        behavior: "Isolated"
      },
      { type: "ByteLevel", use_regex: false }
    ]
  }
})

export interface Written {
  readonly base: string
  readonly adapter: string
  readonly weights: Readonly<Record<string, Tensor>>
  readonly matrices: Readonly<Record<string, Tensor>>
  readonly at: (name: string) => string
}

/** A model in two files or more, and its adapter, in a temporary directory. */
export const qwen3: (
  seed: number,
  shape?: Shape
) => Effect.Effect<
  Written,
  Effect.Effect.Error<ReturnType<typeof write>>,
  FileSystem.FileSystem | Path.Path | Scope.Scope
> = Effect.fnUntraced(function*(seed, shape = {}) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* fs.makeTempDirectoryScoped()
  const at = (name: string) => path.join(directory, name)
  const { adapter, weights } = dense(seed, shape)
  const names = Object.keys(weights)
  const count = shape.shards ?? 2
  const size = Math.ceil(names.length / count)
  const number = (n: number) => String(n).padStart(5, "0")
  const shards = Object.fromEntries(
    Array.from({ length: count }, (_, i) => [
      `model-${number(i + 1)}-of-${number(count)}.safetensors`,
      names.slice(i * size, (i + 1) * size)
    ])
  )
  const pick = (own: ReadonlyArray<string>) =>
    Object.fromEntries(own.flatMap((name) => weights[name] === undefined ? [] : [[name, weights[name]]]))
  yield* write(at("base"), {
    "config.json": JSON.stringify({ ...qwen3Config(shape), tie_word_embeddings: shape.head === false }),
    "tokenizer.json": tokenizerJson,
    "tokenizer_config.json": JSON.stringify({ eos_token: "<|im_end|>" }),
    "chat_template.jinja": "{{ messages }}",
    ...Object.fromEntries(Object.entries(shards).map(([file, own]) => [file, safetensors(pick(own))])),
    "model.safetensors.index.json": JSON.stringify({
      weight_map: Object.fromEntries(Object.entries(shards).flatMap(([file, own]) => own.map((name) => [name, file])))
    })
  })
  yield* write(at("adapter"), {
    "adapter_config.json": JSON.stringify({ r: rank, lora_alpha: alpha }),
    "adapter_model.safetensors": safetensors(adapter)
  })
  return { base: at("base"), adapter: at("adapter"), weights, matrices: adapter, at }
})

/** `W + alpha/rank · B · A` in double precision. */
export const merged = (weight: Tensor, a: Tensor, b: Tensor): Float64Array => {
  const [outputs = 0, inputs = 0] = weight.shape
  const out = Float64Array.from(weight.values)
  for (let o = 0; o < outputs; o++) {
    for (let i = 0; i < inputs; i++) {
      for (let k = 0; k < rank; k++) {
        const product = (b.values[o * rank + k] ?? 0) * (a.values[k * inputs + i] ?? 0)
        out[o * inputs + i] = (out[o * inputs + i] ?? 0) + (alpha / rank) * product
      }
    }
  }
  return out
}

/** All tensors of a model directory as float32. */
export const read = Effect.fnUntraced(function*(directory: string) {
  const path = yield* Path.Path
  const all = new Map<string, Float32Array>()
  for (const shard of yield* Safetensors.shardNames(directory)) {
    const file = yield* Safetensors.open(path.join(directory, shard))
    for (const { bytes, name, start } of file.tensors) {
      all.set(name, new Float32Array((yield* file.read(start, bytes)).buffer))
    }
  }
  return all
})
