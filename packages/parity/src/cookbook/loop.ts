/**
 * The supervised loop of the official cookbook and ours on one backend: the same conversations in the same order.
 */
import { Dataset, Example, Supervised } from "@effect-tinker/cookbook"
import { LocalTokenizer } from "@effect-tinker/local"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { Chunk, Effect, Layer, Redacted, Schema, Stream } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import type * as Python from "../Python.js"

const program = "cookbook_loop"
const steps = 40
const batchSize = 4
const learningRate = 1e-3
const seed = 7

const words = ["cat", "dog", "cow", "hen", "owl", "fox", "bee"]

/** Conversations of one and two turns. */
const conversations = Array.from({ length: steps * batchSize + 1 }, (_, n) => {
  const [one = "", other = ""] = [words[n % words.length], words[(3 * n + 1) % words.length]]
  const first = [Message.user(`What is ${n}?`), Message.assistant(`It is a ${one}.`)]
  return n % 3 === 0 ? [...first, Message.user("And then?"), Message.assistant(`Then a ${other}.`)] : first
})

const Theirs = Schema.parseJson(Schema.Struct({ order: Schema.Array(Schema.Int), losses: Schema.Array(Schema.Number) }))

export interface LoopReport {
  readonly steps: number
  /** The largest difference of a step's loss. */
  readonly apart: number
  readonly differences: ReadonlyArray<string>
}

export const compareLoops = (python: Python.Python) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-loop-" })
    const { tokenizerConfig, tokenizerJson } = LocalTokenizer.huggingFaceFiles
    yield* fs.writeFileString(`${directory}/tokenizer.json`, JSON.stringify(tokenizerJson))
    yield* fs.writeFileString(`${directory}/tokenizer_config.json`, JSON.stringify(tokenizerConfig))
    const file = `${directory}/chats.jsonl`
    yield* fs.writeFileString(file, conversations.map((messages) => `${JSON.stringify({ messages })}\n`).join(""))

    const { apiKey, baseUrl } = yield* NodeTinkerLocal.serve()
    const settings = [String(steps), String(batchSize), String(learningRate), String(seed)]
    const output = yield* python.run(program, baseUrl, Redacted.value(apiKey), directory, file, ...settings)
    const theirs = yield* Schema.decode(Theirs)(output)

    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const reports = yield* Supervised.train({
      model: { baseModel: "local/tiny", rank: 16, seed },
      data: Dataset.fromIterable(theirs.order.map((n) => Example.conversation(conversations[n] ?? []))),
      renderer,
      learningRate: { peak: learningRate, decay: "linear" },
      batchSize,
      reduction: "mean",
      submitAhead: 2
    }).pipe(
      Stream.runCollect,
      Effect.provide(Tinker.layer({ baseUrl, apiKey }).pipe(Layer.provide(NodeTinker.layer())))
    )
    const ours = Chunk.toReadonlyArray(reports).map(({ loss }) => loss)
    const apart = theirs.losses.map((loss, i) => Math.abs(loss - (ours[i] ?? NaN)))
    const report: LoopReport = {
      steps: ours.length,
      apart: Math.max(...apart),
      differences: [
        ...(ours.length === steps && theirs.losses.length === steps
          ? []
          : [`loop: ${ours.length} steps of ours, ${theirs.losses.length} of theirs, not ${steps}`]),
        ...apart.flatMap((difference, i) =>
          difference <= 1e-6 ? [] : [`loop: step ${i + 1} is ${ours[i]}, theirs ${theirs.losses[i]}`]
        )
      ]
    }
    return report
  }).pipe(Effect.scoped)
