import { NodeContext } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Load from "../src/chaos/load.js"

it.live(
  "many samples at once from a busy server, beside a model in training: all answered once, nothing starved",
  () =>
    Effect.gen(function*() {
      const report = yield* Load.run({ samples: 200, concurrency: 100, seed: 1 })
      assert.deepStrictEqual(report.broken, [])
      assert.isAbove(report.training.steps, 0)
      // the server did misbehave
      assert.isAbove(report.faults["429"] ?? 0, 0)
    }).pipe(Effect.provide(NodeContext.layer)),
  120_000
)
