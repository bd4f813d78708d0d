/**
 * The metrics of a run on disk: one JSON object a line, `{"step":12,"time":1730000000000,"loss":0.53}`, the form other
 * tools write and read too. Lines with an `event` say what comes between steps: what the run waits for, and that it has
 * ended. `MetricsWatch` shows them to those who look on.
 *
 * A line is written whole, in one go, when its step ends. A process that is killed leaves at most one torn line, at the
 * end: readers say so and go on, and the next writer removes it.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Logs from "./internal/observability/logs.js"
import * as MetricsLine from "./internal/observability/metricsLine.js"
import * as TinkerError from "./TinkerError.js"

/**
 * One step.
 *
 * @since 0.1.0
 * @category models
 */
export interface Entry {
  readonly step: number
  /** Milliseconds since 1970, where the writer noted it. */
  readonly time: number | undefined
  readonly metrics: Readonly<Record<string, number>>
  /** Steps to do, where the writer knew it. */
  readonly totalSteps?: number | undefined
}

/**
 * How a run ended.
 *
 * @since 0.1.0
 * @category models
 */
export type Outcome = "success" | "failure" | "interrupted"

/**
 * One line: a step, what the run waits for (nothing any more, where there is no reason), or its end.
 *
 * @since 0.1.0
 * @category models
 */
export type Line =
  | { readonly _tag: "Step"; readonly entry: Entry }
  | { readonly _tag: "Waiting"; readonly time: number | undefined; readonly reason: string | undefined }
  | { readonly _tag: "Ended"; readonly time: number | undefined; readonly outcome: Outcome }

/**
 * The last line was not written to its end: its writer was killed, or is writing it right now.
 *
 * @since 0.1.0
 * @category errors
 */
export class TornLine extends Schema.TaggedError<TornLine>("effect-tinker/MetricsLog/TornLine")("TornLine", {
  path: Schema.String,
  line: Schema.Int,
  text: Schema.String
}) {
  override get message(): string {
    return `${this.path}:${this.line}: the last line is torn off after ${this.text.length} characters`
  }
}

/**
 * A line, and not the torn last one, is not what a log has.
 *
 * @since 0.1.0
 * @category errors
 */
export class MalformedLine extends Schema.TaggedError<MalformedLine>("effect-tinker/MetricsLog/MalformedLine")(
  "MalformedLine",
  { path: Schema.String, line: Schema.Int, description: Schema.String }
) {
  override get message(): string {
    return `${this.path}:${this.line}: ${this.description}`
  }
}

/**
 * A log that is open.
 *
 * @since 0.1.0
 * @category models
 */
export interface MetricsLog {
  /** Writes a line. A snapshot of `Progress` will do. */
  readonly append: (entry: {
    readonly step: number
    readonly metrics: Readonly<Record<string, number>>
    readonly tokensPerSecond?: number | undefined
    readonly totalSteps?: number | undefined
  }) => Effect.Effect<void, TinkerError.InvalidInput | PlatformError.PlatformError>
  /** Notes what the loop waits for as it waits, from `progress.changes`, until the scope closes. */
  readonly noteWaits: (
    changes: Stream.Stream<{ readonly reason: string | undefined }>
  ) => Effect.Effect<void, never, Scope.Scope>
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const newline = 10
const tailBytes = 64 * 1024

/** Removes what a killed writer left behind, and ends a last line that is whole but has no end. */
const mend = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string) {
  if (!(yield* fs.exists(path))) return
  const file = yield* fs.open(path, { flag: "r+" })
  const size = Number((yield* file.stat).size)
  const kept: Array<Uint8Array> = []
  let start = size
  while (start > 0) {
    const from = Math.max(0, start - tailBytes)
    yield* file.seek(from, "start")
    const bytes = Option.getOrElse(yield* file.readAlloc(start - from), () => new Uint8Array(0))
    const end = bytes.lastIndexOf(newline)
    kept.unshift(bytes.subarray(end + 1))
    start = end >= 0 ? from + end + 1 : from
    if (end >= 0 || from === 0) break
  }
  if (start === size) return
  const tail = kept.map((bytes) => decoder.decode(bytes)).join("")
  if (Either.isRight(MetricsLine.parse(tail, 0))) {
    yield* file.seek(size, "start")
    yield* file.writeAll(Uint8Array.of(newline))
  } else yield* file.truncate(start)
}, Effect.scoped)

const outcomeOf = (exit: Exit.Exit<unknown, unknown>): Outcome =>
  Exit.isSuccess(exit) ? "success" : Cause.isInterruptedOnly(exit.cause) ? "interrupted" : "failure"

