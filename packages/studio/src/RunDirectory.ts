/**
 * Run directories, ours and those of the Python cookbook, read while they are written.
 *
 * A directory with a `journal.jsonl` is a run of `RunLog`; one with a `metrics.jsonl` is a log directory of the Python
 * cookbook or of `MetricsLog`. Every `refresh` reads only what was appended since the last one. Lines that cannot be read
 * are counted and shown, never fatal: a page that shows most of a run beats one that shows none of it.
 *
 * @since 0.1.0
 */
import * as Permits from "@effect-tinker/platform/Permits"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Json from "./internal/json.js"
import * as Figures from "./internal/run/figures.js"
import { find as findRuns } from "./internal/run/find.js"
import type { Reader } from "./internal/run/format.js"
import { journal } from "./internal/run/journal.js"
import { python } from "./internal/run/python.js"
import { nothing } from "./internal/run/state.js"
import * as Tail from "./internal/tail.js"
import type * as Rollouts from "./Rollouts.js"
import * as Series from "./Series.js"

/**
 * Where a run stands. The process of a `gone` run ended without a word, as one that is killed does. `silent` runs neither ended
 * nor wrote anything for a long time: their process is probably gone too.
 *
 * @since 0.1.0
 * @category models
 */
export type Status = "running" | "gone" | "silent" | "complete" | "interrupted" | "failed"

/**
 * A saved state of the weights.
 *
 * @since 0.1.0
 * @category models
 */
export interface Checkpoint {
  readonly name: string
  readonly kind: string
  /** Optimizer steps the weights contain. */
  readonly step: number
  readonly statePath: string | null
  readonly samplerPath: string | null
  /** Milliseconds since 1970; `null` when it never expires. */
  readonly expiresAt: number | null
  readonly time: number | null
}

/**
 * Message that a run logged.
 *
 * @since 0.1.0
 * @category models
 */
export interface Note {
  readonly step: number
  readonly level: "info" | "warning"
  readonly message: string
  readonly time: number | null
}

/**
 * A run in a line of a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly id: string
  readonly format: "journal" | "python"
  readonly status: Status
  readonly trainer: string
  readonly model: string
  /** Steps that are done. */
  readonly step: number
  readonly totalSteps: number | null
  readonly startedAt: number | null
  readonly updatedAt: number | null
  /** Tokens trained on, where the run counts them. */
  readonly tokens: number | null
  /** Costs so far: as the run recorded it, or by its tokens and a price; `null` where neither is known. */
  readonly cost: number | null
  /** Currency of `cost`, such as `USD`: that of the run, or else that of the prices. */
  readonly currency: string | null
  /** Seconds its steps took, where it records that; else from its first line to its latest. `null` before there is a step. */
  readonly seconds: number | null
  /** The settings people tell runs apart by, such as its learning rate. */
  readonly settings: ReadonlyArray<{ readonly name: string; readonly value: string }>
  /** Seconds in which the server let it wait: for capacity, a rate limit, billing or a connection. */
  readonly waited: number
  /** The metrics to look at first: the latest values of a loss, a reward and an evaluation. */
  readonly headline: ReadonlyArray<{ readonly name: string; readonly value: number | null }>
  /** The course of the first headline metric. */
  readonly spark: ReadonlyArray<number | null>
  readonly warnings: number
  /** Changes whenever anything of the run does. */
  readonly version: number
}

/**
 * Everything about a run but its curves and rollouts.
 *
 * @since 0.1.0
 * @category models
 */
export interface Detail extends Summary {
  readonly path: string
  readonly config: unknown
  readonly metrics: ReadonlyArray<Series.Summary>
  readonly checkpoints: ReadonlyArray<Checkpoint>
  readonly notes: ReadonlyArray<Note>
  readonly resumes: number
  /** Why it ended, where it failed. */
  readonly message: string | null
  readonly hasRollouts: boolean
  /** Lines that could not be read. */
  readonly unreadable: number
  /** The command that resumes it, where `tinker train` started it. */
  readonly command: string | null
  /** Seconds of waiting by reason. */
  readonly waits: ReadonlyArray<{ readonly reason: string; readonly seconds: number }>
}

/**
 * How a run is read.
 *
 * @since 0.1.0
 * @category models
 */
export interface OpenOptions {
  /**
   * Prices of a million tokens, to estimate the cost of runs that do not record it as a metric `cost`.
   */
  readonly price?: CostLedger.Price | undefined
  /** Of these prices, and of a metric `cost`, as a code of three letters. Defaults to `USD`. */
  readonly currency?: string | undefined
}

/**
 * A run directory that is being followed.
 *
 * @since 0.1.0
 * @category models
 */
export interface Run {
  readonly id: string
  readonly path: string
  readonly table: Series.Table
  readonly rollouts: Rollouts.Rollouts
  /** Reads what was appended, and yields whether there was anything. */
  readonly refresh: Effect.Effect<boolean, never, FileSystem.FileSystem>
  readonly summary: (now: number) => Summary
  readonly detail: (now: number) => Detail
}

const silentAfter = 10 * 60_000

