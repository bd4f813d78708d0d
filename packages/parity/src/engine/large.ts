/**
 * A directory with the shape of a real model: a hundred million random weights in 16 bits, loaded onto worker threads,
 * trained for a step and sampled from, with time and memory. It needs no Python.
 */
import { Engine, LocalCheckpoint, LocalModel, LocalTokenizer, Safetensors } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import { FileSystem, Path } from "@effect/platform"
import { Console, Duration, Effect } from "effect"
import { PythonFailed } from "../Suite.js"

// The shape of SmolLM2-135M with fewer layers, and an untied unembedding over our byte tokenizer's vocabulary.
const config = {
  model_type: "llama",
  architectures: ["LlamaForCausalLM"],
  vocab_size: 32_768,
  hidden_size: 576,
  intermediate_size: 1536,
  num_hidden_layers: 24,
  num_attention_heads: 9,
  num_key_value_heads: 3,
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: true,
  hidden_act: "silu",
  eos_token_id: LocalTokenizer.specialTokens["<|im_end|>"]
}

const shapes = (): ReadonlyArray<readonly [string, ReadonlyArray<number>]> => {
  const { hidden_size: width, intermediate_size: hidden, vocab_size: vocabulary } = config
  const keys = width / config.num_attention_heads * config.num_key_value_heads
  return [
    ["model.embed_tokens", [vocabulary, width]],
    ["model.norm", [width]],
    ...Array.from({ length: config.num_hidden_layers }, (_, i) => `model.layers.${i}`).flatMap((at) =>
      [
        [`${at}.input_layernorm`, [width]],
        [`${at}.post_attention_layernorm`, [width]],
        [`${at}.self_attn.q_proj`, [width, width]],
        [`${at}.self_attn.k_proj`, [keys, width]],
        [`${at}.self_attn.v_proj`, [keys, width]],
        [`${at}.self_attn.o_proj`, [width, width]],
        [`${at}.mlp.gate_proj`, [hidden, width]],
        [`${at}.mlp.up_proj`, [hidden, width]],
        [`${at}.mlp.down_proj`, [width, hidden]]
      ] as const
    )
  ]
}

/** Values a matrix of this width could have, the same every time. */
const values = (name: string, shape: ReadonlyArray<number>): Float32Array => {
  const count = shape.reduce((product, size) => product * size, 1)
  if (shape.length === 1) return new Float32Array(count).fill(1)
  const size = Math.sqrt(3 / (shape[1] ?? 1))
  let state = Array.from(name).reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) | 0, 1) >>> 0
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return (state / 2 ** 31 - 1) * size
  })
}

const seconds = (duration: Duration.Duration): string => `${Duration.toSeconds(duration).toFixed(1)} s`

const megabytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

export const largeModel = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* fs.makeTempDirectoryScoped()
  const tensors = shapes().map(([name, shape]) => ({ name: `${name}.weight`, shape, data: values(name, shape) }))
  yield* fs.writeFile(path.join(directory, "model.safetensors"), Safetensors.encode({ tensors, dtype: "BF16" }))
  yield* fs.writeFileString(path.join(directory, "config.json"), JSON.stringify(config))
  const { tokenizerConfig, tokenizerJson } = LocalTokenizer.huggingFaceFiles
  yield* fs.writeFileString(path.join(directory, "tokenizer.json"), JSON.stringify(tokenizerJson))
  yield* fs.writeFileString(path.join(directory, "tokenizer_config.json"), JSON.stringify(tokenizerConfig))

  const before = process.memoryUsage().rss
  const model = yield* LocalCheckpoint.fromDirectory(directory, { name: "random/100m" })
  yield* Effect.gen(function*() {
    const engine = yield* Engine.Engine
    const [loading] = yield* Effect.timed(engine.load(model.name))
    const loaded = process.memoryUsage().rss - before
    yield* Console.log(
      `${
        (LocalModel.parameterCount(model) / 1e6).toFixed(0)
      } million parameters on ${engine.threads} thread(s): loaded in ${seconds(loading)}, ${megabytes(loaded)}`
    )
    const adapter = yield* engine.createAdapter({ baseModel: model.name, rank: 16, seed: 1 })
    const data = Array.from({ length: 4 }, (_, index) => {
      const tokens = Int32Array.from({ length: 129 }, (_, i) => (i * 37 + index * 91) % 256)
      return { tokens: tokens.slice(0, -1), lossInputs: { target_tokens: { data: tokens.slice(1), shape: [128] } } }
    })
    const pass = adapter.forwardBackward({ data, loss: "cross_entropy" })
    const [took, first] = yield* Effect.timed(pass)
    const [stepped] = yield* Effect.timed(adapter.optimStep({ learningRate: 1e-4 }))
    const second = yield* adapter.forwardBackward({ data, loss: "cross_entropy", forwardOnly: true })
    yield* Console.log(
      `a step of 4 x 128 tokens, rank 16: passes ${seconds(took)}, optimizer ${seconds(stepped)}; loss ${
        (first.metrics["loss:sum"] ?? NaN).toFixed(1)
      }, then ${(second.metrics["loss:sum"] ?? NaN).toFixed(1)}`
    )
    const sampler = yield* engine.sampler(yield* adapter.snapshot({ optimizer: false }))
    const [sampling, { sequences }] = yield* Effect.timed(
      sampler.sample({
        prompt: Array.from({ length: 64 }, (_, i) => i),
        numSamples: 4,
        params: { maxTokens: 32, seed: 1, stop: [] }
      })
    )
    const drawn = sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
    yield* Console.log(
      `${drawn} tokens in 4 samples: ${seconds(sampling)}; ${megabytes(process.memoryUsage().rss - before)} in all`
    )
  }).pipe(Effect.provide(NodeEngine.layer({ models: [model] })))
}).pipe(
  Effect.scoped,
  Effect.catchTags({
    BadArgument: (error) => new PythonFailed({ program: "engine large", reason: error.message }),
    SystemError: (error) => new PythonFailed({ program: "engine large", reason: error.message })
  })
)
