import { NodeContext } from "@effect/platform-node"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { cases, killed, program } from "../src/resume/rounds.js"

/** The program that is killed, bundled once for all cases. */
class Program extends Context.Tag("Program")<Program, string>() {}

const Live = Layer.provideMerge(Layer.scoped(Program, program), NodeContext.layer)

/** `npm run parity -- --resume` has twenty kills of each. */
layer(Live, { excludeTestServices: true, timeout: 240_000 })("a run whose process is killed", (it) => {
  for (const one of cases.filter(({ background, submitAhead }) => background === (submitAhead !== 1))) {
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
