import { Command } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../../", import.meta.url))
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
        const output = yield* Command.make(
          process.execPath,
          "--conditions=@effect-tinker/source",
          "--import",
          "tsx",
          "examples/quickstart.ts",
          "--seed",
          "7",
          "--json"
        ).pipe(Command.workingDirectory(root), Command.string)
        const measured = yield* Schema.decode(Measured)(output.trimEnd().split("\n").at(-1) ?? "")
        assert.strictEqual(measured.seed, 7)
        assert.strictEqual(measured.supervised.before, 0)
        assert.isAtLeast(measured.supervised.after, 0.4)
        assert.isAtLeast(measured.reward.after, measured.reward.before + 0.25)
        assert.strictEqual(measured.same, 1)
      }).pipe(Effect.provide(NodeContext.layer)),
    600_000
  )
})
