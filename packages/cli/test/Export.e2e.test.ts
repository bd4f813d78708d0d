import { Safetensors, SafetensorsHeader } from "@effect-tinker/weights"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Datum, ServiceClient, TinkerFuture, TrainingClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { spawnSync } from "node:child_process"
import { key, layer as server, Server, tinker } from "./fixtures/server.js"

class Trained extends Context.Tag("Trained")<Trained, { readonly sampler: string; readonly state: string }>() {}

/** A few steps on `local/chat`, saved to sample from and to train further. */
const trained = Layer.effect(
  Trained,
  Effect.gen(function*() {
    const { baseUrl } = yield* Server
    return yield* Effect.gen(function*() {
      const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 4, seed: 1 })
      const datum = yield* Datum.fromTokens(Array.from({ length: 24 }, (_, i) => 20 + i * 7))
      for (let step = 0; step < 4; step++) {
        yield* training.trainStep([datum], "cross_entropy", { learningRate: 1e-3 }).pipe(TinkerFuture.await)
      }
      const { path: state } = yield* training.saveState("last").pipe(TinkerFuture.await)
      const { path: sampler } = yield* training.saveWeightsForSampler("final").pipe(TinkerFuture.await)
      return { sampler, state }
    }).pipe(
      Effect.scoped,
      Effect.provide(
        ServiceClient.layer({ baseUrl, apiKey: key, allowInsecure: true }).pipe(Layer.provide(NodeTinker.layer()))
      )
    )
  })
)

const sandbox = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  return { fs, root: yield* fs.makeTempDirectoryScoped() }
}).pipe(Effect.provide(NodeContext.layer))

/** A layer of a mixture of two experts, all zeros, and an adapter that adds 2 to every weight of one projection. */
const mixture = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, root: string) {
  const [base, adapter] = [`${root}/base`, `${root}/adapter`]
  const [width, rank] = [128, 2]
  yield* fs.makeDirectory(base)
  yield* fs.makeDirectory(adapter)
  const zeros = (name: string, ...shape: ReadonlyArray<number>) => ({ name, dtype: "BF16", shape })
  const weights = [
    zeros("model.layers.0.mlp.gate.weight", 2, width),
    ...[0, 1].map((expert) => zeros(`model.layers.0.mlp.experts.${expert}.up_proj.weight`, width, width))
  ]
  const count = weights.reduce((sum, { shape }) => sum + SafetensorsHeader.elements(shape), 0)
  const joined = (...parts: ReadonlyArray<Uint8Array>) => new Uint8Array(Buffer.concat(parts))
  yield* fs.writeFileString(`${base}/config.json`, JSON.stringify({ model_type: "qwen3_moe", architectures: [] }))
  yield* fs.writeFile(
    `${base}/model.safetensors`,
    joined(SafetensorsHeader.encode(weights), new Uint8Array(count * 2))
  )
  const module = "base_model.model.model.layers.0.mlp.experts.w3"
  const matrices = [
    { name: `${module}.lora_A.weight`, dtype: "F32", shape: [2, rank, width] },
    { name: `${module}.lora_B.weight`, dtype: "F32", shape: [2, width, rank] }
  ]
  yield* fs.writeFileString(`${adapter}/adapter_config.json`, JSON.stringify({ r: rank, lora_alpha: rank }))
  yield* fs.writeFile(
    `${adapter}/adapter_model.safetensors`,
    joined(SafetensorsHeader.encode(matrices), new Uint8Array(new Float32Array(8 * width).fill(1).buffer))
  )
  return { base, adapter }
})

const run = (...line: ReadonlyArray<string>) => tinker(["export", ...line])

const json = (...line: ReadonlyArray<string>) =>
  Effect.map(run(...line, "-f", "json"), ({ code, stderr, stdout }) => {
    assert.strictEqual(code, 0, stderr)
    return JSON.parse(stdout)
  })

