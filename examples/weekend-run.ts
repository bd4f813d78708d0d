/**
 * A run that outlives its processes: it waits for a person's grades, and goes on in another process when they are there.
 */
import { DurableRun, Judgement, RunControl } from "@effect-tinker/cluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import type { Trajectory } from "@effect-tinker/cookbook"
import { Dataset, Environment, Reinforce, RunLog } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Option, Stream } from "effect"

/** The reward is what a person says, whenever that is. */
const greeting = (text: string) =>
  Environment.group(() =>
    Effect.succeed({
      initial: Effect.succeed({
        _tag: "Continue" as const,
        observation: { prompt: LocalTokenizer.encode(text), stop: [] }
      }),
      step: ({ tokens }: Trajectory.Action) =>
        Judgement.ask({ question: `How polite is this, after "${text}"?`, answer: LocalTokenizer.decode(tokens) }).pipe(
          Effect.map((reward) => ({ _tag: "Done" as const, reason: "completed" as const, reward }))
        )
    })
  )

/** One process: it trains as far as it can, and leaves when only a person can help. */
const run = (directory: string) =>
  DurableRun.train({
    directory,
    detach: true,
    patience: "5 seconds",
    train: (log) =>
      Stream.unwrap(Effect.map(renderer, (renderer) =>
        Reinforce.train({
          model: { baseModel: "local/tiny", rank: 4, seed: 1 },
          problems: Dataset.fromIterable(["Good morning!", "Good evening!"].map(greeting)),
          renderer,
          learningRate: 1e-3,
          maxTokens: 8,
          groupSize: 2,
          groupsPerBatch: 2,
          epochs: 2,
          checkpoints: { periodic: { steps: 1 } },
          log
        })))
  }).pipe(
    Stream.runCount,
    Effect.provide(NodeDurable.layerDirectory(directory)),
    Effect.provide(Layer.provide(TinkerLocal.layerDirectory(`${directory}-models`), NodeContext.layer))
  )

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-" })
  const directory = `${root}/greetings`
  yield* fs.makeDirectory(`${directory}-models`)

  for (let process = 1;; process++) {
    const steps = yield* run(directory)
    const { state } = Option.getOrThrow(yield* RunControl.status(directory))
    const questions = yield* RunControl.questions(directory)
    yield* Console.log(`process ${process}: ${steps} steps, then ${state}; ${questions.length} grades wanted`)
    if (state === "complete") break
    // On Monday: `tinker runs grade DIRECTORY` asks for these at a terminal.
    for (const { answer, key } of questions) yield* RunControl.answer(directory, key, Math.min(1, answer.length / 8))
  }
  const { resumes, steps } = Option.getOrThrow(yield* RunLog.read(directory))
  yield* Console.log(`${steps.length} steps in all, the journal opened ${resumes + 1} times`)
})

const renderer = Effect.flatMap(Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles), Renderers.qwen3Instruct)

program.pipe(Effect.scoped, Effect.provide(NodeContext.layer), NodeRuntime.runMain)
