/**
 * Run directories, ours and those of the Python cookbook, read while they are written.
 *
 * A directory with a `journal.jsonl` is a run of `RunLog`; one with a `metrics.jsonl` is a log directory of the Python
 * cookbook or of `MetricsLog`. Every `refresh` reads only what was appended since the last one. Lines that cannot be read
 * are counted and shown, never fatal: a page that shows most of a run beats one that shows none of it.
 *
 * @since 0.1.0
 */
import * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Permits from "@effect-tinker/platform/Permits"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as CostLedger from "effect-tinker/CostLedger"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Json from "./internal/json.js"
import * as Tail from "./internal/tail.js"
import * as Rollouts from "./Rollouts.js"
import * as Series from "./Series.js"

// =============================================================================
// models
// =============================================================================

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
  /** Of `cost`, such as `USD`: what the run says, else that of the prices. */
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

// =============================================================================
// what a run says
// =============================================================================

interface State {
  trainer: string
  model: string
  config: unknown
  totalSteps: number | null
  startedAt: number | null
  updatedAt: number | null
  checkpoints: Array<Checkpoint>
  notes: Array<Note>
  resumes: number
  ended: { readonly status: Status; readonly message: string | null } | undefined
  /** Its process ended without a word. */
  isGone: boolean
  unreadable: number
  command: string | null
}

const nothing = (): State => ({
  trainer: "",
  model: "",
  config: undefined,
  totalSteps: null,
  startedAt: null,
  updatedAt: null,
  checkpoints: [],
  notes: [],
  resumes: 0,
  ended: undefined,
  isGone: false,
  unreadable: 0,
  command: null
})

const silentAfter = 10 * 60_000

/** Losses first, then rewards, then evaluations: what people look for. */
const wanted: ReadonlyArray<RegExp> = [
  /^(train_mean_nll|loss|nll|dpo_loss)$|^(?!eval|test|time).*\bloss$/,
  /^(env\/all\/reward(\/total|\/mean)?|reward|env\/all\/reward\/total)$|^env\/.*reward/,
  /^(eval|test)\/.*(reward|accuracy|correct|nll|score|win_rate|loss)/
]

const headlines = (table: Series.Table): ReadonlyArray<string> => {
  const names = table.names()
  const found = wanted.flatMap((pattern) => names.filter((name) => pattern.test(name)).slice(0, 1))
  // With reinforcement, the reward says more than the loss.
  const order = found.length > 1 && /reward/.test(found[1] ?? "") ? [found[1], found[0], ...found.slice(2)] : found
  const chosen = order.flatMap((name) => name === undefined ? [] : [name])
  return chosen.length > 0 ? chosen : names.filter((name) => !name.startsWith("time/")).slice(0, 1)
}

/** The sum of the first of these columns that there is. */
const sumOf = (table: Series.Table, ...known: ReadonlyArray<string>): number | null => {
  const names = table.names()
  const name = known.find((candidate) => names.includes(candidate))
  if (name === undefined) return null
  let sum = 0
  table.each(name, (_, value) => {
    if (Number.isFinite(value)) sum += value
  })
  return sum
}

const cumulative = /^cost\/cumulative_([a-z]+)$/

/** As the run recorded it, in all or step by step, in the currency its metrics name, or else the given one. */
const costOf = (table: Series.Table, currency: string): Pick<Summary, "cost" | "currency"> => {
  const name = table.names().find((candidate) => cumulative.test(candidate))
  const cost = name === undefined ? undefined : table.summary(name)?.last
  return name === undefined || cost === undefined || cost === null
    ? { cost: sumOf(table, "cost"), currency }
    : { cost, currency: cumulative.exec(name)?.[1]?.toUpperCase() ?? currency }
}

/** A run that was resumed has slept in between: what its steps took says more than the calendar. */
const secondsOf = (table: Series.Table, { startedAt, updatedAt }: State): number | null => {
  if (table.size() === 0) return null
  const steps = sumOf(table, "time/step", "time/total")
  if (steps !== null && steps > 0) return steps
  return startedAt === null || updatedAt === null ? null : Math.max(0, updatedAt - startedAt) / 1000
}

/** By the names of our trainers and of the Python cookbook. */
const settingNames: ReadonlyArray<readonly [name: string, paths: ReadonlyArray<string>]> = [
  ["lr", ["learningRate.peak", "learningRate", "learning_rate"]],
  ["rank", ["model.rank", "lora_rank", "rank"]],
  ["batch", ["batchSize", "batch_size", "groupsPerBatch", "groups_per_batch", "dataset_builder.batch_size"]],
  ["group", ["groupSize", "group_size"]],
  ["epochs", ["epochs", "num_epochs"]]
]

