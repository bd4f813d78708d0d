import { Dataset, Distill, Example, RunLog, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Stream } from "effect"
import { TensorData } from "effect-tinker"
import { collect, Local, renderer } from "./utils/local.js"

const student = { baseModel: "local/tiny", rank: 8, seed: 2 }

const lessons = Dataset.fromIterable(
  Array.from({ length: 4 }, (_, n) => Example.conversation([Message.user(`${n}?`), Message.assistant("aaaa")]))
)

/** A model that answers with a letter, as the path of its sampler. */
const teacher = Effect.gen(function*() {
  const reports = yield* collect(Supervised.train({
    model: { baseModel: "local/tiny", rank: 8, seed: 1 },
    data: lessons,
    renderer: yield* renderer,
    learningRate: 3e-3,
    batchSize: 4,
    epochs: 10
  }))
  return Option.getOrThrow(reports[9]?.final ?? Option.none()).checkpoint.samplerPath ?? ""
})

const Live = Layer.merge(Local, NodeContext.layer)

describe("Distill.onPolicy", () => {
  it.scoped("the student comes nearer to the teacher", () =>
    Effect.gen(function*() {
      const reports = yield* collect(Distill.onPolicy({
        model: student,
        prompts: Dataset.fromIterable(["0?", "1?"]),
        teacher: yield* teacher,
        renderer: yield* renderer,
        learningRate: 1e-3,
        maxTokens: 4,
        groupSize: 16,
        groupsPerBatch: 2,
        epochs: 10
      }))
      const apart = reports.map(({ metrics }) => metrics["kl_reference"] ?? NaN)
      assert.strictEqual(apart.length, 10)
      assert.isAbove(apart[0] ?? NaN, 1)
      assert.isBelow(apart[9] ?? NaN, (apart[0] ?? 0) / 2)
    }).pipe(Effect.provide(Local)))
})

describe("Distill.offPolicy", () => {
  it.scoped("the student learns the teacher's distribution, and resumes bit for bit", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const options = {
        model: student,
        data: lessons,
        teacher: yield* teacher,
        topK: 5,
        renderer: yield* renderer,
        learningRate: 2e-3,
        batchSize: 2,
        epochs: 5
      }
      const whole = yield* collect(Distill.offPolicy(options))
      const apart = whole.map(({ metrics }) => metrics["teacher_kl"] ?? NaN)
      assert.strictEqual(apart.length, 10)
      assert.isTrue(apart.every((kl) => kl > 0))
      assert.isBelow(apart[9] ?? NaN, (apart[0] ?? 0) / 2)
      const run = Distill.offPolicy({ ...options, log: RunLog.directory(directory) })
      const parts = [yield* collect(Stream.take(run, 3)), yield* collect(run)].flat()
      const found = Option.getOrThrow(yield* RunLog.read(directory))
      assert.deepStrictEqual(found.steps.map(({ metrics }) => metrics["loss"]), whole.map(({ loss }) => loss))
      assert.isAtLeast(parts.length, 9)
      assert.strictEqual(found.trainer, "distill-off-policy")
    }).pipe(Effect.provide(Live)))

  it.effect("soft targets are the teacher's likeliest tokens, shifted by one, and weigh what the token weighs", () =>
    Effect.gen(function*() {
      const half = Math.log(0.5)
      const { datum, entropy } = yield* Distill.softTargets({
        tokens: Int32Array.of(10, 11, 12),
        weights: [0, 0, 2],
        candidates: {
          k: 2,
          length: 3,
          tokenIds: Int32Array.of(0, 0, 11, 5, 12, 7),
          logprobs: Float32Array.of(-99999, -99999, half, half, Math.log(0.3), Math.log(0.1))
        }
      })
      const targets = datum.lossFnInputs["target_tokens"]
      const weights = datum.lossFnInputs["weights"]
      assert(targets !== undefined && weights !== undefined)
      assert.deepStrictEqual(TensorData.toNested(targets), [[0, 0], [12, 7]])
      const shares = Array.from(TensorData.toFloat32Array(weights), (weight) => Number(weight.toFixed(6)))
      assert.deepStrictEqual(shares, [0, 0, 1.5, 0.5])
      assert.closeTo(entropy, -2 * (0.75 * Math.log(0.75) + 0.25 * Math.log(0.25)), 1e-6)
    }))
})

describe("Distill.self", () => {
  it.scoped("the student answers without the instruction as its teacher does with it", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const hinted = [Message.system("aaaaaaaa"), Message.user("?")]
      const reports = yield* collect(Distill.self({
        model: student,
        data: Dataset.fromIterable([1, 2]),
        prompt: () => [Message.user("?")],
        teacherPrompt: () => hinted,
        teacher: yield* teacher,
        renderer: write,
        learningRate: 2e-3,
        maxTokens: 4,
        groupSize: 4,
        topK: 8,
        batchSize: 2,
        epochs: 10,
        skipFirst: 1
      }))
      const apart = reports.map(({ metrics }) => metrics["teacher_kl"] ?? NaN)
      assert.strictEqual(apart.length, 10)
      assert.isBelow(apart[9] ?? NaN, (apart[0] ?? 0) / 2)
      // without anything the student is not shown, the base model is its own teacher from the beginning
      const [same] = yield* collect(Distill.self({
        model: student,
        data: Dataset.fromIterable([1]),
        prompt: () => hinted,
        teacherPrompt: () => hinted,
        renderer: write,
        learningRate: 0,
        maxTokens: 4,
        topK: 320,
        batchSize: 1
      }))
      assert.closeTo(same?.metrics["teacher_kl"] ?? NaN, 0, 1e-4)
    }).pipe(Effect.provide(Local)))
})

describe("Distill.softTargets", () => {
  it("soft targets take the row of their place, and leave out what has none", () =>
    Effect.runPromise(Effect.gen(function*() {
      const one = { k: 1, tokenIds: Int32Array.of(5, 6, 7), logprobs: Float32Array.of(-1, -2, -3), length: 3 }
      const { datum, entropy } = yield* Distill.softTargets({
        tokens: Int32Array.of(1, 2, 3, 4),
        weights: [9, 1, 1, 1],
        candidates: one,
        offset: 1
      })
      // places 2, 3 and 4 of the candidates; there are three of them, counted from 0
      const targets = datum.lossFnInputs["target_tokens"]
      assert(targets !== undefined)
      assert.deepStrictEqual(TensorData.toNested(targets), [[7], [0], [0]])
      // One candidate is certain, whatever its probability was among all.
      assert.strictEqual(entropy, 0)
    })))
})