layer(Layer.provideMerge(trained, server), { excludeTestServices: true, timeout: "2 minutes" })(
  "tinker export",
  (it) => {
    it.scoped("writes a model for transformers that computes what the server computes", () =>
      Effect.gen(function*() {
        const { sampler } = yield* Trained
        const { fs, root } = yield* sandbox
        const output = `${root}/model`
        const note = "Trained on=a row of numbers"
        const made = yield* json(sampler, "--for", "transformers", "-o", output, "--verify", "--note", note)
        assert.strictEqual(made.form, "merged")
        assert.strictEqual(made.verified.reference, "server")
        assert.isAbove(made.verified.tokens, 20)
        assert.isBelow(made.verified.mean, 0.01)
        const card = yield* fs.readFileString(`${output}/README.md`)
        assert.include(card, sampler)
        assert.include(card, "| Trained on | a row of numbers |")
        assert.include(card, made.command)
        // neither the download nor anything unfinished is left
        assert.deepStrictEqual(yield* fs.readDirectory(root), ["model"])
      }), { timeout: 120_000 })

    it.scoped(
      "writes an adapter for vLLM from a training checkpoint, checked on this machine",
      () =>
        Effect.gen(function*() {
          const { state } = yield* Trained
          const { fs, root } = yield* sandbox
          const made = yield* json(state, "--for", "vllm", "-o", `${root}/kit`, "--name", "support", "--verify")
          assert.strictEqual(made.form, "adapter")
          assert.strictEqual(made.verified.reference, "engine")
          assert.isBelow(made.verified.max, 1e-4)
          assert.match(made.command, /^vllm serve local\/chat --enable-lora --max-lora-rank 8 --lora-modules support=/)
          assert.sameMembers(yield* fs.readDirectory(`${root}/kit`), [
            "README.md",
            "adapter_config.json",
            "adapter_model.safetensors"
          ])
        }),
      { timeout: 120_000 }
    )

    it.scoped("takes the directory of a run: its final checkpoint, to sample from", () =>
      Effect.gen(function*() {
        const { sampler, state } = yield* Trained
        const { fs, root } = yield* sandbox
        const entries = [
          { _tag: "Started", time: 1, trainer: "supervised", config: {}, hash: "h" },
          {
            _tag: "Checkpoint",
            time: 2,
            name: "a",
            kind: "final",
            step: 4,
            statePath: state,
            samplerPath: sampler,
            position: { epoch: 1, index: 0, offset: 0 }
          },
          { _tag: "Ended", time: 3, step: 4, outcome: "success", complete: true }
        ]
        const written = (lines: ReadonlyArray<object>) => lines.map((line) => `${JSON.stringify(line)}\n`).join("")
        yield* fs.makeDirectory(`${root}/pirate`)
        yield* fs.writeFileString(`${root}/pirate/journal.jsonl`, written(entries))
        const made = yield* json(`${root}/pirate`, "--for", "vllm", "-o", `${root}/kit`)
        assert.deepInclude(made, { source: sampler, form: "adapter" })
        assert.include(made.command, "--lora-modules pirate=")

        yield* fs.writeFileString(`${root}/pirate/journal.jsonl`, written(entries.slice(0, 1)))
        const { code, stderr } = yield* run(`${root}/pirate`, "--for", "vllm", "-o", `${root}/none`)
        assert.strictEqual(code, 1)
        assert.include(stderr, "pirate has no checkpoint")
      }), { timeout: 120_000 })

    it.scoped("takes a directory or an archive as well, without a server", () =>
      Effect.gen(function*() {
        const { sampler } = yield* Trained
        const { fs, root } = yield* sandbox
        const downloaded = yield* tinker(["checkpoint", "download", sampler, "-o", root, "-f", "json"])
        const { destination } = JSON.parse(downloaded.stdout)
        const packed = spawnSync("tar", ["-czf", `${root}/adapter.tar.gz`, "-C", destination, "."])
        assert.strictEqual(packed.status, 0, String(packed.stderr))
        for (const [source, output] of [[destination, "a"], [`${root}/adapter.tar.gz`, "b"]] as const) {
          const { code, stderr, stdout } = yield* tinker(
            ["export", source, "--for", "ollama", "-o", `${root}/${output}`, "--dtype", "q8_0", "--name", "chat"],
            { env: { TINKER_BASE_URL: "http://127.0.0.1:9", TINKER_API_KEY: "" } }
          )
          assert.strictEqual(code, 0, stderr)
          assert.include(stdout, "ollama create chat")
        }
        const [a, b] = yield* Effect.forEach(["a", "b"], (name) => fs.readFile(`${root}/${name}/model.gguf`))
        assert.deepStrictEqual(a, b)
      }), { timeout: 120_000 })

    it.scoped("says in two lines what is wrong, and leaves nothing behind", () =>
      Effect.gen(function*() {
        const { sampler } = yield* Trained
        const { fs, root } = yield* sandbox
        yield* fs.makeDirectory(`${root}/taken`)
        const cases: ReadonlyArray<readonly [code: number, what: RegExp, line: ReadonlyArray<string>]> = [
          [2, /either --merged or --adapter/, [sampler, "--for", "vllm", "--merged", "--adapter"]],
          [2, /exists already/, [sampler, "--for", "vllm", "-o", `${root}/taken`]],
          [2, /There is no .*nowhere/, [`${root}/nowhere`, "--for", "vllm"]],
          [2, /does not say what it was trained from/, [root, "--for", "vllm", "-o", `${root}/x`]],
          [1, /nobody\/nothing: .*hf download/, [sampler, "--for", "vllm", "--base", "nobody/nothing"]],
          [1, /no adapter_config.json/, [root, "--for", "vllm", "--base", "local/chat", "-o", `${root}/x`]],
          [1, /GGUF files only/, [sampler, "--for", "vllm", "--merged", "--dtype", "q8_0", "-o", `${root}/x`]],
          [2, /is not a note/, [sampler, "--for", "vllm", "--note", "hello", "-o", `${root}/x`]]
        ]
        for (const [code, what, line] of cases) {
          const result = yield* tinker(["export", ...line], { env: { HF_HUB_CACHE: root } })
          assert.strictEqual(result.code, code, result.stderr)
          assert.match(result.stderr.replaceAll(/\s+/g, " "), what)
        }
        assert.isFalse(yield* fs.exists(`${root}/x`))
      }), { timeout: 120_000 })

    it.scoped("writes the routed experts of a model for vLLM as float8", () =>
      Effect.gen(function*() {
        const { fs, root } = yield* sandbox
        const { adapter, base } = yield* mixture(fs, root)
        const line = [adapter, "--base", base, "--for", "vllm", "--fp8-experts"]
        const made = yield* json(...line, "--merged", "-o", `${root}/kit`)
        assert.match(made.command, /^vllm serve .*kit --served-model-name/)
        const config = JSON.parse(yield* fs.readFileString(`${root}/kit/config.json`))
        assert.deepStrictEqual(config.compression_config.ignore, ["model.layers.0.mlp.gate"])
        const file = yield* Effect.provide(Safetensors.open(`${root}/kit/model.safetensors`), NodeContext.layer)
        const tensor = (name: string) => file.tensors.find((one) => one.name === name)
        const expert = tensor("model.layers.0.mlp.experts.1.up_proj.weight")
        const scale = tensor("model.layers.0.mlp.experts.1.up_proj.weight_scale")
        assert.strictEqual(tensor("model.layers.0.mlp.gate.weight")?.dtype, "BF16")
        assert(expert?.dtype === "F8_E4M3" && scale?.dtype === "F32")
        // the base is 0 and the delta 2 everywhere, so every code is the largest, which stands for 448
        assert.deepStrictEqual([...new Set(yield* file.read(expert.start, expert.bytes))], [0x7e])
        const [step = NaN] = new Float32Array((yield* file.read(scale.start, scale.bytes)).buffer)
        assert.closeTo(step * 448, 2, 0.01)
        const misplaced = yield* run(...line, "-o", `${root}/x`)
        assert.strictEqual(misplaced.code, 1)
        assert.include(misplaced.stderr.replaceAll(/\s+/g, " "), "float8 are for a merged model in vLLM")
        const { state } = yield* Trained
        const dense = yield* run(state, "--for", "vllm", "--merged", "--fp8-experts", "-o", `${root}/x`)
        assert.strictEqual(dense.code, 1)
        assert.include(dense.stderr.replaceAll(/\s+/g, " "), "no routed experts")
        assert.isFalse(yield* fs.exists(`${root}/x`))
      }), { timeout: 120_000 })

    it.scoped("finds the base model in the hub's cache", () =>
      Effect.gen(function*() {
        const { sampler } = yield* Trained
        const { fs, root } = yield* sandbox
        const commit = "abcdef0123456789abcdef0123456789abcdef01"
        const snapshot = `${root}/cache/models--acme--chat/snapshots/${commit}`
        const { LocalCheckpoint } = yield* Effect.promise(() => import("@effect-tinker/local"))
        yield* fs.copy(decodeURIComponent(LocalCheckpoint.chatDirectory.pathname), snapshot)
        yield* fs.makeDirectory(`${root}/cache/models--acme--chat/refs`)
        yield* fs.writeFileString(`${root}/cache/models--acme--chat/refs/main`, `${commit}\n`)
        const { code, stderr } = yield* tinker(
          ["export", sampler, "--for", "llama.cpp", "--base", "acme/chat", "-o", `${root}/kit`],
          { env: { HF_HUB_CACHE: `${root}/cache` } }
        )
        assert.strictEqual(code, 0, stderr)
        assert.isTrue(yield* fs.exists(`${root}/kit/model.gguf`))
        // what has a GGUF file has enough
        const merged = yield* json(
          sampler,
          "--for",
          "transformers",
          "--base",
          `${root}/kit/model.gguf`,
          "-o",
          `${root}/again`
        )
        assert.strictEqual(merged.form, "merged")
        assert.include(yield* fs.readDirectory(`${root}/again`), "tokenizer.json")
      }), { timeout: 120_000 })
  }
)