const settingsOf = (config: unknown): Summary["settings"] =>
  settingNames.flatMap(([name, paths]) => {
    for (const path of paths) {
      const value = path.split(".").reduce<unknown>((inner, key) => Json.objectOf(inner)[key], config)
      if (typeof value === "number" && Number.isFinite(value)) return [{ name, value: String(value) }]
    }
    return []
  })

const waitPrefix = "time/wait/"

const waitsOf = (table: Series.Table): Detail["waits"] =>
  table.names().flatMap((name) => {
    const seconds = name.startsWith(waitPrefix) ? sumOf(table, name) : null
    return seconds === null || seconds === 0 ? [] : [{ reason: name.slice(waitPrefix.length), seconds }]
  })

type Metrics = ReadonlyArray<readonly [string, number]>

/**
 * Costs of a step by its tokens: those trained on, those sampled, and those given to the sampler. Our trainers and the
 * Python cookbook's count them under different names.
 */
const withCost = (metrics: Metrics, price: CostLedger.Price | undefined): Metrics => {
  if (price === undefined || metrics.some(([name]) => name === "cost" || cumulative.test(name))) {
    return metrics
  }
  const table = new Map(metrics)
  const of = (name: string) => table.get(`env/all/${name}`)
  const [turns, perTurn, rollouts] = [of("turns"), of("tokens_per_turn"), of("rollouts")]
  const sampled = of("total_ac_tokens") ??
    (turns === undefined || perTurn === undefined || rollouts === undefined ? 0 : turns * perTurn * rollouts)
  const counted = table.get("tokens") ?? table.get("num_tokens")
  const given = of("total_ob_tokens") ?? (sampled === 0 ? 0 : Math.max(0, (counted ?? 0) - sampled))
  const trained = counted ?? given + sampled
  const cost = (trained * (price.train ?? 0) + given * (price.prefill ?? 0) + sampled * (price.sample ?? 0)) / 1e6
  // An evaluation has no tokens, and does not make the cost of its step zero.
  return trained === 0 ? metrics : [...metrics, ["cost", cost]]
}

const decodeEntry = Schema.decodeUnknownEither(RunEntry.RunEntry)

/** The name of the base model, wherever a configuration keeps it. */
const modelOf = (config: unknown): string => {
  const { base_model: base, model, model_name: name } = Json.objectOf(config)
  return Json.textOf(name) ?? Json.textOf(base) ?? Json.textOf(model) ??
    Json.textOf(Json.objectOf(model)["baseModel"]) ??
    ""
}

const readJson = (path: string) =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path)).pipe(
    Effect.map(Json.parse),
    Effect.orElseSucceed(() => undefined)
  )

