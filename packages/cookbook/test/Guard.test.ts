import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Option, Stream } from "effect"
import * as Dataset from "../src/Dataset.js"
import * as Example from "../src/Example.js"
import * as Guard from "../src/Guard.js"
import * as RunLog from "../src/RunLog.js"
import * as Supervised from "../src/Supervised.js"

/** What is found step by step, up to the first finding. */
const found = (guard: Guard.Guard, metric: string, values: ReadonlyArray<number>) => {
  const { observe } = Guard.watch(guard)
  for (const [i, value] of values.entries()) {
    const finding = observe(i + 1, { [metric]: value })
    if (Option.isSome(finding)) return { step: i + 1, ...finding.value }
  }
  return undefined
}

describe("Guard", () => {
  it("the median of three steps is judged by the lowest one before: nats of the loss and of distances", () => {
    // medians of three from the third step on: 2, 1.5, 1.5, 1.5, 4.5, 4.6; the lowest is 1.5
    const values = [3, 2, 1, 1.5, 1.5, 4.5, 4.6, 4.7]
    assert.deepStrictEqual(found({}, "loss", values), { step: 8, metric: "loss", value: 4.6, limit: 4.5, since: 6 })
    for (const metric of ["kl_reference", "kl_sample_train_v1"]) {
      assert.deepStrictEqual(found({}, metric, values)?.step, 8)
      assert.isUndefined(found({ kl: 3.2 }, metric, values))
    }
    assert.isUndefined(found({ loss: Infinity }, "loss", values))
    // a single step that is much worse is no divergence, a distance that is twice as far away is
    assert.isUndefined(found({}, "loss", [1, 1, 1, 7, 1, 1, 7, 1]))
    assert.isUndefined(found({}, "loss", [2, 1, 1, 1, 7.1, 1]))
    assert.deepStrictEqual(found({}, "kl_reference", [2, 1, 1, 1, 7.1, 1]), {
      step: 5,
      metric: "kl_reference",
      value: 7.1,
      limit: 7,
      since: 5
    })
    assert.isUndefined(found({}, "loss", [1, 90, 1, 1]))
    assert.strictEqual(found({ window: 1 }, "loss", [1, 1, 1, 4.1, 1])?.step, 4)
    assert.isUndefined(found({}, "entropy", [0, 0, 0, 90, 90, 90]))
  })

  it("the gradient is judged by the largest of the first ten norms that are not zero", () => {
    const first = [0, 0, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert.deepStrictEqual(found({}, "grad_norm", [...first, 200, 200, 1, 201, 201, 201]), {
      step: 17,
      metric: "grad_norm",
      value: 201,
      limit: 200,
      since: 15
    })
    // eleven steps with a norm are not enough where the window takes three of them
    assert.isUndefined(found({}, "grad_norm", [...first.slice(2), 1e6, 1e6]))
    assert.isUndefined(found({ gradNorm: 1e4 }, "grad_norm", [...first, 201, 201, 201]))
  })

  it("what is no number counts as the largest, where there was a number before", () => {
    assert.strictEqual(found({}, "loss", [1, 1, 1, NaN, NaN])?.step, 5)
    assert.strictEqual(found({}, "loss", [1, 1, 1, NaN, 1, Infinity])?.step, 6)
    assert.isUndefined(found({}, "loss", [NaN, NaN, NaN, NaN]))
  })

  const chats = ["cat", "dog", "cow", "hen"].map((animal, n) =>
    Example.conversation([Message.user(`${n}?`), Message.assistant(animal)])
  )
  const run = (log: RunLog.Target<FileSystem.FileSystem>, guard?: Guard.Guard | false) =>
    Stream.unwrap(Effect.map(
      Effect.flatMap(Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles), Renderers.qwen3Instruct),
      (renderer) =>
        Supervised.train({
          model: { baseModel: "local/tiny", rank: 4, seed: 1 },
          data: Dataset.fromIterable(chats),
          renderer,
          // gentle at first, then far too hot
          learningRate: { peak: 0.2, warmUp: 200 },
          batchSize: 4,
          epochs: 40,
          checkpoints: { periodic: { steps: 2 } },
          guard,
          log
        })
    ))

  it.scoped("a run that diverges is stopped, names the last good checkpoint, and is stopped there when it is resumed too", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.makeDirectory(`${directory}/backend`)
      yield* Effect.gen(function*() {
        const whole = yield* Effect.flip(Stream.runDrain(run(RunLog.directory(`${directory}/whole`))))
        if (whole._tag !== "Diverged") return assert.fail(whole.message)
        assert.strictEqual(whole.metric, "loss")
        const { ended, steps } = Option.getOrThrow(yield* RunLog.read(`${directory}/whole`))
        assert.strictEqual(steps.length, whole.step)
        assert.isTrue(Option.exists(ended, ({ complete, outcome }) => !complete && outcome === "failure"))
        const losses = steps.map(({ metrics }) => metrics["loss"] ?? NaN)
        const medians = losses.slice(2).map((_, i) => [...losses.slice(i, i + 3)].sort((a, b) => a - b)[1] ?? NaN)
        // No step before it has a median of three that is three nats above the lowest.
        const broken = medians.map((value, i) => value > Math.min(...medians.slice(0, i + 1)) + 3)
        assert.strictEqual(broken.indexOf(true), broken.length - 1)
        const good = Math.floor((whole.step - 4) / 2) * 2
        assert.match(whole.checkpoint ?? "", new RegExp(`/weights/${String(good).padStart(6, "0")}$`))
        assert.include(whole.message, `the last good checkpoint is ${whole.checkpoint}`)

        const cut = RunLog.directory(`${directory}/cut`)
        yield* Stream.runDrain(Stream.take(run(cut), whole.step - 2))
        const resumed = yield* Effect.flip(Stream.runDrain(run(cut)))
        if (resumed._tag !== "Diverged") return assert.fail(resumed.message)
        assert.deepStrictEqual(
          [resumed.step, resumed.metric, resumed.value, resumed.limit],
          [whole.step, whole.metric, whole.value, whole.limit]
        )

        const unguarded = yield* Stream.runCollect(Stream.take(run(RunLog.none, false), whole.step + 1))
        assert.strictEqual(Chunk.size(unguarded), whole.step + 1)
      }).pipe(Effect.provide(TinkerLocal.layerDirectory(`${directory}/backend`)))
    }).pipe(Effect.provide(NodeContext.layer)))
})
