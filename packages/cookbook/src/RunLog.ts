/**
 * The journal of a run: an append-only file in the run's directory that says what was configured, every step with its
 * metrics, every checkpoint *with the number of optimizer steps it contains*, evaluations, and how the run ended.
 *
 * - A line is written whole, in one go. A process that is killed leaves at most one torn line, which is removed when the
 *   journal is opened again.
 * - Running again resumes: a `Resumed` entry names the checkpoint, and readers leave out what was recorded after it. The
 *   file itself only grows, so that others can follow it.
 * - `journal.jsonl` holds the entries, `rollouts.jsonl` what was sampled, `cache.jsonl` what need not be computed twice,
 *   `config.json` the configuration to read, `.lock-*` names the process that writes.
 *
 * @since 0.1.0
 */
import * as DirectoryLock from "@effect-tinker/platform/DirectoryLock"
import * as Lines from "@effect-tinker/platform/Lines"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as AppendFile from "./internal/appendFile.js"
import * as RunConfig from "./RunConfig.js"
import * as RunEntry from "./RunEntry.js"

// =============================================================================
// errors
// =============================================================================

/**
 * The directory holds a run with another configuration.
 *
 * @since 0.1.0
 * @category errors
 */
export class ConfigChanged extends Schema.TaggedError<ConfigChanged>("@effect-tinker/cookbook/RunLog/ConfigChanged")(
  "ConfigChanged",
  { directory: Schema.String, fields: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `${this.directory} holds a run with another ${this.fields.join(", ")}; ` +
      "use another directory, or open it with onChange: \"accept\""
  }
}

/**
 * A line of the journal cannot be read, and it is not the torn last one.
 *
 * @since 0.1.0
 * @category errors
 */
export class MalformedEntry extends Schema.TaggedError<MalformedEntry>("@effect-tinker/cookbook/RunLog/MalformedEntry")(
  "MalformedEntry",
  { path: Schema.String, line: Schema.Int, description: Schema.String }
) {
  override get message(): string {
    return `${this.path}:${this.line}: ${this.description}`
  }
}

/**
 * All checkpoints of the run have expired, so it cannot be resumed.
 *
 * @since 0.1.0
 * @category errors
 */
export class CheckpointsExpired
  extends Schema.TaggedError<CheckpointsExpired>("@effect-tinker/cookbook/RunLog/CheckpointsExpired")(
    "CheckpointsExpired",
    { directory: Schema.String, names: Schema.Array(Schema.String) }
  )
{
  override get message(): string {
    return `the checkpoints of ${this.directory} have expired (${this.names.join(", ")}): ` +
      "remove the directory to begin again"
  }
}

/**
 * The run could not be resumed: its checkpoints would be gone with the process.
 *
 * @since 0.2.0
 * @category errors
 */
export class CheckpointsInMemory
  extends Schema.TaggedError<CheckpointsInMemory>("@effect-tinker/cookbook/RunLog/CheckpointsInMemory")(
    "CheckpointsInMemory",
    { directory: Schema.String, keepWith: Schema.String }
  )
{
  override get message(): string {
    return `a run in ${this.directory} could not be resumed, since the backend keeps its checkpoints in the memory of this ` +
      `process: keep them in a directory (${this.keepWith}), or leave out the log`
  }
}

/**
 * Another run, in this process or another one of this machine, is recorded in the directory.
 *
 * @since 0.1.0
 * @category errors
 */
export class RunInUse extends Schema.TaggedError<RunInUse>("@effect-tinker/cookbook/RunLog/RunInUse")("RunInUse", {
  directory: Schema.String,
  pid: Schema.Int
}) {
  override get message(): string {
    return `process ${this.pid} is recording a run in ${this.directory}: stop it, or use another directory`
  }
}

/**
 * Failures of a journal.
 *
 * @since 0.1.0
 * @category errors
 */
export type RunLogError = PlatformError.PlatformError | MalformedEntry

// =============================================================================
// reading
// =============================================================================

/**
 * A run as its journal records it, without what a resume discarded.
 *
 * @since 0.1.0
 * @category models
 */
