import type { Trainer } from "@effect-tinker/cookbook"
import { Dataset, Evaluator, Example, LearningRate, RunLog, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Stream, TestClock } from "effect"
import { collect, Local, renderer } from "./utils/local.js"

const chats = Dataset.fromIterable(
  Array.from(
    { length: 12 },
    (_, n) => Example.conversation([Message.user(`${n}?`), Message.assistant(["cat", "dog", "cow"][n % 3] ?? "")])
  )
)

const options = {
  model: { baseModel: "local/tiny", rank: 4, seed: 1 },
  data: chats,
  learningRate: { peak: 1e-3, decay: "linear" as const },
  batchSize: 3,
  epochs: 3,
  shuffle: 5
}

const lossesOf = (reports: ReadonlyArray<Trainer.StepReport>) => reports.map(({ loss, step }) => [step, loss] as const)

const runDirectory = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

const Live = Layer.merge(Local, NodeContext.layer)

describe("LearningRate", () => {
  it("warms up, then decays to its floor", () => {
    const rate = new LearningRate.LearningRate({ peak: 1, decay: "cosine", warmUp: 3, floor: 0.1 })
    const rates = Array.from({ length: 14 }, (_, step) => LearningRate.at(rate, step, 13))
    assert.deepStrictEqual(rates.slice(0, 4), [0.25, 0.5, 0.75, 1])
    assert.closeTo(rates[8] ?? 0, 0.55, 1e-12)
    assert.closeTo(rates[13] ?? 0, 0.1, 1e-12)
    assert.strictEqual(LearningRate.at(new LearningRate.LearningRate({ peak: 2, decay: "linear" }), 3, 4), 0.5)
  })
})

