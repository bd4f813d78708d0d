import { Dataset, Preference, RunLog } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Stream } from "effect"
import { collect, Local, renderer } from "./utils/local.js"

const pairs = Dataset.fromIterable(Array.from({ length: 4 }, (_, n) => ({
  prompt: [Message.user(`${n}?`)],
  chosen: [Message.assistant("yes, please")],
  rejected: [Message.assistant("no, never")]
})))

const options = {
  model: { baseModel: "local/tiny", rank: 8, seed: 1 },
  data: pairs,
  learningRate: 2e-3,
  batchSize: 2,
  epochs: 4,
  shuffle: 3
}

const Live = Layer.merge(Local, NodeContext.layer)

describe("Preference.train", () => {
  it.scoped(
    "begins at the reference, learns to tell the answers apart, and resumes bit for bit",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        const fs = yield* FileSystem.FileSystem
        const directory = yield* fs.makeTempDirectoryScoped()
        const whole = yield* collect(Preference.train({ ...options, renderer: write }))
        // the model is the reference: no margin, a loss of log 2
        assert.closeTo(whole[0]?.loss ?? NaN, Math.LN2, 1e-4)
        assert.closeTo(whole[0]?.metrics["margin"] ?? NaN, 0, 1e-3)
        assert.strictEqual(whole[7]?.metrics["accuracy"], 1)
        assert.isBelow(whole[7]?.loss ?? NaN, 0.3)

        const run = Preference.train({ ...options, renderer: write, log: RunLog.directory(directory) })
        const parts = [yield* collect(Stream.take(run, 3)), yield* collect(run)].flat()
        assert.deepStrictEqual(parts.map(({ loss }) => loss), whole.map(({ loss }) => loss))
        // two answers for each of four prompts, each scored once over four epochs and two processes
        const cache = (yield* fs.readFileString(`${directory}/cache.jsonl`)).trim().split("\n")
        assert.strictEqual(cache.length, 8)
        assert.strictEqual(Option.getOrThrow(yield* RunLog.read(directory)).steps.length, 8)
      }).pipe(Effect.provide(Live)),
    60_000
  )
})
