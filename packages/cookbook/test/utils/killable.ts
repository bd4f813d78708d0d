/** A run in a process of its own, to be killed. Arguments: trainer, run directory, backend's directory, submit-ahead, background. */
import { Dataset, Environment, Example, Preference, Reinforce, RunLog, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { NodeContext } from "@effect/platform-node"
import { Effect, Layer, Logger, LogLevel, Stream } from "effect"
import { localIn, renderer } from "./local.js"

const [trainer = "", directory = "", backend = "", submitAhead = "0", background = "false"] = process.argv.slice(2)

const rows = Array.from({ length: 16 }, (_, n) => n)
const common = {
  model: { baseModel: "local/tiny", rank: 4, seed: 1 },
  epochs: 2,
  shuffle: 5,
  checkpoints: { periodic: { steps: 4 }, rolling: { steps: 1 }, background: background === "true", onExit: false },
  log: RunLog.directory(directory)
}

/** Rewarded by how many of the sampled tokens are small. */
const small = (n: number) =>
  Environment.group(() =>
    Effect.succeed(
      {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(65, 66 + n), stop: [] } }),
        step: ({ tokens }) =>
          Effect.succeed({
            _tag: "Done",
            reason: "completed",
            reward: tokens.filter((token) => token < 64).length / tokens.length
          })
      } satisfies Environment.Environment
    )
  )

const program = Effect.gen(function*() {
  const write = yield* renderer
  if (trainer === "reinforce") {
    return yield* Stream.runDrain(Reinforce.train({
      ...common,
      problems: Dataset.fromIterable(rows.map(small)),
      renderer: write,
      learningRate: 1e-2,
      maxTokens: 4,
      groupSize: 4,
      groupsPerBatch: 2
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
    data: Dataset.fromIterable(
      rows.map((n) =>
        Example.conversation([Message.user(`${n}?`), Message.assistant(["cat", "dog", "cow"][n % 3] ?? "")])
      )
    ),
    renderer: write,
    learningRate: { peak: 1e-3, decay: "cosine", warmUp: 2 },
    batchSize: 2,
    submitAhead: Number(submitAhead)
  }))
})

program.pipe(
  Effect.provide(Layer.provideMerge(localIn(backend), NodeContext.layer)),
  Logger.withMinimumLogLevel(LogLevel.Error),
  Effect.runPromise
).then(() => process.exit(0), (error: unknown) => {
  process.stderr.write(`${String(error)}\n`)
  process.exit(1)
})
