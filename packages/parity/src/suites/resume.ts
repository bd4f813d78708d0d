/**
 * `--resume`: every trainer of the cookbook killed with SIGKILL at random moments, and started again. A number after the
 * flag says how often (20); names of trainers say which.
 */
import { Console, Effect } from "effect"
import { cases, program, rounds } from "../resume/rounds.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "resume"

export const resume: Suite = {
  name,
  summary: "kill -9 during training runs: the series of losses is that of an undisturbed run, bit for bit",
  run: (args) =>
    Effect.gen(function*() {
      const kills = args.map(Number).find((n) => Number.isInteger(n) && n > 0) ?? 20
      const child = yield* program
      const named = cases.filter(({ trainer }) => args.includes(trainer))
      for (const one of named.length > 0 ? named : cases) {
        const { differences, resumes } = yield* rounds(one, kills, child)
        if (differences.length > 0) return yield* new Differs({ suite: name, differences })
        const background = one.background ? "background" : "blocking"
        yield* Console.log(
          `${one.trainer}, ${one.submitAhead} steps ahead, ${background} saves: killed ${kills} times, resumed ${resumes} times, the same`
        )
      }
    }).pipe(
      Effect.scoped,
      Effect.catchTag("ResumeFailed", ({ reason }) => new Differs({ suite: name, differences: [reason] }))
    )
}
