/**
 * The metrics of a run on disk: one JSON object a line, `{"step":12,"time":1730000000000,"loss":0.53}`, the form other
 * tools write and read too. Lines with an `event` say what comes between steps: what the run waits for, and that it has
 * ended. `MetricsWatch` follows them.
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
import * as Admission from "./internal/transport/admission.js"
import * as TinkerError from "./TinkerError.js"

// -----------------------------------------------------------------------------
// Parsing and printing lines of a metrics log.
// -----------------------------------------------------------------------------

/** Names that are no metrics. */
const reserved = new Set(["step", "time", "total_steps", "event"])

const words = new Map([["NaN", NaN], ["Infinity", Infinity], ["-Infinity", -Infinity]])

const outcomes: ReadonlyArray<Outcome> = ["success", "failure", "interrupted"]

/** JSON has no words for them; Python writes them bare. */
const bare = /([:,[]\s*)(NaN|-?Infinity)(?=\s*[,}\]])/g

const parseJson = (text: string): Either.Either<unknown, unknown> =>
  Either.try((): unknown => JSON.parse(text)).pipe(
    Either.orElse(() => Either.try((): unknown => JSON.parse(text.replace(bare, "$1\"$2\""))))
  )

const numberOf = (value: unknown): number | undefined =>
  typeof value === "number" ? value : typeof value === "string" ? words.get(value) : undefined

/** Others count seconds, which as milliseconds would be of the early seventies. */
const timeOf = (value: unknown): number | undefined => {
  const time = numberOf(value)
  return time !== undefined && time >= 1e8 && time < 1e11 ? time * 1000 : time
}

/** Entries of `MetricsLog` between the steps. */
const markOf = (fields: ReadonlyMap<string, unknown>): Line | undefined => {
  const time = timeOf(fields.get("time"))
  switch (fields.get("event")) {
    case "waiting": {
      const reason = fields.get("reason")
      return { _tag: "Waiting", time, reason: typeof reason === "string" ? reason : undefined }
    }
    case "end":
      return {
        _tag: "Ended",
        time,
        outcome: outcomes.find((outcome) => outcome === fields.get("outcome")) ?? "success"
      }
    default:
      return undefined
  }
}

const entryOf = (fields: ReadonlyMap<string, unknown>, index: number): Entry => {
  const metrics: Array<[string, number]> = []
  for (const [name, field] of fields) {
    const number = numberOf(field)
    // What is no number (a text, a nested object) belongs to other readers.
    if (number !== undefined && !reserved.has(name)) metrics.push([name, number])
  }
  const totalSteps = numberOf(fields.get("total_steps"))
  return {
    step: numberOf(fields.get("step")) ?? index,
    time: timeOf(fields.get("time")),
    metrics: Object.fromEntries(metrics),
    ...(totalSteps === undefined ? {} : { totalSteps })
  }
}

/**
 * Content of a line; `index` counts where it does not say its step.
 *
 * @internal
 */
const decodeLine = (text: string, index: number): Either.Either<Line, string> =>
  Either.flatMap(Either.mapLeft(parseJson(text), () => "not JSON"), (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return Either.left("not a JSON object")
    const fields = new Map<string, unknown>(Object.entries(value))
    return Either.right(markOf(fields) ?? { _tag: "Step", entry: entryOf(fields, index) })
  })

/**
 * The first of the names that a metric cannot have.
 *
 * @internal
 */
const wrongName = (metrics: Readonly<Record<string, number>>): string | undefined =>
  Object.keys(metrics).find((name) => reserved.has(name))

const renderLine = (fields: Readonly<Record<string, unknown>>): string => `${JSON.stringify(fields)}\n`

const stepLine = (time: number, step: number, totalSteps: number | undefined, metrics: Iterable<[string, number]>) =>
  renderLine({
    step,
    time,
    ...Object.fromEntries(
      Array.from(metrics, ([name, value]) => [name, Number.isFinite(value) ? value : String(value)])
    ),
    total_steps: totalSteps
  })

const waitingLine = (time: number, step: number | undefined, reason: string | undefined) =>
  renderLine({ event: "waiting", step, time, reason: reason ?? null })

const endedLine = (time: number, step: number | undefined, outcome: Outcome) =>
  renderLine({ event: "end", step, time, outcome })

// -----------------------------------------------------------------------------
// Writing and reading a log.
// -----------------------------------------------------------------------------

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
    return `${this.path}:${this.line}: the last line is cut off after ${this.text.length} characters`
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
const repairLastLine = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, path: string) {
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
  if (Either.isRight(decodeLine(tail, 0))) {
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
    yield* repairLastLine(fs, path)
    const file = yield* fs.open(path, { flag: "a", mode: 0o600 })
    const one = Admission.makeSemaphore(1)
    let last: number | undefined
    const write = (line: (now: number) => string) =>
      Effect.gen(function*() {
        yield* file.writeAll(encoder.encode(line(yield* Clock.currentTimeMillis)))
        if (options?.sync === true) yield* file.sync
      }).pipe(Effect.uninterruptible, one.withPermit)
    const note = (line: (now: number) => string) =>
      Effect.catchAll(write(line), (error) => Logs.of("MetricsLog", { path })(Effect.logDebug(error.message)))

    yield* Effect.addFinalizer((exit) => note((now) => endedLine(now, last, outcomeOf(exit))))
    return {
      append: ({ metrics, step, tokensPerSecond, totalSteps }) =>
        Effect.gen(function*() {
          const wrong = wrongName(metrics)
          if (wrong !== undefined || !Number.isFinite(step)) {
            return yield* new TinkerError.InvalidInput({
              module: "MetricsLog",
              method: "append",
              description: wrong === undefined ? `step ${step} is not a number` : `a metric cannot be named "${wrong}"`
            })
          }
          const fields = Object.entries(metrics)
          if (tokensPerSecond !== undefined) fields.push(["tokens_per_second", tokensPerSecond])
          yield* write((now) => {
            last = step
            return stepLine(now, step, totalSteps, fields)
          })
        }),
      noteWaits: (changes) =>
        changes.pipe(
          Stream.map(({ reason }) => reason),
          // A run that has never waited has nothing to say.
          Stream.dropWhile((reason) => reason === undefined),
          Stream.changes,
          Stream.runForEach((reason) => note((now) => waitingLine(now, last, reason))),
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
      return Either.mapBoth(decodeLine(whole, entries), {
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
      return Either.match(decodeLine(tail, entries), {
        onLeft: () => Stream.fail(new TornLine({ path, line, text: tail })),
        onRight: (read) => Stream.fromIterable(stepIn(read))
      })
    })
    return Stream.concat(lines, last)
  }))

/**
 * Content of one line of a log, or why it has none; `index` counts where it does not say its step.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parseLine: (text: string, index: number) => Either.Either<Line, string> = decodeLine

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
