import { Engine, LocalModel, LocalServer, PeftAdapter, Safetensors, TinkerLocal } from "@effect-tinker/local"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SamplingClient, TrainingClient } from "effect-tinker"

const { tiny } = LocalModel
const rank = 2

const matrix = (seed: number, ...shape: ReadonlyArray<number>) => ({
  shape,
  data: Float32Array.from({ length: shape.reduce((size, n) => size * n, 1) }, (_, i) => Math.sin(seed + i * 0.7) * 0.2)
})

/** An adapter for the queries and values of the first layer, and nothing else. */
const factors = [
  { name: "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", ...matrix(1, rank, tiny.width) },
  { name: "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", ...matrix(2, tiny.width, rank) },
  { name: "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight", ...matrix(3, rank, tiny.width) },
  { name: "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight", ...matrix(4, tiny.width, rank) }
]

const config = { peft_type: "LORA", r: rank, lora_alpha: 4, target_modules: ["q_proj", "v_proj"], bias: "none" }

const directory = Effect.fnUntraced(function*(
  settings: object = config,
  tensors: ReadonlyArray<Safetensors.Tensor> = factors
) {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped()
  yield* fs.writeFileString(`${root}/adapter_config.json`, JSON.stringify(settings))
  yield* fs.writeFile(`${root}/adapter_model.safetensors`, Safetensors.encode({ tensors }))
  return root
})

const prompt = [72, 101, 108, 108, 111]

const logprobs = (source: Parameters<Engine.Service["sampler"]>[0]) =>
  Effect.gen(function*() {
    const engine = yield* Engine.make()
    const sampler = yield* engine.sampler(source)
    const { promptLogprobs } = yield* sampler.sample({ prompt, promptLogprobs: true, params: { maxTokens: 1 } })
    return Array.from(promptLogprobs ?? []).slice(1)
  })

describe("PeftAdapter", () => {
  it.scoped("reads an adapter of some modules; the others change nothing", () =>
    Effect.gen(function*() {
      const snapshot = yield* PeftAdapter.read(yield* directory(), tiny)
      assert.strictEqual(snapshot.scale, 2)
      assert.deepInclude(snapshot, { trainAttn: true, trainMlp: false, trainUnembed: false })
      const own = yield* logprobs(snapshot)
      const base = yield* logprobs(tiny.name)
      assert.notDeepEqual(own, base)
      const zero = factors.map((tensor) => ({ ...tensor, data: new Float32Array(tensor.data.length) }))
      assert.deepStrictEqual(yield* logprobs(yield* PeftAdapter.read(yield* directory(config, zero), tiny)), base)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("twice the scale and half of B are the same adapter", () =>
    Effect.gen(function*() {
      const halved = factors.map((tensor) =>
        tensor.name.includes("lora_B") ? { ...tensor, data: tensor.data.map((value) => value / 2) } : tensor
      )
      const read = (alpha: number, tensors: ReadonlyArray<Safetensors.Tensor>) =>
        Effect.flatMap(directory({ ...config, lora_alpha: alpha }, tensors), (root) => PeftAdapter.read(root, tiny))
      const one = yield* logprobs(yield* read(4, factors))
      const other = yield* logprobs(yield* read(8, halved))
      one.forEach((value, i) => assert.closeTo(other[i] ?? NaN, value, 1e-5))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("becomes a checkpoint to train further and to sample from", () =>
    Effect.gen(function*() {
      const server = yield* LocalServer.LocalServer
      const snapshot = yield* PeftAdapter.read(yield* directory(), tiny)
      const { sampler, training } = yield* server.importAdapter(snapshot, { name: "from-peft" })
      const sampling = yield* SamplingClient.make({ modelPath: sampler })
      const served = Array.from(yield* sampling.computeLogprobs(prompt)).slice(1)
      assert.deepStrictEqual(served, yield* logprobs(snapshot))
      const resumed = yield* TrainingClient.makeFromState({ path: training })
      assert.match(resumed.modelId, /:train:/)
      const refused = yield* Effect.flip(server.importAdapter(snapshot, { name: "../up" }))
      assert.strictEqual(refused._tag, "ImportRefused")
    }).pipe(Effect.provide(TinkerLocal.layer()), Effect.provide(NodeContext.layer)))

  it.scoped("refuses what it cannot compute, and says why", () =>
    Effect.gen(function*() {
      const refusal = (made: ReturnType<typeof directory>) =>
        Effect.flatMap(made, (root) => Effect.map(Effect.flip(PeftAdapter.read(root, tiny)), ({ message }) => message))
      assert.match(yield* refusal(directory({ ...config, use_dora: true })), /DoRA/)
      assert.match(yield* refusal(directory({ ...config, rank_pattern: { q_proj: 8 } })), /several ranks/)
      assert.match(yield* refusal(directory({ ...config, r: 3 })), /has shape \[2, 64\], expected \[3, 64\]/)
      assert.match(yield* refusal(directory({ lora_alpha: 1 })), /adapter_config.json/)
      const elsewhere = [{
        name: "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight",
        ...matrix(1, 2, 64)
      }]
      assert.match(yield* refusal(directory(config, elsewhere)), /layers\.9.* is not part of local\/tiny/)
      assert.match(yield* refusal(Effect.succeed("/nowhere")), /adapter_config.json/)
    }).pipe(Effect.provide(NodeContext.layer)))
})
