import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { bundle } from "../shared/run.js"

const Accuracy = Schema.Struct({ before: Schema.Number, after: Schema.Number })
const Measured = Schema.parseJson(Schema.Struct({
  seed: Schema.Int,
  supervised: Accuracy,
  reward: Accuracy,
  same: Schema.Number,
  seconds: Schema.Positive,
  eventLoopDelayMillis: Schema.Positive
}))

describe("npm run quickstart", () => {
  it.scopedLive(
    "learns what it is asked about in neither lesson, and says the same after coming back",
    () =>
      Effect.gen(function*() {
        const examples = yield* Effect.acquireRelease(
          Effect.promise(() => bundle(["quickstart"], { sourceMaps: false })),
          ({ dispose }) => Effect.sync(dispose)
        )
        const { code, output } = yield* Effect.promise(() =>
          examples.run("quickstart", { stdio: ["ignore", "pipe", "inherit"] }, ["--seed", "7", "--json"])
        )
        assert.strictEqual(code, 0, output)
        const measured = yield* Schema.decode(Measured)(output.trimEnd().split("\n").at(-1) ?? "")
        assert.strictEqual(measured.seed, 7)
        assert.strictEqual(measured.supervised.before, 0)
        assert.isAtLeast(measured.supervised.after, 0.4)
        assert.isAtLeast(measured.reward.after, measured.reward.before + 0.25)
        assert.strictEqual(measured.same, 1)
      }),
    600_000
  )
})