export interface Run {
  readonly trainer: string
  readonly config: unknown
  readonly hash: string
  readonly steps: ReadonlyArray<RunEntry.Step>
  readonly checkpoints: ReadonlyArray<RunEntry.Checkpoint>
  readonly evaluations: ReadonlyArray<RunEntry.Evaluation>
  readonly notes: ReadonlyArray<RunEntry.Note>
  /** How many times it was resumed. */
  readonly resumes: number
  readonly ended: Option.Option<RunEntry.Ended>
}

const journalName = "journal.jsonl"
const rolloutsName = "rollouts.jsonl"
const cacheName = "cache.jsonl"
const maxLineBytes = 64 * 1024 * 1024
const decoder = new TextDecoder()
const decodeEntry = Schema.decodeUnknownEither(Schema.parseJson(RunEntry.RunEntry))
const encodeEntry = Schema.encodeSync(Schema.parseJson(RunEntry.RunEntry))

/**
 * All entries of a journal in the order they were written, including those that a resume discarded. A torn last line ends the
 * stream.
 *
 * @since 0.1.0
 * @category constructors
 */
export const entries = (directory: string): Stream.Stream<RunEntry.RunEntry, RunLogError, FileSystem.FileSystem> => {
  const path = `${directory}/${journalName}`
  return Stream.unwrap(Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const size = Number((yield* fs.stat(path)).size)
    return Lines.stream(path, { offset: 0, limit: maxLineBytes }).pipe(
      Stream.zipWithIndex,
      Stream.mapConcatEffect((
        [{ bytes, end, offset }, line]
      ): Effect.Effect<ReadonlyArray<RunEntry.RunEntry>, MalformedEntry> =>
        bytes === undefined
          ? Effect.fail(
            new MalformedEntry({
              path,
              line: line + 1,
              description: `the line has ${end - offset} bytes, of ${maxLineBytes} allowed`
            })
          )
          : Either.match(decodeEntry(decoder.decode(bytes)), {
            onLeft: ({ message }) =>
              // Only the last line can be without a newline, and then it is torn.
              end >= size && end - offset === bytes.length
                ? Effect.succeed([])
                : Effect.fail(new MalformedEntry({ path, line: line + 1, description: message })),
            onRight: (entry) => Effect.succeed([entry])
          })
      )
    )
  }))
}

interface Mutable {
  trainer: string
  config: unknown
  hash: string
  steps: Array<RunEntry.Step>
  checkpoints: Array<RunEntry.Checkpoint>
  evaluations: Array<RunEntry.Evaluation>
  notes: Array<RunEntry.Note>
  resumes: number
  ended: Option.Option<RunEntry.Ended>
}

const fold = (run: Mutable, entry: RunEntry.RunEntry): Mutable => {
  switch (entry._tag) {
    case "Started":
      return { ...run, trainer: entry.trainer, config: entry.config, hash: entry.hash }
    case "Resumed": {
      // An evaluation is of the weights before the next step, which is done again.
      return {
        trainer: run.trainer,
        config: entry.config,
        hash: entry.hash,
        steps: run.steps.filter(({ step }) => step <= entry.step),
        checkpoints: run.checkpoints.filter(({ step }) => step <= entry.step),
        evaluations: run.evaluations.filter(({ step }) => step < entry.step),
        notes: run.notes.filter(({ step }) => step < entry.step),
        resumes: run.resumes + 1,
        ended: Option.none()
      }
    }
    case "Step":
      run.steps.push(entry)
      return run
    case "Checkpoint":
      run.checkpoints.push(entry)
      return run
    case "Evaluation":
      run.evaluations.push(entry)
      return run
    case "Note":
      run.notes.push(entry)
      return run
    case "Ended":
      run.ended = Option.some(entry)
      return run
  }
}

const nothing = (): Mutable => ({
  trainer: "",
  config: undefined,
  hash: "",
  steps: [],
  checkpoints: [],
  evaluations: [],
  notes: [],
  resumes: 0,
  ended: Option.none()
})

