/** A run in a process of its own, to be killed. Arguments: run directory, backend's directory, submit-ahead, background. */
import { Dataset, Example, RunLog, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer, Logger, LogLevel, Stream } from "effect"
import { localIn, renderer } from "./local.js"

const [directory = "", backend = "", submitAhead = "0", background = "false"] = process.argv.slice(2)

const program = Effect.gen(function*() {
  yield* Supervised.train({
    model: { baseModel: "local/tiny", rank: 4, seed: 1 },
    data: Dataset.fromIterable(
      Array.from(
        { length: 16 },
        (_, n) => Example.conversation([Message.user(`${n}?`), Message.assistant(["cat", "dog", "cow"][n % 3] ?? "")])
      )
    ),
    renderer: yield* renderer,
    learningRate: { peak: 1e-3, decay: "cosine", warmUp: 2 },
    batchSize: 2,
    epochs: 2,
    shuffle: 5,
    submitAhead: Number(submitAhead),
    checkpoints: {
      periodic: { steps: 4 },
      rolling: { steps: 1 },
      background: background === "true",
      onExit: false
    },
    log: RunLog.directory(directory)
  }).pipe(Stream.runDrain)
})

program.pipe(
  Effect.provide(Layer.provideMerge(localIn(backend), NodeContext.layer)),
  Logger.withMinimumLogLevel(LogLevel.Error),
  Effect.runPromise
).then(() => process.exit(0), (error: unknown) => {
  process.stderr.write(`${String(error)}\n`)
  process.exit(1)
})
