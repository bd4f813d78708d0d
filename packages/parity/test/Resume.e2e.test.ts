import { NodeContext } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { cases, killed, program } from "../src/resume/rounds.js"

/** The program that is killed, bundled once for all cases. */
class Program extends Context.Tag("Program")<Program, string>() {}

const Live = Layer.provideMerge(Layer.scoped(Program, program), NodeContext.layer)

/**
 * Each trainer, and steps in flight with saves of both kinds in the one that has the loop of all.
 * `npm run parity -- --resume` has every combination, and twenty kills of each.
 */
const chosen = cases.filter(({ background, submitAhead, trainer }) =>
  trainer === "off-policy" ? background && submitAhead === 3 : background === (submitAhead !== 1)
)

layer(Live, { excludeTestServices: true, timeout: 240_000 })("a run whose process is killed", (it) => {
  for (const one of chosen) {
    const saves = one.background ? "background" : "blocking"
    it.effect(
      `${one.trainer} resumes bit for bit: submit-ahead ${one.submitAhead}, ${saves} saves`,
      () =>
        Effect.gen(function*() {
          const { differences } = yield* killed(one, 2, yield* Program)
          assert.deepStrictEqual(differences, [])
        }),
      240_000
    )
  }
})
