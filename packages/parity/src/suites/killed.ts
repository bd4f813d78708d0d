/**
 * `--killed`: a process that saves checkpoints is killed again and again; whatever it had acknowledged must load.
 * A number after the flag says how often (200).
 */
import { Console, Effect } from "effect"
import { killRounds } from "../killed/rounds.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"

const name = "killed"

export const killed: Suite = {
  name,
  summary: "kill -9 during saves of the embedded backend: every acknowledged checkpoint loads",
  run: (args) =>
    Effect.gen(function*() {
      const count = args.map(Number).find((n) => Number.isInteger(n) && n > 0) ?? 200
      const { acknowledged, lost, rounds, unfinished } = yield* killRounds(count)
      yield* Console.log(
        `${rounds} kills, ${unfinished} in the middle of a save; ${acknowledged} acknowledged saves, ${lost.length} lost`
      )
      if (lost.length > 0) return yield* new Differs({ suite: name, differences: lost })
    }).pipe(Effect.catchTag("KillFailed", ({ reason }) => new Differs({ suite: name, differences: [reason] })))
}