/**
 * A run as its journal records it; none where there is no journal, or nothing in it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const read: (
  directory: string
) => Effect.Effect<Option.Option<Run>, RunLogError, FileSystem.FileSystem> = Effect.fnUntraced(function*(directory) {
  const fs = yield* FileSystem.FileSystem
  if (!(yield* fs.exists(`${directory}/${journalName}`))) return Option.none()
  const run = yield* Stream.runFold(entries(directory), nothing(), fold)
  return run.hash === "" ? Option.none() : Option.some(run)
})

/**
 * The checkpoint a run resumes from: of those that have not expired, the one with the most steps.
 *
 * @since 0.1.0
 * @category combinators
 */
export const latestCheckpoint = (
  run: Pick<Run, "checkpoints">,
  now: number
): Option.Option<RunEntry.Checkpoint> =>
  run.checkpoints.reduce<Option.Option<RunEntry.Checkpoint>>(
    (best, checkpoint) =>
      (checkpoint.expiresAt !== undefined && checkpoint.expiresAt <= now) ||
        Option.exists(best, ({ step }) => step > checkpoint.step)
        ? best
        : Option.some(checkpoint),
    Option.none()
  )

/**
 * The checkpoints that will be gone within so many milliseconds, although nothing newer takes their place.
 *
 * @since 0.1.0
 * @category combinators
 */
export const expiring = (
  run: Pick<Run, "checkpoints">,
  now: number,
  within: number
): ReadonlyArray<RunEntry.Checkpoint> =>
  Option.match(latestCheckpoint(run, now), {
    onNone: () => [],
    onSome: (latest) => latest.expiresAt !== undefined && latest.expiresAt - now <= within ? [latest] : []
  })

/**
 * A line of `rollouts.jsonl`: what was sampled for a step. `attempt` is the number of resumes before it: of several
 * attempts at a step, the last one counts.
 *
 * @since 0.1.0
 * @category models
 */
export interface RolloutLine {
  readonly step: number
  readonly attempt: number
  readonly rollout: unknown
}

// =============================================================================
// writing
// =============================================================================

/**
 * The journal of a run that is at work.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunLog {
  /** Entries of the journal when it was opened, without those of steps that are done again. */
  readonly resumed: Option.Option<{
    readonly run: Run
    /** None when there was no checkpoint yet: the run begins again. */
    readonly checkpoint: Option.Option<RunEntry.Checkpoint>
  }>
  /** Whether the run was complete when the journal was opened. */
  readonly complete: boolean
  readonly append: (entry: RunEntry.NewEntry) => Effect.Effect<void, PlatformError.PlatformError>
  /** Records what was sampled for a step, as JSON. Where nothing is recorded, the rollouts are not looked at. */
  readonly appendRollouts: (
    step: number,
    rollouts: Iterable<unknown>
  ) => Effect.Effect<void, PlatformError.PlatformError>
  /** Value computed for a key before, in this process or an earlier one. */
  readonly cached: <E, R>(
    key: string,
    compute: Effect.Effect<ReadonlyArray<number>, E, R>
  ) => Effect.Effect<ReadonlyArray<number>, E | PlatformError.PlatformError, R>
  /** Marks the run as complete, to be recorded when the journal closes. */
  readonly finish: Effect.Effect<void>
}

/**
 * How a directory is written to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Wait until each line is on the disk. Defaults to false: it survives the end of the process, not of the machine. */
  readonly sync?: boolean | undefined
  /** Treatment of a directory that holds a run with another configuration. Defaults to `fail`. */
  readonly onChange?: "fail" | "accept" | undefined
}

/**
 * Failures of opening a run.
 *
 * @since 0.1.0
 * @category errors
 */
export type OpenError = RunLogError | ConfigChanged | CheckpointsExpired | CheckpointsInMemory | RunInUse

/**
 * Where a run is recorded.
 *
 * @since 0.1.0
 * @category models
 */
export interface Target<out R = never> {
  readonly open: (run: {
    readonly trainer: string
    readonly config: unknown
  }) => Effect.Effect<RunLog, OpenError, R | Scope.Scope>
}

/**
 * A directory to record a run in. Running again resumes.
 *
 * @since 0.1.0
 * @category constructors
 */