/**
 * Follows a run directory. `None` where it holds no run.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (
  path: string,
  id: string,
  options?: OpenOptions
) => Effect.Effect<Option.Option<Run>, never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(path, id, options) {
    const price = options?.price
    const currency = options?.currency ?? "USD"
    const fs = yield* FileSystem.FileSystem
    const { join } = yield* Path.Path
    const has = (name: string) => Effect.orElseSucceed(fs.exists(join(path, name)), () => false)
    const format = (yield* has("journal.jsonl"))
      ? journal
      : (yield* has("metrics.jsonl")) || (yield* has("checkpoints.jsonl"))
      ? python
      : undefined
    if (format === undefined) return Option.none()

    const state = nothing()
    const table = Series.make()
    const reader: Reader = { path, state, table, price, join }
    let version = 0
    const tails = format.follow(reader).map(({ apply, file, restarted }) =>
      Tail.make(join(path, file), {
        restarted,
        line: (text) => {
          if (text.trim() === "") return
          const line = Json.parse(text)
          if (line === undefined) state.unreadable++
          else apply(line)
        },
        oversized: () => {
          state.unreadable++
        }
      })
    )
    const rollouts = format.rollouts(reader)

    const one = yield* Permits.make(1)
    const refresh = one.withPermits(1)(Effect.gen(function*() {
      let changed = false
      for (const tail of tails) changed = (yield* tail.read) || changed
      yield* format.beside(reader, changed)
      const isGone = yield* format.isGone(reader)
      const moved = changed || isGone !== state.isGone
      state.isGone = isGone
      if (moved) version++
      return moved
    })).pipe(
      // A file that cannot be read now (permissions, a network drive) may be readable at the next turn.
      Effect.catchAllCause((cause) =>
        Effect.as(
          Effect.logDebug(`${path} cannot be read`, cause).pipe(
            Effect.annotateLogs({ package: "@effect-tinker/studio", module: "RunDirectory" })
          ),
          false
        )
      )
    )

    const modified = () => Math.max(0, ...tails.map((tail) => tail.modified() ?? 0))

    const statusAt = (now: number): Status => {
      if (state.ended !== undefined) return state.ended.status
      if (format.isComplete(reader)) return "complete"
      if (state.isGone) return "gone"
      return now - modified() > silentAfter ? "silent" : "running"
    }

    const summary = (now: number): Summary => {
      const names = Figures.headlines(table)
      const [first] = names
      return {
        id,
        format: format.name,
        status: statusAt(now),
        trainer: state.trainer,
        model: state.model,
        step: table.size() === 0 ? 0 : (table.lastStep() ?? 0) + 1 - format.firstStep,
        totalSteps: state.totalSteps,
        startedAt: state.startedAt,
        updatedAt: state.updatedAt ?? (modified() > 0 ? modified() : null),
        tokens: Figures.sumOf(table, "tokens", "num_tokens"),
        ...Figures.costOf(table, currency),
        seconds: Figures.secondsOf(table, state),
        settings: Figures.settingsOf(state.config),
        waited: Figures.waitsOf(table).reduce((sum, { seconds }) => sum + seconds, 0),
        headline: names.map((name) => ({ name, value: table.summary(name)?.last ?? null })),
        spark: first === undefined ? [] : table.points(first, { points: 64, smoothing: 0.5 })?.smooth ?? [],
        warnings: state.notes.filter(({ level }) => level === "warning").length,
        version
      }
    }

    const run: Run = {
      id,
      path,
      table,
      rollouts,
      refresh,
      summary,
      detail: (now) => ({
        ...summary(now),
        path,
        config: state.config,
        metrics: table.names().flatMap((name) => table.summary(name) ?? []),
        checkpoints: state.checkpoints,
        notes: state.notes,
        resumes: state.resumes,
        message: state.ended?.message ?? null,
        hasRollouts: rollouts.steps().length > 0,
        unreadable: state.unreadable + rollouts.unreadable(),
        command: state.command,
        waits: Figures.waitsOf(table)
      })
    }
    return Option.some(run)
  }
)

/**
 * How far to look for runs.
 *
 * @since 0.1.0
 * @category models
 */
export interface FindOptions {
  /** Levels of directories below the one given. Defaults to 4. */
  readonly depth?: number | undefined
  /** Most directories to look into. Defaults to 20,000. */
  readonly maxDirectories?: number | undefined
}

/**
 * The paths of the run directories in a directory, relative to it; `.` when it is one itself.
 *
 * @since 0.1.0
 * @category constructors
 */
export const find: (
  root: string,
  options?: FindOptions
) => Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem | Path.Path> = findRuns

/**
 * Reads all runs below a directory that have metrics, each by its place in it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const readAll: (root: string) => Effect.Effect<
  ReadonlyArray<{ readonly name: string; readonly detail: Detail; readonly table: Series.Table }>,
  never,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*(root) {
  const path = yield* Path.Path
  const found = yield* Effect.forEach(
    yield* find(root),
    (place) =>
      Effect.map(read(path.join(root, place)), (run) =>
        Option.isNone(run) || run.value.table.size() === 0
          ? []
          : [{ name: place === "." ? path.basename(path.resolve(root)) : place, ...run.value }])
  )
  return found.flat()
})

/**
 * Reads one run directory as it stands.
 *
 * @since 0.1.0
 * @category constructors
 */
export const read: (
  path: string
) => Effect.Effect<
  Option.Option<{ readonly detail: Detail; readonly table: Series.Table }>,
  never,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*(path) {
  const { basename, resolve } = yield* Path.Path
  const run = yield* open(path, basename(resolve(path)))
  if (Option.isNone(run)) return Option.none()
  yield* run.value.refresh
  return Option.some({ detail: run.value.detail(yield* Clock.currentTimeMillis), table: run.value.table })
})
