/**
 * Trainers that are killed again and again: what they compute in the end is what they compute undisturbed.
 */
import { RunLog } from "@effect-tinker/cookbook"
import { Command, FileSystem } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Data, Duration, Effect, Option, Random, Stream } from "effect"
import { bundle } from "../Bundle.js"

export class ResumeFailed extends Data.TaggedError("ResumeFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

/** A trainer, and what makes resuming hard. */
export interface Case {
  readonly trainer: string
  readonly submitAhead: number
  readonly background: boolean
}

const saves = [false, true]

/** All trainers; steps in flight where a trainer has them. */
export const cases: ReadonlyArray<Case> = [
  ...["supervised", "off-policy"].flatMap((trainer) =>
    [0, 1, 3].flatMap((submitAhead) => saves.map((background) => ({ trainer, submitAhead, background })))
  ),
  ...["reinforce", "preference", "self"].flatMap((trainer) =>
    saves.map((background) => ({ trainer, submitAhead: 0, background }))
  )
]

export interface Report extends Case {
  /** Kills that hit a run at work. */
  readonly kills: number
  readonly resumes: number
  /** Where the series differs from the undisturbed one. */
  readonly differences: ReadonlyArray<string>
}

type Series = ReadonlyArray<readonly [step: number, loss: number | undefined, learningRate: number | undefined]>

const seriesOf = (directory: string) =>
  Effect.map(RunLog.read(directory), (found) => {
    const { resumes, steps } = Option.getOrThrow(found)
    const series: Series = steps.map(({ metrics, step }) => [step, metrics["loss"], metrics["learning_rate"]])
    return { resumes, series }
  })

const linesOf = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    fs.readFileString(path).pipe(
      Effect.map((text) => text.split("\n").length - 1),
      Effect.orElseSucceed(() => 0)
    ))

/** Runs the program; to be killed, it is killed some time after its journal has grown. */
const start = (program: string, args: ReadonlyArray<string>, kill: boolean) =>
  Effect.scoped(Effect.gen(function*() {
    const journal = `${args[1]}/journal.jsonl`
    const before = yield* linesOf(journal)
    const child = yield* Command.start(Command.make(process.execPath, program, ...args))
    const complaints = yield* Effect.fork(Stream.mkString(Stream.decodeText(child.stderr)))
    let killed = false
    if (kill) {
      yield* Effect.gen(function*() {
        const lines = yield* Random.nextIntBetween(1, 10)
        yield* Effect.repeat(Effect.delay(linesOf(journal), "2 millis"), { until: (now) => now >= before + lines })
        yield* Effect.sleep(Duration.millis(yield* Random.nextRange(0, 30)))
        killed = true
        yield* child.kill("SIGKILL")
      }).pipe(Effect.ignore, Effect.forkScoped)
    }
    // a process that was killed has no exit code
    const code = yield* Effect.option(child.exitCode)
    if (Option.exists(code, (status) => Number(status) === 0)) return "done" as const
    if (killed) return "killed" as const
    return yield* new ResumeFailed({ reason: `the run failed: ${yield* complaints}` })
  }))

/** One case: the program is killed so many times, then left alone. */
export const killed = (
  { background, submitAhead, trainer }: Case,
  kills: number
): Effect.Effect<Report, ResumeFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-resume-" })
    const program = yield* bundle(new URL("./child.ts", import.meta.url), root)
    const prepare = Effect.fnUntraced(function*(name: string) {
      yield* fs.makeDirectory(`${root}/${name}-backend`)
      return [trainer, `${root}/${name}`, `${root}/${name}-backend`, String(submitAhead), String(background)]
    })
    yield* start(program, yield* prepare("whole"), false)
    const whole = yield* seriesOf(`${root}/whole`)
    if (whole.series.length < 16) return yield* new ResumeFailed({ reason: "the undisturbed run is incomplete" })

    const args = yield* prepare("killed")
    let hits = 0
    let outcome: "killed" | "done" = "killed"
    while (outcome === "killed" && hits < kills) {
      outcome = yield* start(program, args, true)
      if (outcome === "killed") hits++
    }
    if (outcome === "killed") yield* start(program, args, false)
    const { resumes, series } = yield* seriesOf(`${root}/killed`)
    const length = Math.max(series.length, whole.series.length)
    return {
      trainer,
      submitAhead,
      background,
      kills: hits,
      resumes,
      differences: Array.from(
        { length },
        (_, i) => [JSON.stringify(whole.series[i]), JSON.stringify(series[i])] as const
      )
        .flatMap(([wanted, found]) => wanted === found ? [] : [`${trainer}: ${found} instead of ${wanted}`])
    }
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => error instanceof ResumeFailed ? error : new ResumeFailed({ reason: String(error) }))
  )

/** A case until it has been killed so many times, as often as it takes to run it. */
export const rounds = (one: Case, kills: number): Effect.Effect<Report, ResumeFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    let report = yield* killed(one, kills)
    while (report.kills < kills) {
      const more = yield* killed(one, kills - report.kills)
      report = {
        ...one,
        kills: report.kills + more.kills,
        resumes: report.resumes + more.resumes,
        differences: [...report.differences, ...more.differences]
      }
    }
    return report
  })
