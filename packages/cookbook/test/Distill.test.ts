import { Dataset, Distill, Example, Supervised } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { collect, Local, renderer } from "./utils/local.js"

describe("Distill.onPolicy", () => {
  it.scoped("the student comes nearer to the teacher", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const lessons = yield* collect(Supervised.train({
        model: { baseModel: "local/tiny", rank: 8, seed: 1 },
        data: Dataset.fromIterable(
          Array.from({ length: 4 }, (_, n) => Example.conversation([Message.user(`${n}?`), Message.assistant("aaaa")]))
        ),
        renderer: write,
        learningRate: 3e-3,
        batchSize: 4,
        epochs: 10
      }))
      const { checkpoint } = Option.getOrThrow(lessons[9]?.final ?? Option.none())
      const reports = yield* collect(Distill.onPolicy({
        model: { baseModel: "local/tiny", rank: 8, seed: 2 },
        prompts: Dataset.fromIterable(["0?", "1?"]),
        teacher: checkpoint.samplerPath ?? "",
        renderer: write,
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
    }).pipe(Effect.provide(Local)), 60_000)
})
