/**
 * A durable run whose processes are killed at random moments: the one that trains, the server, a worker that runs its
 * rollouts, or several at once. In the end it has computed what an undisturbed run without workers computes.
 */
import * as NodePostgres from "@effect-tinker/cluster/NodePostgres"
import { FileSystem } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Console, Duration, Effect, Option, Random, Redacted } from "effect"
import { freePort } from "../chaos/processes.js"
import { differencesOf, DurableFailed, keepAlive, loader, seriesOf } from "./processes.js"

export interface Report {
  /** How often each was killed; two that are killed at the same moment count once each. */
  readonly killed: Readonly<Record<Victim, number>>
  /** Moments at which something was killed. */
  readonly moments: number
  /** Runs it took. */
  readonly rounds: number
  /** Times the journal was opened again. */
  readonly resumes: number
  readonly steps: number
  /** Where losses, rewards and sampled tokens differ from those of the undisturbed run. */
  readonly differences: ReadonlyArray<string>
}

type Victim = "trainer" | "server" | "worker"

const targets: ReadonlyArray<ReadonlyArray<Victim>> = [
  ["trainer"],
  ["server"],
  ["worker"],
  ["trainer", "server"],
  ["trainer", "worker"],
  ["server", "worker"],
  ["trainer", "server", "worker"]
]

const apiKey = "tml-durable"
const workers = 2

interface Programs {
  readonly server: string
  readonly trainer: string
  readonly worker: string
}

/** One run from beginning to end, with so many kills on the way. */
const run = Effect.fnUntraced(function*(
  programs: Programs,
  options: {
    readonly root: string
    readonly name: string
    readonly kills: number
    /** Longest time from one kill to the next. */
    readonly within: Duration.Duration
    /** Where rollouts are given to workers; in the trainer's process without it. */
    readonly database: Option.Option<Redacted.Redacted>
    readonly onKill: (victims: ReadonlyArray<Victim>) => void
  }
) {
  const fs = yield* FileSystem.FileSystem
  const directory = `${options.root}/${options.name}`
  yield* fs.makeDirectory(`${directory}-backend`, { recursive: true })
  const port = yield* freePort
  const baseUrl = `http://127.0.0.1:${port}`
  const database = Option.match(options.database, { onNone: () => "", onSome: Redacted.value })
  const server = yield* keepAlive("server", [programs.server, String(port), `${directory}-backend`, apiKey])
  const crew = yield* Effect.replicateEffect(
    keepAlive("worker", [programs.worker, database, baseUrl, apiKey, "4", "100"]),
    database === "" ? 0 : workers
  )
  let isTraining = false
  const trainer = yield* keepAlive("trainer", [programs.trainer, directory, baseUrl, apiKey, database], () => {
    isTraining = true
  })
  const possible = targets.filter((victims) => crew.length > 0 || !victims.includes("worker"))
  const kill = (victim: Victim) =>
    victim === "trainer"
      ? Effect.tap(trainer.kill, () => {
        isTraining = false
      })
      : victim === "server"
      ? server.kill
      : Effect.flatMap(Random.nextIntBetween(0, crew.length), (n) => crew[n]?.kill ?? Effect.succeed(false))
  let left = options.kills
  const killer = Effect.gen(function*() {
    while (left > 0) {
      // Half of the moments are such that a step was trained since the trainer was last killed, however long that takes on
      // a busy machine; the others may be any.
      if (yield* Random.nextBoolean) {
        yield* Effect.sleep("50 millis").pipe(
          Effect.repeat({ until: () => isTraining }),
          Effect.timeoutOption("3 minutes")
        )
      }
      yield* Effect.sleep(Duration.times(options.within, yield* Random.next))
      const victims = possible[yield* Random.nextIntBetween(0, possible.length)] ?? ["trainer"]
      const hit = yield* Effect.filter(victims, kill)
      if (hit.length > 0) {
        left--
        options.onKill(hit)
      }
    }
    return yield* Effect.never
  })
  // Server and workers do not end by themselves, unless they fail.
  const others = Effect.all([server.ended, ...crew.map(({ ended }) => ended), killer], {
    concurrency: "unbounded",
    discard: true
  })
  yield* Effect.raceFirst(trainer.ended, others).pipe(
    Effect.timeoutFail({
      duration: Duration.minutes(5 + options.kills),
      onTimeout: () => new DurableFailed({ reason: `${options.name}: the run did not end` })
    })
  )
  return { ...yield* seriesOf(directory), left }
}, Effect.scoped)

/** Runs until something was killed at so many moments, as often as it takes; with workers where there is a Postgres. */
export const rounds = (kills: number, seed: number): Effect.Effect<Report, DurableFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-durable-" })
    const load = yield* loader
    const programs: Programs = {
      server: yield* load("server"),
      trainer: yield* load("trainer"),
      worker: yield* load("worker")
    }
    const database = yield* NodePostgres.start
    if (Option.isNone(database)) yield* Console.log("# no Postgres on this machine: no worker is killed")

    const killed = { trainer: 0, server: 0, worker: 0 }
    const [took, whole] = yield* Effect.timed(run(programs, {
      root,
      name: "whole",
      kills: 0,
      within: Duration.zero,
      database: Option.none(),
      onKill: () => undefined
    }))
    const within = Duration.clamp(Duration.times(took, 0.25), { minimum: "2 seconds", maximum: "5 seconds" })
    yield* Console.log(`# undisturbed in ${Duration.toSeconds(took).toFixed()} s`)
    let left = kills
    let resumes = 0
    let round = 0
    const differences: Array<string> = []
    while (left > 0) {
      round++
      const found = yield* run(programs, {
        root,
        name: `killed-${round}`,
        kills: left,
        within,
        database,
        onKill: (victims) => victims.forEach((victim) => killed[victim]++)
      })
      if (found.left === left) return yield* new DurableFailed({ reason: "no kill struck the run" })
      const missed = differencesOf(whole.series, found.series).map((difference) => `round ${round}: ${difference}`)
      yield* Console.log(
        `# round ${round}: killed at ${left - found.left} moments, ${found.resumes} times resumed, ` +
          (missed.length === 0
            ? `the ${whole.series.length} steps and rollouts are the same`
            : `${missed.length} differences`)
      )
      left = found.left
      resumes += found.resumes
      differences.push(...missed)
    }
    return { killed, moments: kills, rounds: round, resumes, steps: whole.steps, differences }
  }).pipe(
    Effect.withRandom(Random.make(seed)),
    Effect.scoped,
    Effect.mapError((error) => error instanceof DurableFailed ? error : new DurableFailed({ reason: String(error) }))
  )
