/**
 * The runs that are killed, and that are left alone to compare with.
 */
import { Dataset, Distill, Example, Preference, Reinforce, RunLog, Supervised } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { Duration, Effect, Layer, Logger, LogLevel, Stream } from "effect"
import { smallTokens } from "../SmallTokens.js"

/** A trainer, and what makes resuming hard. */
export interface Case {
  readonly trainer: string
  readonly submitAhead: number
  readonly background: boolean
}

const rows = Array.from({ length: 16 }, (_, n) => n)
const modes = new Map<string, Reinforce.Mode>([
  ["reinforce", Reinforce.sync],
  ["reinforce-stream", Reinforce.stream({ minibatches: 2 })],
  ["reinforce-async", Reinforce.async({ maxStepsOffPolicy: 2 })]
])

/** Every other problem takes a different time to step. */
const small = (n: number) => smallTokens(n, Duration.millis(n % 2 * 5))

const chats = Dataset.fromIterable(
  rows.map((n) => Example.conversation([Message.user(`${n}?`), Message.assistant(["cat", "dog", "cow"][n % 3] ?? "")]))
)

const steps = Effect.fnUntraced(function*({ background, submitAhead, trainer }: Case, directory: string) {
  const common = {
    model: { baseModel: "local/tiny", rank: 4, seed: 1 },
    epochs: 2,
    shuffle: 5,
    // rates are high, so that every step changes many bits; whether the model gets better is not compared
    guard: false as const,
    checkpoints: { periodic: { steps: 4 }, rolling: { steps: 1 }, background, onExit: false },
    log: RunLog.directory(directory)
  }
  const tokenizer = yield* Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles)
  const write = yield* Renderers.qwen3Instruct(tokenizer)
  const mode = modes.get(trainer)
  if (mode !== undefined) {
    return yield* Stream.runDrain(Reinforce.train({
      ...common,
      problems: Dataset.fromIterable(rows.map(small)),
      renderer: write,
      learningRate: 1e-2,
      maxTokens: 4,
      groupSize: 4,
      groupsPerBatch: 2,
      mode
    }))
  }
  if (trainer === "on-policy") {
    return yield* Stream.runDrain(Distill.onPolicy({
      ...common,
      prompts: Dataset.fromIterable(rows.map((n) => [Message.user(`${n}?`)])),
      teacher: "local/small",
      renderer: write,
      learningRate: 1e-2,
      maxTokens: 4,
      groupSize: 2,
      groupsPerBatch: 2
    }))
  }
  if (trainer === "off-policy") {
    return yield* Stream.runDrain(Distill.offPolicy({
      ...common,
      data: chats,
      teacher: "local/small",
      topK: 4,
      renderer: write,
      learningRate: 1e-3,
      batchSize: 2,
      submitAhead
    }))
  }
  if (trainer === "self") {
    return yield* Stream.runDrain(Distill.self({
      ...common,
      data: Dataset.fromIterable(rows),
      prompt: (n) => [Message.user(`${n}?`)],
      teacherPrompt: (n) => [Message.system("Be brief."), Message.user(`${n}?`)],
      topK: 4,
      maxTokens: 4,
      renderer: write,
      learningRate: 1e-3,
      batchSize: 2
    }))
  }
  if (trainer === "preference") {
    return yield* Stream.runDrain(Preference.train({
      ...common,
      data: Dataset.fromIterable(rows.map((n) => ({
        prompt: [Message.user(`${n}?`)],
        chosen: [Message.assistant("yes")],
        rejected: [Message.assistant("no")]
      }))),
      renderer: write,
      learningRate: 1e-3,
      batchSize: 2
    }))
  }
  yield* Stream.runDrain(Supervised.train({
    ...common,
    data: chats,
    renderer: write,
    learningRate: { peak: 1e-3, decay: "cosine", warmUp: 2 },
    batchSize: 2,
    submitAhead
  }))
})

/** Trains in a directory, with a backend that keeps its checkpoints in another. */
export const train = (one: Case, directory: string, backend: string) =>
  steps(one, directory).pipe(
    Effect.provide(
      Layer.merge(NodeContext.layer, Layer.provide(TinkerLocal.layerDirectory(backend), NodeContext.layer))
    ),
    Logger.withMinimumLogLevel(LogLevel.Error)
  )