export const directory = (path: string, options?: Options): Target<FileSystem.FileSystem> => ({
  open: (run) => open(path, run, options)
})

/**
 * Nowhere: the run cannot be resumed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const none: Target = {
  open: () =>
    Effect.sync(() => ({
      resumed: Option.none(),
      complete: false,
      append: () => Effect.void,
      appendRollouts: () => Effect.void,
      cached: makeCache(new Map(), () => Effect.void),
      finish: Effect.void
    }))
}

const CacheLine = Schema.parseJson(Schema.Struct({ key: Schema.String, value: Schema.Array(Schema.Number) }))
const decodeCacheLine = Schema.decodeUnknownEither(CacheLine)

/** Entries of a cache's file. A line that cannot be read is computed again. */
const readCache = (path: string) =>
  Lines.stream(path, { offset: 0, limit: maxLineBytes }).pipe(
    Stream.filterMap(({ bytes }) => Either.getRight(decodeCacheLine(decoder.decode(bytes)))),
    Stream.runFold(new Map<string, ReadonlyArray<number>>(), (known, { key, value }) => known.set(key, value))
  )

const makeCache = (
  known: Map<string, ReadonlyArray<number>>,
  write: (line: string) => Effect.Effect<void, PlatformError.PlatformError>
): RunLog["cached"] =>
(key, compute) =>
  Effect.suspend(() => {
    const found = known.get(key)
    return found !== undefined
      ? Effect.succeed(found)
      : Effect.tap(compute, (value) => {
        known.set(key, value)
        return write(`${JSON.stringify({ key, value })}\n`)
      })
  })

/**
 * Holds a directory for this process until the scope closes, as the journal of a run holds its own. For what is kept
 * beside a journal and has one writer too.
 *
 * @since 0.1.0
 * @category constructors
 */
export const claim: (
  directory: string
) => Effect.Effect<void, RunInUse | PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect
  .fnUntraced(function*(directory) {
    const fs = yield* FileSystem.FileSystem
    // What was sampled may be private: as for the server's files, others of this machine cannot read it.
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    const { owner } = yield* DirectoryLock.acquire(directory)
    if (Option.isSome(owner)) return yield* new RunInUse({ directory, pid: owner.value })
  })

/**
 * Who records a run, or recorded it and ended without a word: none where no process has left its claim. On the same machine
 * that follows from the process, elsewhere from a heartbeat that is three minutes old.
 *
 * @since 0.2.0
 * @category constructors
 */
export const writer: (
  directory: string
) => Effect.Effect<
  Option.Option<DirectoryLock.Holder>,
  never,
  FileSystem.FileSystem
> = DirectoryLock.holder

