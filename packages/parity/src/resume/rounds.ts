/**
 * Trainers that are killed again and again: what they compute in the end is what they compute undisturbed.
 *
 * In `async` mode, which weights a group is sampled from depends on how fast the machine is, so two undisturbed runs differ
 * too. What holds there: every step once and in order, on the same problems and at the same learning rate, from weights
 * within the bound on staleness.
 */
import { RunLog } from "@effect-tinker/cookbook"
import { Command, FileSystem } from "@effect/platform"
import type { NodeContext } from "@effect/platform-node"
import { Data, Duration, Effect, Option, Random, Schema, Stream } from "effect"
import { bundle } from "../Bundle.js"
import type { Case } from "./train.js"
import { train } from "./train.js"

export class ResumeFailed extends Data.TaggedError("ResumeFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

const saves = [false, true]
const asynchronous = "reinforce-async"
const maxStaleness = 2

/** All trainers; steps in flight where a trainer has them. */
export const cases: ReadonlyArray<Case> = [
  ...["supervised", "off-policy"].flatMap((trainer) =>
    [0, 1, 3].flatMap((submitAhead) => saves.map((background) => ({ trainer, submitAhead, background })))
  ),
  ...["reinforce", "reinforce-stream", asynchronous, "preference", "on-policy", "self"].flatMap((trainer) =>
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

const Sampled = Schema.Struct({ turns: Schema.Array(Schema.Struct({ prompt: Schema.Array(Schema.Number) })) })

/** What has to be the same of each step, as text. */
const seriesOf = (directory: string, trainer: string) =>
  Effect.gen(function*() {
    const { resumes, steps } = Option.getOrThrow(yield* RunLog.read(directory))
    const series = yield* Effect.forEach(steps, ({ metrics, step }) =>
      Effect.gen(function*() {
        const { learning_rate: rate, loss, staleness_max: staleness = 0 } = metrics
        if (trainer !== asynchronous) return JSON.stringify([step, loss, rate])
        const prompts = (yield* RunLog.rollouts(directory, step)).map((rollout) =>
          Schema.decodeUnknownSync(Sampled)(rollout).turns.map(({ prompt }) => prompt)
        )
        return JSON.stringify([step, prompts, rate, staleness <= maxStaleness, Number.isFinite(loss)])
      }))
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
        yield* Effect.repeat(Effect.delay(linesOf(journal), "10 millis"), { until: (now) => now >= before + lines })
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

/** The program that is killed, as one file in a directory that is removed with the scope. */
export const program = Effect.flatMap(FileSystem.FileSystem, (fs) =>
  Effect.flatMap(
    fs.makeTempDirectoryScoped({ prefix: "tinker-resume-" }),
    (root) => bundle(new URL("./child.ts", import.meta.url), root)
  )).pipe(Effect.mapError((error) => new ResumeFailed({ reason: error.message })))

/** One case: the program is killed so many times, then left alone. The undisturbed run is in this process. */
export const killed = (
  one: Case,
  kills: number,
  program: string
): Effect.Effect<Report, ResumeFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-resume-" })
    const { background, submitAhead, trainer } = one
    const prepare = (name: string) =>
      Effect.as(fs.makeDirectory(`${root}/${name}-backend`), [`${root}/${name}`, `${root}/${name}-backend`] as const)
    yield* train(one, ...yield* prepare("whole"))
    const whole = yield* seriesOf(`${root}/whole`, trainer)
    if (whole.series.length < 16) return yield* new ResumeFailed({ reason: "the undisturbed run is incomplete" })

    const args = [trainer, ...yield* prepare("killed"), String(submitAhead), String(background)]
    let hits = 0
    let outcome: "killed" | "done" = "killed"
    while (outcome === "killed" && hits < kills) {
      outcome = yield* start(program, args, true)
      if (outcome === "killed") hits++
    }
    if (outcome === "killed") yield* start(program, args, false)
    const { resumes, series } = yield* seriesOf(`${root}/killed`, trainer)
    const length = Math.max(series.length, whole.series.length)
    return {
      ...one,
      kills: hits,
      resumes,
      differences: Array.from({ length }, (_, i) => [whole.series[i], series[i]] as const)
        .flatMap(([wanted, found]) => wanted === found ? [] : [`${trainer}: ${found} instead of ${wanted}`])
    }
  }).pipe(
    Effect.scoped,
    Effect.mapError((error) => error instanceof ResumeFailed ? error : new ResumeFailed({ reason: String(error) }))
  )

/** A case until it has been killed so many times, as often as it takes to run it. */
export const rounds = (
  one: Case,
  kills: number,
  program: string
): Effect.Effect<Report, ResumeFailed, NodeContext.NodeContext> =>
  Effect.gen(function*() {
    let report = yield* killed(one, kills, program)
    while (report.kills < kills) {
      const more = yield* killed(one, kills - report.kills, program)
      report = {
        ...one,
        kills: report.kills + more.kills,
        resumes: report.resumes + more.resumes,
        differences: [...report.differences, ...more.differences]
      }
    }
    return report
  })
