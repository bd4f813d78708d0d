import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { cases, killed, program } from "../src/resume/rounds.js"

/** `npm run parity -- --resume` has twenty kills of each. */
describe.sequential("a run whose process is killed", () => {
  for (const one of cases.filter(({ background, submitAhead }) => background === (submitAhead !== 1))) {
    const saves = one.background ? "background" : "blocking"
    it.live(
      `${one.trainer} resumes bit for bit: submit-ahead ${one.submitAhead}, ${saves} saves`,
      () =>
        Effect.gen(function*() {
          const { differences } = yield* killed(one, 2, yield* program)
          assert.deepStrictEqual(differences, [])
        }).pipe(Effect.scoped, Effect.provide(NodeContext.layer)),
      240_000
    )
  }
})
