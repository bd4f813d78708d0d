import { NodeContext } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { killRounds } from "../src/killed/rounds.js"

const rounds = Number(process.env["TINKER_TEST_RUNS"] ?? 3)

it.live(`kill -9 during saves, ${rounds} times: every acknowledged checkpoint loads`, () =>
  Effect.gen(function*() {
    const report = yield* killRounds(rounds)
    assert.deepStrictEqual(report.lost, [])
    assert.isAtLeast(report.acknowledged, rounds)
  }).pipe(Effect.provide(NodeContext.layer)), 60_000 * rounds)
