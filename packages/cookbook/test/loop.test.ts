import { Dataset, Example, RunLog, Trainer } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, Stream } from "effect"
import * as Loop from "../src/internal/loop.js"
import * as BatchReader from "../src/internal/loop/batchReader.js"
import { countStep, nameOf, startCounters } from "../src/internal/loop/checkpointSaver.js"
import * as steps from "../src/internal/steps.js"
import { Local, renderer } from "./utils/local.js"

const skipped: Dataset.Skipped = {
  _tag: "Skipped",
  origin: { source: "rows.jsonl", row: 1 },
  reason: "empty",
  detail: "",
  next: Dataset.start()
}

const batch = (items: ReadonlyArray<string>, left: ReadonlyArray<Dataset.Skipped> = []): Dataset.Batch<string> => ({
  items,
  skipped: left,
  epoch: 0,
  next: Dataset.start()
})

describe("batchReader", () => {
  it.scoped("a batch carries what was left out since the one before, empty batches included", () =>
    Effect.gen(function*() {
      const reader = yield* BatchReader.make(
        Stream.make(batch(["a"]), batch([], [skipped]), batch(["b"], [skipped]), batch([], [skipped]))
      )
      const taken: Array<readonly [ReadonlyArray<string>, number]> = []
      while (yield* reader.hasNext(Option.none())) {
        const read = Option.getOrThrow(reader.take())
        taken.push([read.batch.items, read.skipped.length])
      }
      assert.deepStrictEqual(taken, [[["a"], 0], [["b"], 2]])
      assert.strictEqual(reader.takeSkipped().length, 1)
      assert.deepStrictEqual(reader.end(), Option.some("data"))
    }))

  it.scoped("a limit keeps the batch that is held, and reads no other", () =>
    Effect.gen(function*() {
      let read = 0
      const reader = yield* BatchReader.make(
        Stream.tap(Stream.make(batch(["a"]), batch(["b"])), () => Effect.sync(() => read++))
      )
      assert.isTrue(yield* reader.hasNext(Option.none()))
      assert.isTrue(yield* reader.hasNext(Option.some("budget")))
      assert.deepStrictEqual(reader.end(), Option.none())
      assert.isTrue(Option.isSome(reader.take()))
      assert.isFalse(yield* reader.hasNext(Option.some("budget")))
      assert.isFalse(yield* reader.hasNext(Option.none()))
      assert.deepStrictEqual(reader.end(), Option.some("budget"))
      assert.strictEqual(read, 1)
    }))
})

describe("checkpointSaver", () => {
  it("a periodic checkpoint starts both counters again, a rolling one its own", () => {
    const policy = { periodic: { steps: 3 }, rolling: { tokens: 20 } }
    let counters = startCounters(0)
    const due = [10, 10, 10, 10, 10].map((tokens, i) => {
      const counted = countStep(policy, counters, tokens, i)
      counters = counted.counters
      return Option.getOrNull(counted.due)
    })
    assert.deepStrictEqual(due, [null, "rolling", "periodic", null, "rolling"])
    assert.deepStrictEqual(counters, {
      periodic: { steps: 2, tokens: 20, at: 2 },
      rolling: { steps: 0, tokens: 0, at: 4 }
    })
  })

  it("names sort by steps", () => {
    assert.deepStrictEqual(
      [nameOf("periodic", 20), nameOf("rolling", 7), nameOf("exit", 123), nameOf("final", 9)],
      ["000020", "rolling-000007", "exit-000123", "final"]
    )
  })
})

describe("loop", () => {
  it.scopedLive("cut short while a save is sent, it records the step before the save", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const example = Example.conversation([Message.user("1?"), Message.assistant("dog")])
      const datum = yield* Example.toDatum(example, { renderer: yield* renderer })
      const sending = yield* Effect.makeLatch(false)
      const run = Effect.gen(function*() {
        const training = yield* Trainer.makeClient(
          new Trainer.Model({ baseModel: "local/tiny", rank: 4 }),
          Option.none()
        )
        const log = yield* RunLog.directory(directory).open({ trainer: "loop", config: {} })
        yield* Stream.runDrain(Loop.run({
          trainer: "loop",
          log,
          training: {
            ...training,
            saveState: (name, options) =>
              name === "000002" ? Effect.zipRight(sending.open, Effect.never) : training.saveState(name, options)
          },
          checkpoints: { periodic: { steps: 2 } },
          evaluators: [],
          evaluateEvery: 1,
          submitAhead: 0,
          guard: false,
          cost: undefined,
          totalSteps: Option.none(),
          learningRate: () => 1e-3,
          batches: Stream.range(1, 3).pipe(
            Stream.map((index) => ({ items: [datum], skipped: [], epoch: 0, next: { epoch: 0, index, offset: 0 } }))
          ),
          prepare: (batch, { learningRate }) =>
            Effect.succeed(steps.supervised(training, batch, new Trainer.Adam({}), learningRate))
        }))
      })
      const fiber = yield* Effect.fork(Effect.scoped(run))
      yield* sending.await
      yield* Fiber.interrupt(fiber)
      const found = Option.getOrThrow(yield* RunLog.read(directory))
      assert.deepStrictEqual(found.checkpoints.map(({ kind, step }) => [kind, step]), [["exit", 2]])
      assert.deepStrictEqual(found.steps.map(({ step }) => step), [1, 2])
    }).pipe(Effect.provide([Local, NodeContext.layer])))
})
