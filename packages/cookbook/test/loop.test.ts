import { Dataset } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Stream } from "effect"
import * as BatchReader from "../src/internal/loop/batchReader.js"
import { countStep, nameOf, startCounters } from "../src/internal/loop/checkpointSaver.js"

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
