/**
 * A durable run whose processes are killed at random moments: the one that trains, the server, or both. In the end it has
 * computed what an undisturbed run computes.
 */
import { FileSystem } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Duration, Effect, Random } from "effect"
import { freePort } from "../chaos/processes.js"
import { differencesOf, DurableFailed, keepAlive, loader, seriesOf } from "./processes.js"

export interface Report {
  readonly kills: Readonly<Record<Target, number>>
  /** Times the journal was opened again. */
  readonly resumes: number
  readonly steps: number
  /** Where the series of losses and rewards differs from the undisturbed one. */
  readonly differences: ReadonlyArray<string>
}

type Target = "trainer" | "server" | "both"

const targets: ReadonlyArray<Target> = ["trainer", "server", "both"]
const apiKey = "tml-durable"

interface Programs {
  readonly server: string
  readonly trainer: string
}

/** One run from beginning to end, with so many kills on the way. */
const run = Effect.fnUntraced(function*(
  programs: Programs,
  root: string,
  name: string,
  kills: number,
  count: (target: Target) => void
) {
  const fs = yield* FileSystem.FileSystem
  const directory = `${root}/${name}`
  yield* fs.makeDirectory(`${directory}-backend`, { recursive: true })
  const port = yield* freePort
  const server = yield* keepAlive("server", [programs.server, String(port), `${directory}-backend`, apiKey])
  const trainer = yield* keepAlive("trainer", [programs.trainer, directory, `http://127.0.0.1:${port}`, apiKey])
  let left = kills
  const killer = Effect.gen(function*() {
    while (left > 0) {
      yield* Effect.sleep(Duration.millis(yield* Random.nextIntBetween(100, 4000)))
      const target = targets[yield* Random.nextIntBetween(0, targets.length)] ?? "trainer"
      const hits = yield* Effect.all([
        target === "server" ? Effect.succeed(true) : trainer.kill,
        target === "trainer" ? Effect.succeed(true) : server.kill
      ])
      if (hits.every((hit) => hit)) {
        left--
        count(target)
      }
    }
    return yield* Effect.never
  })
  // The server does not end by itself, unless it fails.
  yield* Effect.raceFirst(trainer.ended, Effect.raceFirst(server.ended, killer)).pipe(
    Effect.timeoutFail({
      duration: Duration.minutes(5 + kills),
      onTimeout: () => new DurableFailed({ reason: `${name}: the run did not end` })
    })
  )
  return { ...yield* seriesOf(directory), left }
}, Effect.scoped)

/** Runs until so many kills have struck, as often as it takes. */
export const rounds = (kills: number): Effect.Effect<Report, DurableFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-durable-" })
    const load = yield* loader
    const programs: Programs = { server: yield* load("server"), trainer: yield* load("trainer") }

    const counts = { trainer: 0, server: 0, both: 0 }
    const whole = yield* run(programs, root, "whole", 0, () => undefined)
    let left = kills
    let resumes = 0
    const differences: Array<string> = []
    for (let round = 1; left > 0; round++) {
      const found = yield* run(programs, root, `killed-${round}`, left, (target) => counts[target]++)
      if (found.left === left) return yield* new DurableFailed({ reason: "no kill struck the run" })
      left = found.left
      resumes += found.resumes
      differences.push(
        ...differencesOf(whole.series, found.series).map((difference) => `round ${round}: ${difference}`)
      )
    }
    return { kills: counts, resumes, steps: whole.series.length, differences }
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => error instanceof DurableFailed ? error : new DurableFailed({ reason: String(error) }))
  )
