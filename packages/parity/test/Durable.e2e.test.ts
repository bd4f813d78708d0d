import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { rounds } from "../src/durable/rounds.js"
import { run } from "../src/durable/workers.js"

describe("durable runs", () => {
  it.live(
    "killed with their server and workers at random moments, compute what an undisturbed run computes",
    () =>
      Effect.gen(function*() {
        const report = yield* rounds(3, 1)
        assert.deepStrictEqual(report.differences, [])
        assert.isAtLeast(report.killed.server + report.killed.trainer + report.killed.worker, 3)
        assert.strictEqual(report.steps, 16)
      }).pipe(Effect.provide(NodeContext.layer)),
    900_000
  )

  for (const store of ["database", "bucket"] as const) {
    it.live(
      `a thousand rollouts by three workers, one killed and one added, are trained on once each, also when Postgres ` +
        `restarts; their trajectories are in a ${store}`,
      (context) =>
        Effect.gen(function*() {
          const report = yield* run(store)
          // apt-get install postgresql; go install github.com/versity/versitygw/cmd/versitygw@latest
          if (Option.isNone(report)) return context.skip("there is no Postgres or no object store on this machine")
          assert.deepStrictEqual(report.value.differences, [])
          assert.strictEqual(report.value.rollouts, 1024)
          assert.strictEqual(report.value.stored, 1024)
          assert.strictEqual(report.value.twice, 0)
          assert.strictEqual(report.value.workers.length, 4)
        }).pipe(Effect.provide(NodeContext.layer)),
      900_000
    )
  }
})