/**
 * Opens the journal of a run until the scope closes, which is recorded as its end. Where the directory holds the run
 * already, it is resumed from its latest checkpoint.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (
  directory: string,
  run: { readonly trainer: string; readonly config: unknown },
  options?: Options
) => Effect.Effect<RunLog, OpenError, FileSystem.FileSystem | Scope.Scope> = Effect.fnUntraced(
  function*(directory, { config, trainer }, options) {
    const fs = yield* FileSystem.FileSystem
    const lifetime = yield* Checkpoint.Lifetime
    if (lifetime.of === "process") {
      return yield* new CheckpointsInMemory({ directory, keepWith: lifetime.keepWith ?? "another backend" })
    }
    yield* claim(directory)
    const openFile = (name: string) => AppendFile.open(fs, `${directory}/${name}`, options)
    const journal = yield* openFile(journalName)
    const rollouts = yield* openFile(rolloutsName)
    const cache = yield* openFile(cacheName)
    const hash = yield* RunConfig.hash(config)
    const previous = yield* read(directory)
    const now = yield* Clock.currentTimeMillis
    if (Option.isSome(previous) && previous.value.hash !== hash && options?.onChange !== "accept") {
      const fields = RunConfig.diff(previous.value.config, config).map(({ path }) => path)
      return yield* new ConfigChanged({ directory, fields })
    }
    const complete = Option.exists(Option.flatMap(previous, ({ ended }) => ended), (ended) => ended.complete)
    const checkpoint = Option.flatMap(previous, (found) => latestCheckpoint(found, now))
    if (Option.isSome(previous) && Option.isNone(checkpoint) && previous.value.checkpoints.length > 0 && !complete) {
      return yield* new CheckpointsExpired({
        directory,
        names: previous.value.checkpoints.map(({ name }) => name)
      })
    }

    const known = yield* readCache(`${directory}/${cacheName}`)
    const record = (make: (time: number) => RunEntry.RunEntry) =>
      Effect.flatMap(Clock.currentTimeMillis, (time) => journal.append(`${encodeEntry(make(time))}\n`))

    let last = 0
    let finished = complete
    const attempt = Option.match(previous, { onNone: () => 0, onSome: ({ resumes }) => resumes + 1 })
    if (!complete) {
      yield* fs.writeFileString(`${directory}/config.json`, `${RunConfig.print(config)}\n`, { mode: 0o600 })
      const step = Option.match(checkpoint, { onNone: () => 0, onSome: (found) => found.step })
      last = step
      yield* record((time) =>
        Option.isNone(previous) ? new RunEntry.Started({ time, trainer, config, hash }) : new RunEntry.Resumed({
          time,
          step,
          checkpoint: Option.getOrUndefined(Option.map(checkpoint, ({ name }) => name)),
          config,
          hash
        })
      )
      yield* Effect.addFinalizer((exit) => {
        const interrupted = Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause)
        const outcome = interrupted || (Exit.isSuccess(exit) && !finished)
          ? "interrupted"
          : Exit.isSuccess(exit)
          ? "success"
          : "failure"
        const message = Exit.isFailure(exit) && !interrupted ? Cause.pretty(exit.cause).split("\n")[0] : undefined
        return Effect.ignoreLogged(
          record((time) => new RunEntry.Ended({ time, step: last, outcome, complete: finished, message }))
        )
      })
    }
    return {
      resumed: Option.map(previous, (found) => ({
        run: fold({
          ...found,
          steps: [...found.steps],
          checkpoints: [...found.checkpoints],
          evaluations: [...found.evaluations],
          notes: [...found.notes]
        }, new RunEntry.Resumed({ time: now, step: last, config, hash })),
        checkpoint
      })),
      complete,
      append: (entry) =>
        record((time) => {
          if (entry._tag === "Step") last = entry.step
          switch (entry._tag) {
            case "Step":
              return new RunEntry.Step({ ...entry, time })
            case "Checkpoint":
              return new RunEntry.Checkpoint({ ...entry, time })
            case "Evaluation":
              return new RunEntry.Evaluation({ ...entry, time })
            case "Note":
              return new RunEntry.Note({ ...entry, time })
          }
        }),
      appendRollouts: (step, list) =>
        Effect.suspend(() => {
          const lines = Array.from(
            list,
            (rollout) => `${JSON.stringify({ step, attempt, rollout } satisfies RolloutLine)}\n`
          )
          return lines.length === 0 ? Effect.void : rollouts.append(lines.join(""))
        }),
      cached: makeCache(known, cache.append),
      finish: Effect.sync(() => {
        finished = true
      })
    }
  }
)

/**
 * Rollouts of a step, by the last attempt at it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const rollouts = (
  directory: string,
  step: number
): Effect.Effect<ReadonlyArray<unknown>, PlatformError.PlatformError, FileSystem.FileSystem> =>
  Lines.stream(`${directory}/${rolloutsName}`, { offset: 0, limit: maxLineBytes }).pipe(
    Stream.filterMap(({ bytes }) => Either.getRight(decodeRollout(decoder.decode(bytes)))),
    Stream.filter((line) => line.step === step),
    Stream.runFold(
      { attempt: 0, found: [] as ReadonlyArray<unknown> },
      (state, { attempt, rollout }) =>
        attempt === state.attempt
          ? { attempt, found: [...state.found, rollout] }
          : { attempt, found: [rollout] }
    ),
    Effect.map(({ found }) => found)
  )

const decodeRollout = Schema.decodeUnknownEither(
  Schema.parseJson(Schema.Struct({ step: Schema.Number, attempt: Schema.Number, rollout: Schema.Unknown }))
)