/**
 * Opens a log to append to it, until the scope closes, which is noted as the end of the run. The file is created where
 * there is none.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (path: string, options?: {
  /** Wait until each line is on the disk, so that it survives the end of the machine too. Defaults to false. */
  readonly sync?: boolean | undefined
}) => Effect.Effect<MetricsLog, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.fnUntraced(
  function*(path, options) {
    const fs = yield* FileSystem.FileSystem
    yield* mend(fs, path)
    const file = yield* fs.open(path, { flag: "a" })
    const one = yield* Effect.makeSemaphore(1)
    let last: number | undefined
    const write = (line: (now: number) => string) =>
      Effect.gen(function*() {
        yield* file.writeAll(encoder.encode(line(yield* Clock.currentTimeMillis)))
        if (options?.sync === true) yield* file.sync
      }).pipe(Effect.uninterruptible, one.withPermits(1))
    const note = (line: (now: number) => string) =>
      Effect.catchAll(write(line), (error) => Logs.of("MetricsLog", { path })(Effect.logDebug(error.message)))

    yield* Effect.addFinalizer((exit) => note((now) => MetricsLine.ended(now, last, outcomeOf(exit))))
    return {
      append: ({ metrics, step, tokensPerSecond, totalSteps }) =>
        Effect.gen(function*() {
          const wrong = MetricsLine.wrongName(metrics)
          if (wrong !== undefined || !Number.isFinite(step)) {
            return yield* new TinkerError.InvalidInput({
              module: "MetricsLog",
              method: "append",
              description: wrong === undefined ? `step ${step} is no number` : `a metric cannot be named "${wrong}"`
            })
          }
          const fields = Object.entries(metrics)
          if (tokensPerSecond !== undefined) fields.push(["tokens_per_second", tokensPerSecond])
          yield* write((now) => {
            last = step
            return MetricsLine.step(now, step, totalSteps, fields)
          })
        }),
      noteWaits: (changes) =>
        changes.pipe(
          Stream.map(({ reason }) => reason),
          // A run that has never waited has nothing to say.
          Stream.dropWhile((reason) => reason === undefined),
          Stream.changes,
          Stream.runForEach((reason) => note((now) => MetricsLine.waiting(now, last, reason))),
          Effect.forkScoped,
          Effect.asVoid
        )
    }
  }
)

/**
 * The steps of a log, as they are read. A torn last line is a failure at the very end, after all whole ones.
 *
 * @since 0.1.0
 * @category constructors
 */
export const stream = (
  path: string
): Stream.Stream<Entry, TornLine | MalformedLine | PlatformError.PlatformError, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.map(FileSystem.FileSystem, (fs) => {
    let rest = ""
    let line = 0
    let entries = 0
    const text = new TextDecoder()
    const stepIn = (read: Line): ReadonlyArray<Entry> => {
      if (read._tag !== "Step") return []
      entries++
      return [read.entry]
    }
    const read = (whole: string): Either.Either<ReadonlyArray<Entry>, MalformedLine> => {
      line++
      if (whole.trim() === "") return Either.right([])
      return Either.mapBoth(MetricsLine.parse(whole, entries), {
        onLeft: (description) => new MalformedLine({ path, line, description }),
        onRight: stepIn
      })
    }
    const lines = Stream.mapConcatEffect(fs.stream(path), (bytes) => {
      const parts = (rest + text.decode(bytes, { stream: true })).split("\n")
      rest = parts.pop() ?? ""
      return Effect.map(Effect.forEach(parts, read), (read) => read.flat())
    })
    const last = Stream.suspend(() => {
      const tail = rest + text.decode()
      if (tail.trim() === "") return Stream.empty
      line++
      return Either.match(MetricsLine.parse(tail, entries), {
        onLeft: () => Stream.fail(new TornLine({ path, line, text: tail })),
        onRight: (read) => Stream.fromIterable(stepIn(read))
      })
    })
    return Stream.concat(lines, last)
  }))

/**
 * What one line of a log says, or why it says nothing; `index` counts where it does not say its step.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parseLine: (text: string, index: number) => Either.Either<Line, string> = MetricsLine.parse

/**
 * A whole log, and the torn line at its end, if there is one.
 *
 * @since 0.1.0
 * @category constructors
 */
export const read = (
  path: string
): Effect.Effect<
  { readonly entries: ReadonlyArray<Entry>; readonly torn: TornLine | undefined },
  MalformedLine | PlatformError.PlatformError,
  FileSystem.FileSystem
> =>
  Effect.suspend(() => {
    const entries: Array<Entry> = []
    return stream(path).pipe(
      Stream.runForEach((entry) => Effect.sync(() => entries.push(entry))),
      Effect.as(undefined),
      Effect.catchTag("TornLine", Effect.succeed),
      Effect.map((torn: TornLine | undefined) => ({ entries, torn }))
    )
  })
