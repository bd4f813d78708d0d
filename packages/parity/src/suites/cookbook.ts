/**
 * `--cookbook`: random trajectories turned into data by the official cookbook and by ours, and a supervised run of both.
 */
import { Console, Effect, Schema } from "effect"
import { compare, Vectors } from "../cookbook/compare.js"
import { compareLoops } from "../cookbook/loop.js"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs, PythonFailed } from "../Suite.js"

const name = "cookbook"
const program = "cookbook_vectors"

export const cookbook: Suite = {
  name,
  summary: "trajectories, masks, advantages, divergences and a supervised run beside the official cookbook",
  run: Effect.fnUntraced(function*(args) {
    const python = yield* Python.makeCookbook
    const seeds = args.length === 0 ? ["1", "2", "3"] : args
    for (const seed of seeds) {
      const batches = yield* Schema.decode(Vectors)(yield* python.run(program, seed)).pipe(
        Effect.mapError((error) => new PythonFailed({ program, reason: error.message }))
      )
      const { differences, rows, trajectories } = compare(batches)
      if (differences.length > 0) return yield* new Differs({ suite: name, differences })
      yield* Console.log(
        `seed ${seed}: ${trajectories} trajectories, ${rows} rows: tokens and masks the same, numbers to 1e-6`
      )
    }
    const loops = yield* compareLoops(python).pipe(
      Effect.mapError((error) =>
        error._tag === "PythonFailed" ? error : new Differs({ suite: name, differences: [`loop: ${error.message}`] })
      )
    )
    if (loops.differences.length > 0) return yield* new Differs({ suite: name, differences: loops.differences })
    yield* Console.log(
      `supervised loop: the losses of ${loops.steps} steps differ by ${loops.apart.toExponential(1)} at most`
    )
  })
}