/** A word as a shell takes it. */
const quoted = (word: string): string => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`

/** The command line that `tinker train` leaves in the directory of its run. */
const readCommand = (path: string) =>
  Effect.map(readJson(path), (found) => {
    const { cwd, words } = Json.objectOf(found)
    const line = Json.arrayOf(words).flatMap((word) => typeof word === "string" ? [quoted(word)] : [])
    if (line.length === 0) return null
    return `${typeof cwd === "string" ? `cd ${quoted(cwd)} && ` : ""}tinker ${line.join(" ")}`
  })

// =============================================================================
// the journal
// =============================================================================

const applyEntry = (state: State, table: Series.Table, line: unknown, price: CostLedger.Price | undefined): void => {
  const raw = Json.objectOf(line)
  const time = Json.numberOf(raw["time"])
  if (time !== undefined) {
    state.startedAt ??= time
    state.updatedAt = time
  }
  // Nearly all lines are steps: they are read without a Schema, which would take most of the time of a large journal.
  if (raw["_tag"] === "Step") {
    const step = Json.numberOf(raw["step"])
    if (step === undefined) state.unreadable++
    else {
      const timings = Json.numbersOf(raw["timings"]).map(([name, value]) => [`time/${name}`, value / 1000] as const)
      table.record(step, time, withCost([...Json.numbersOf(raw["metrics"]), ...timings], price))
    }
    return
  }
  const decoded = decodeEntry(line)
  if (Either.isLeft(decoded)) {
    state.unreadable++
    return
  }
  const entry = decoded.right
  switch (entry._tag) {
    case "Started":
    case "Resumed": {
      state.config = entry.config
      state.model = modelOf(entry.config)
      state.totalSteps = Json.numberOf(Json.objectOf(entry.config)["steps"]) ?? state.totalSteps
      state.ended = undefined
      if (entry._tag === "Started") state.trainer = entry.trainer
      else {
        state.resumes++
        table.truncate(entry.step)
        state.checkpoints = state.checkpoints.filter(({ step }) => step <= entry.step)
        state.notes = state.notes.filter(({ step }) => step < entry.step)
      }
      return
    }
    case "Checkpoint": {
      const { expiresAt, kind, name, samplerPath, statePath, step } = entry
      state.checkpoints = [
        ...state.checkpoints.filter((other) => other.name !== name),
        {
          name,
          kind,
          step,
          statePath,
          samplerPath: samplerPath ?? null,
          expiresAt: expiresAt ?? null,
          time: entry.time
        }
      ]
      return
    }
    case "Evaluation":
      table.record(
        entry.step,
        undefined,
        Object.entries(entry.metrics).map(([name, value]) => [`eval/${entry.name}/${name}`, value] as const)
      )
      return
    case "Note":
      state.notes.push({ step: entry.step, level: entry.level, message: entry.message, time: entry.time })
      return
    case "Ended": {
      const status = entry.complete ? "complete" : entry.outcome === "failure" ? "failed" : "interrupted"
      state.ended = { status, message: entry.message ?? null }
      return
    }
  }
}

// =============================================================================
// logs of the Python cookbook, and MetricsLog
// =============================================================================

const notMetrics = new Set(["step", "time", "total_steps", "event"])

const applyMetrics = (state: State, table: Series.Table, line: unknown, price: CostLedger.Price | undefined): void => {
  if (!Json.isObject(line)) {
    state.unreadable++
    return
  }
  const seconds = Json.numberOf(line["time"])
  // Some count seconds, which as milliseconds would be in the early seventies.
  const time = seconds !== undefined && seconds >= 1e8 && seconds < 1e11 ? seconds * 1000 : seconds
  if (time !== undefined) {
    state.startedAt ??= time
    state.updatedAt = time
  }
  if (line["event"] === "end") {
    const outcome = Json.textOf(line["outcome"])
    state.ended = {
      status: outcome === "failure" ? "failed" : outcome === "interrupted" ? "interrupted" : "complete",
      message: null
    }
    return
  }
  if (line["event"] !== undefined) return
  state.ended = undefined
  state.totalSteps = Json.numberOf(line["total_steps"]) ?? state.totalSteps
  const step = Json.numberOf(line["step"]) ?? Json.numberOf(line["progress/batch"]) ?? (table.lastStep() ?? -1) + 1
  const before = table.lastStep()
  table.record(step, time, withCost(Json.numbersOf(line).filter(([name]) => !notMetrics.has(name)), price))
  if (before !== undefined && (table.lastStep() ?? 0) < before) state.resumes++
  const done = Json.numberOf(line["progress/done_frac"]) ?? Json.numberOf(line["progress"])
  if (done !== undefined && done > 0 && done <= 1) state.totalSteps = Math.round((step + 1) / done)
}

const applyCheckpoint = (state: State, line: unknown): void => {
  const raw = Json.objectOf(line)
  const name = Json.textOf(raw["name"])
  if (name === undefined) {
    state.unreadable++
    return
  }
  const step = Json.numberOf(raw["batch"]) ?? Json.numberOf(raw["step"]) ?? Number(/\d+$/.exec(name)?.[0] ?? 0)
  state.checkpoints = [...state.checkpoints.filter((other) => other.name !== name), {
    name,
    kind: raw["final"] === true || name === "final" ? "final" : raw["rolling"] === true ? "rolling" : "periodic",
    step,
    statePath: Json.textOf(raw["state_path"]) ?? null,
    samplerPath: Json.textOf(raw["sampler_path"]) ?? null,
    expiresAt: null,
    time: null
  }]
}

// =============================================================================
// runs
// =============================================================================

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
      ? "journal"
      : (yield* has("metrics.jsonl")) || (yield* has("checkpoints.jsonl"))
      ? "python"
      : undefined
    if (format === undefined) return Option.none()

    const table = Series.make()
    let state = nothing()
    let version = 0
    const reset = () => {
      table.clear()
      state = { ...nothing(), config: state.config, model: state.model }
    }
    const follow = (name: string, restarted: () => void, apply: (line: unknown) => void) =>
      Tail.make(join(path, name), {
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
    const tails = format === "journal"
      ? [follow("journal.jsonl", reset, (line) => applyEntry(state, table, line, price))]
      : [
        follow("metrics.jsonl", reset, (line) => applyMetrics(state, table, line, price)),
        follow("checkpoints.jsonl", () => {
          state.checkpoints = []
        }, (line) => applyCheckpoint(state, line))
      ]
    const rollouts = format === "journal"
      ? Rollouts.journal(join(path, "rollouts.jsonl"), () => ({ config: state.config, model: state.model }))
      : Rollouts.python(path)

    const one = yield* Permits.make(1)
    const refresh = one.withPermits(1)(Effect.gen(function*() {
      let changed = false
      for (const tail of tails) changed = (yield* tail.read) || changed
      if (format === "journal" && changed) state.command = yield* readCommand(join(path, "command.json"))
      if (format === "python" && (state.config === undefined || changed)) {
        const config = yield* readJson(join(path, "config.json"))
        if (config !== undefined) {
          state.config = config
          state.model = modelOf(config)
          state.trainer = Json.textOf(Json.objectOf(config)["recipe_name"]) ?? "python cookbook"
        }
      }
      const isGone = format === "journal" && state.ended === undefined &&
        Option.exists(yield* RunLog.writer(path), ({ isRunning }) => !isRunning)
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

    const statusAt = (now: number): Status => {
      if (state.ended !== undefined) return state.ended.status
      const step = table.lastStep()
      const final = state.checkpoints.some(({ kind }) => kind === "final")
      // The Python cookbook records no end; its steps count from 0.
      const last = format === "python" && state.totalSteps !== null && step !== undefined &&
        step + 1 >= state.totalSteps
      if (format === "python" && (final || last)) return "complete"
      if (state.isGone) return "gone"
      const written = Math.max(0, ...tails.map((tail) => tail.modified() ?? 0))
      return now - written > silentAfter ? "silent" : "running"
    }

    const summary = (now: number): Summary => {
      const names = headlines(table)
      const [first] = names
      const modified = Math.max(0, ...tails.map((tail) => tail.modified() ?? 0))
      return {
        id,
        format,
        status: statusAt(now),
        trainer: state.trainer,
        model: state.model,
        // The Python cookbook numbers its steps from 0.
        step: table.size() === 0 ? 0 : (table.lastStep() ?? 0) + (format === "python" ? 1 : 0),
        totalSteps: state.totalSteps,
        startedAt: state.startedAt,
        updatedAt: state.updatedAt ?? (modified > 0 ? modified : null),
        tokens: sumOf(table, "tokens", "num_tokens"),
        ...costOf(table, currency),
        seconds: secondsOf(table, state),
        settings: settingsOf(state.config),
        waited: waitsOf(table).reduce((sum, { seconds }) => sum + seconds, 0),
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
        waits: waitsOf(table)
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

const passedOver = /^(\.|node_modules$|iteration_\d+$|__pycache__$)/

/**
 * The paths of the run directories in a directory, relative to it; `.` when it is one itself.
 *
 * @since 0.1.0
 * @category constructors
 */
export const find: (
  root: string,
  options?: FindOptions
) => Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function*(root, options) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const maxDirectories = options?.maxDirectories ?? 20_000
    const found: Array<string> = []
    let level: Array<string> = ["."]
    let looked = 0
    for (let depth = 0; depth <= (options?.depth ?? 4) && level.length > 0; depth++) {
      const next: Array<string> = []
      for (const directory of level) {
        if (++looked > maxDirectories) return found
        const names = yield* Effect.orElseSucceed(fs.readDirectory(path.join(root, directory)), (): Array<string> => [])
        if (["journal.jsonl", "metrics.jsonl", "checkpoints.jsonl"].some((name) => names.includes(name))) {
          found.push(directory)
        }
        for (const name of names) {
          // A name with a suffix is a file nearly always; asking the file system costs more than all the rest.
          if (passedOver.test(name) || /\.(jsonl?|html|txt|diff|safetensors|bin|log|md|png|lock)$/.test(name)) continue
          const child = path.join(directory, name)
          const info = yield* Effect.option(fs.stat(path.join(root, child)))
          if (Option.exists(info, ({ type }) => type === "Directory")) next.push(child)
        }
      }
      level = next
    }
    return found
  }
)

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
