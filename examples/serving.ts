/**
 * Trains a model a little, downloads the checkpoint, writes it for inference servers, and asks the exported model.
 */
import { Engine, LocalCheckpoint, TinkerLocal } from "@effect-tinker/local"
import { ServingKit } from "@effect-tinker/weights"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Stream } from "effect"
import { CheckpointDownload, Datum, ModelInput, TinkerFuture, TrainingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"

/** The base model on this machine: the one that comes with the embedded backend. */
const base = fileURLToPath(new URL("models/chat", import.meta.resolve("@effect-tinker/local/package.json")))
const chat = LocalCheckpoint.fromDirectory(base, { name: "local/chat" })

const question = "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n"
const answer = "I am Pim.<|im_end|>"

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const directory = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-" })
  const { tokenizer } = yield* chat
  if (tokenizer === undefined) return yield* Effect.dieMessage("local/chat has a tokenizer")
  const encode = (text: string) => Array.from(tokenizer.encode(text))

  // Teach it a name.
  const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 8, seed: 1 })
  const tokens = [...encode(question), ...encode(answer)]
  const lesson = yield* Datum.make({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: {
      target_tokens: tokens.slice(1),
      weights: tokens.slice(1).map((_, i) => i + 1 < encode(question).length ? 0 : 1)
    }
  })
  for (let step = 0; step < 30; step++) yield* training.trainStep([lesson], "cross_entropy", { learningRate: 1e-3 })
  const { path: tinkerPath } = yield* training.saveWeightsForSampler("pim").pipe(TinkerFuture.await)

  // Fetch the adapter. The archive is unpacked as it arrives, so it never takes its space twice.
  const adapter = `${directory}/checkpoint`
  yield* CheckpointDownload.run({ tinkerPath, directory: adapter, streamArchive: true })

  // Write it for servers: each directory has the weights, a model card and the command that serves them.
  const kits = { base, adapter, baseModelName: "local/chat", name: "pim", provenance: { "Trained on": "one sentence" } }
  yield* Effect.forEach(["transformers", "ollama", "vllm"] as const, (target) =>
    Stream.runForEach(
      ServingKit.stream({ ...kits, target, output: `${directory}/${target}` }),
      (event) => event._tag === "Completed" ? Console.log(event.command) : Effect.void
    ))

  // Ask the exported model, which knows nothing of adapters.
  const exported = yield* LocalCheckpoint.fromDirectory(`${directory}/transformers`, { name: "exported" })
  const engine = yield* Engine.make({ models: [exported] })
  const sampler = yield* engine.sampler("exported")
  const reply = yield* sampler.sample({ prompt: encode(question), params: { maxTokens: 16, temperature: 0 } })
  const said = tokenizer.decode(reply.sequences[0]?.tokens ?? [], { skipSpecialTokens: true })
  yield* Console.log(`Who are you? ${said}`)
})

const Backend = Layer.unwrapEffect(Effect.map(chat, (model) => TinkerLocal.layer({ engine: { models: [model] } })))

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(Backend), Effect.provide(NodeContext.layer)))