describe("Supervised.train", () => {
  it.scoped("saves by two counts: a periodic checkpoint is a rolling one too, and not the other way round", () =>
    Effect.gen(function*() {
      const directory = yield* runDirectory
      yield* collect(Supervised.train({
        ...options,
        renderer: yield* renderer,
        log: RunLog.directory(directory),
        checkpoints: { periodic: { steps: 4 }, rolling: { steps: 3 } }
      }))
      const journal = yield* Effect.flatMap(
        FileSystem.FileSystem,
        (fs) => fs.readFileString(`${directory}/journal.jsonl`)
      )
      const saved = Array.from(
        journal.trim().split("\n"),
        (line): { readonly _tag: string; readonly step: number; readonly kind: string } => JSON.parse(line)
      ).filter(({ _tag }) => _tag === "Checkpoint").map(({ kind, step }) => `${step} ${kind}`)
      // 3 steps after the periodic ones of steps 4 and 8, and the end of the run at step 12
      assert.deepStrictEqual(saved, [
        "3 rolling",
        "4 periodic",
        "7 rolling",
        "8 periodic",
        "11 rolling",
        "12 periodic",
        "12 final"
      ])
    }).pipe(Effect.provide(Live)))

  it.scoped("learns, reports each step in order, and evaluates the weights before it", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const held = Dataset.fromIterable([
        yield* Example.toDatum(Example.conversation([Message.user("1?"), Message.assistant("dog")]), {
          renderer: write
        })
      ])
      const reports = yield* collect(Supervised.train({
        ...options,
        renderer: write,
        evaluate: [Evaluator.nll(held, { tokenizer: write.tokenizer })],
        evaluateEvery: 5
      }))
      assert.deepStrictEqual(reports.map(({ step }) => step), Array.from({ length: 12 }, (_, i) => i + 1))
      assert.isBelow(reports[11]?.loss ?? NaN, (reports[0]?.loss ?? 0) * 0.7)
      assert.deepStrictEqual(reports.filter(({ evaluations }) => "test" in evaluations).map(({ step }) => step), [
        1,
        6,
        11
      ])
      const final = Option.getOrThrow(reports[11]?.final ?? Option.none())
      assert.isBelow(final.evaluations["test"]?.["nll"] ?? NaN, reports[0]?.evaluations["test"]?.["nll"] ?? 0)
      assert.isAbove(final.evaluations["test"]?.["bpb"] ?? NaN, 0)
      assert.strictEqual(final.checkpoint.step, 12)
      assert.isUndefined(final.checkpoint.expiresAt)
      assert.closeTo(reports[6]?.learningRate ?? 0, 1e-3 * (1 - 6 / 12), 1e-12)
    }).pipe(Effect.provide(Live)))

  it.scoped("steps in flight change nothing but the time", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const series = yield* Effect.forEach([0, 3], (submitAhead) =>
        Effect.map(collect(Supervised.train({ ...options, renderer: write, submitAhead })), lossesOf))
      assert.deepStrictEqual(series[0], series[1])
    }).pipe(Effect.provide(Live)))

  it.scoped(
    "cut short at any step, it resumes bit for bit, and the journal has every step once",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        const whole = lossesOf(yield* collect(Supervised.train({ ...options, renderer: write })))
        for (const [submitAhead, background] of [[0, false], [1, true], [3, true], [3, false]] as const) {
          const directory = yield* runDirectory
          const run = Supervised.train({
            ...options,
            renderer: write,
            submitAhead,
            checkpoints: { periodic: { steps: 2 }, background },
            log: RunLog.directory(directory)
          })
          const seen: Array<readonly [number, number]> = []
          for (const count of [2, 3, 1, 100]) seen.push(...lossesOf(yield* collect(Stream.take(run, count))))
          const { checkpoints, resumes, steps } = Option.getOrThrow(yield* RunLog.read(directory))
          assert.deepStrictEqual(steps.map(({ metrics, step }) => [step, metrics["loss"]] as const), [...whole])
          assert.isAtLeast(resumes, 2)
          // what was in flight when the stream was cut is recorded though nobody pulled it
          assert.isAtLeast(seen.length, whole.length - 3 * submitAhead)
          assert.isTrue(checkpoints.some(({ kind }) => kind === "exit"))
          assert.strictEqual(checkpoints[checkpoints.length - 1]?.kind, "final")
          // complete: nothing is left to do
          assert.deepStrictEqual(yield* collect(run), [])
        }
      }).pipe(Effect.provide(Live)),
    120_000
  )

  it.scoped("without a checkpoint it begins again, the same", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const directory = yield* runDirectory
      const run = Supervised.train({
        ...options,
        renderer: write,
        checkpoints: { onExit: false },
        log: RunLog.directory(directory)
      })
      const first = lossesOf(yield* collect(Stream.take(run, 3)))
      const again = lossesOf(yield* collect(run))
      assert.deepStrictEqual(again.slice(0, 3), first)
      const { steps } = Option.getOrThrow(yield* RunLog.read(directory))
      assert.deepStrictEqual(steps.map(({ step }) => step), again.map(([step]) => step))
    }).pipe(Effect.provide(Live)))

  it.scoped("interrupted, it saves what it has and says so", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const directory = yield* runDirectory
      const run = Supervised.train({ ...options, renderer: write, log: RunLog.directory(directory) })
      const latch = yield* Effect.makeLatch(false)
      const fiber = yield* run.pipe(
        Stream.tap(({ step }) => step === 4 ? Effect.zipRight(latch.open, Effect.never) : Effect.void),
        Stream.runDrain,
        Effect.fork
      )
      yield* latch.await
      assert.isTrue(Exit.isInterrupted(yield* Fiber.interrupt(fiber)))
      const { checkpoints, ended } = Option.getOrThrow(yield* RunLog.read(directory))
      assert.strictEqual(checkpoints[0]?.kind, "exit")
      assert.deepInclude(Option.getOrThrow(ended), { outcome: "interrupted", complete: false })
    }).pipe(Effect.provide(Live)))

  it.scoped("a run with another configuration is refused, with the fields that differ", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const log = RunLog.directory(yield* runDirectory)
      yield* Stream.runDrain(Stream.take(Supervised.train({ ...options, renderer: write, log }), 1))
      const error = yield* Effect.flip(
        Stream.runDrain(Supervised.train({ ...options, batchSize: 4, learningRate: 1, renderer: write, log }))
      )
      assert.strictEqual(error._tag, "ConfigChanged")
      if (error._tag === "ConfigChanged") {
        assert.deepStrictEqual(error.fields, ["batchSize", "learningRate.decay", "learningRate.peak"])
      }
    }).pipe(Effect.provide(Live)))

  it.scoped("rows that are skipped are reported, and nothing to train on is a failure", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const long = Example.conversation([Message.user("?"), Message.assistant("x".repeat(200))])
      const short = Example.conversation([Message.user("?"), Message.assistant("x")])
      const run = (rows: ReadonlyArray<Example.Example>) =>
        Supervised.train({
          ...options,
          data: Dataset.fromIterable(rows),
          epochs: 1,
          batchSize: 1,
          maxLength: 100,
          renderer: write
        })
      const reports = yield* collect(run([long, short, Example.conversation([Message.user("?")]), short]))
      assert.strictEqual(reports.length, 2)
      assert.deepStrictEqual(Dataset.countSkipped(reports.flatMap(({ skipped }) => skipped)), { too_long: 1, empty: 1 })
      const error = yield* Effect.flip(Stream.runDrain(run([long])))
      assert.strictEqual(error._tag, "InvalidRun")
      assert.include(error.message, "1 too_long")
    }).pipe(Effect.provide(Live)))

  it.scoped(
    "warns before the latest checkpoint expires, and refuses to begin again when all have",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        const directory = yield* runDirectory
        const run = Supervised.train({
          ...options,
          renderer: write,
          submitAhead: 0,
          checkpoints: { periodic: { steps: 2 }, ttl: "3 hours", warnBefore: "4 hours", onExit: false },
          log: RunLog.directory(directory)
        })
        yield* run.pipe(Stream.take(3), Stream.runDrain, Effect.provide(Local))
        const { notes } = Option.getOrThrow(yield* RunLog.read(directory))
        assert.include(notes[0]?.message ?? "", "expires in 180 minutes")
        yield* TestClock.adjust("3 hours")
        const error = yield* Effect.flip(Stream.runDrain(run).pipe(Effect.provide(Local)))
        assert.strictEqual(error._tag, "CheckpointsExpired")
      }).pipe(Effect.provide(NodeContext.layer)),
    60_000
  )
})
