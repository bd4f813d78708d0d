/**
 * Follows a training run by the log it writes (`MetricsLog`) until the run ends.
 *
 * The file is polled, which works on every file system. It need not exist yet; an incomplete last line is read once it is
 * complete; a file that was replaced or truncated is read from its start.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as MetricsLog from "effect-tinker/MetricsLog"
import * as Progress from "effect-tinker/Progress"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"

/**
 * View of a log.
 *
 * - `Missing`: the file does not exist yet.
 * - `Restarted`: the file was replaced or truncated; discard what was read before.
 * - `CaughtUp`: everything there is has been read, but for a `torn` last line.
 *
 * @internal
 */
export type Event =
  | MetricsLog.Line
  | { readonly _tag: "Missing" }
  | { readonly _tag: "Restarted" }
  | { readonly _tag: "CaughtUp"; readonly torn: MetricsLog.TornLine | undefined }

/**
 * Where a run stood when a line was written, or stands now.
 *
 * @internal
 */
export interface Standing extends Progress.Standing {
  /** When, in milliseconds since 1970; as far as the log has times. */
  readonly time: number
  readonly ended: MetricsLog.Outcome | undefined
}

const newline = 10
const chunkBytes = 256 * 1024
const anchorBytes = 64

interface Place {
  /** The end of what has been read. */
  readonly offset: number
  /** The last bytes before it. */
  readonly anchor: Uint8Array
  readonly lines: number
  readonly entries: number
  /** State of the file when there was nothing more to read. */
  readonly seen: string | undefined
  readonly missing: boolean
  /** Bytes to read at once: more where a line is longer. */
  readonly want: number
}

const beginning: Place = {
  offset: 0,
  anchor: new Uint8Array(0),
  lines: 0,
  entries: 0,
  seen: undefined,
  missing: false,
  want: chunkBytes
}

const decoder = new TextDecoder()

const concat = (parts: Chunk.Chunk<Uint8Array>): Uint8Array => {
  const whole = new Uint8Array(Chunk.reduce(parts, 0, (sum, part) => sum + part.length))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

const startsWith = (bytes: Uint8Array, prefix: Uint8Array): boolean =>
  bytes.length >= prefix.length && prefix.every((byte, i) => bytes[i] === byte)

interface Found {
  readonly events: ReadonlyArray<Event>
  readonly place: Place
  /** There is nothing more to read for now. */
  readonly idle: boolean
  /** Failure after the events, which ends the stream. */
  readonly failed?: MetricsLog.MalformedLine | undefined
}

const read = (path: string, place: Place, fresh: Uint8Array, seen: string): Found => {
  const whole = fresh.lastIndexOf(newline) + 1
  const atEnd = fresh.length < place.want
  if (whole === 0 && !atEnd) return { events: [], place: { ...place, want: place.want * 2 }, idle: false }
  const events: Array<Event> = []
  let { entries, lines } = place
  const add = (line: MetricsLog.Line) => {
    if (line._tag === "Step") entries++
    events.push(line)
  }
  for (const text of whole === 0 ? [] : decoder.decode(fresh.subarray(0, whole - 1)).split("\n")) {
    lines++
    if (text.trim() === "") continue
    const line = MetricsLog.parseLine(text, entries)
    if (Either.isLeft(line)) {
      const failed = new MetricsLog.MalformedLine({ path, line: lines, description: line.left })
      return { events, place, idle: true, failed }
    }
    add(line.right)
  }
  const tail = atEnd ? decoder.decode(fresh.subarray(whole)) : ""
  // An object that is closed is whole, though the end of its line may be still to come.
  const last = tail.trim() === "" ? undefined : MetricsLog.parseLine(tail, entries)
  if (last !== undefined && Either.isRight(last)) add(last.right)
  if (atEnd) {
    events.push({
      _tag: "CaughtUp",
      torn: last !== undefined && Either.isLeft(last)
        ? new MetricsLog.TornLine({ path, line: lines + 1, text: tail })
        : undefined
    })
  }
  const used = last !== undefined && Either.isRight(last) ? fresh.length : whole
  const known = concat(Chunk.make(place.anchor, fresh.subarray(0, used)))
  return {
    events,
    idle: atEnd,
    place: {
      ...place,
      offset: place.offset + used,
      anchor: known.slice(-anchorBytes),
      lines,
      entries,
      seen: atEnd ? seen : undefined,
      missing: false,
      want: chunkBytes
    }
  }
}

interface State extends Found {
  /** Whether the last line is the end of a run. */
  readonly ended: boolean
}

const look: (
  fs: FileSystem.FileSystem,
  path: string,
  place: Place
) => Effect.Effect<Found, PlatformError.PlatformError> = Effect.fnUntraced(function*(fs, path, place) {
  const stat = yield* fs.stat(path)
  const seen = [Option.getOrNull(stat.ino), stat.size, Option.getOrNull(stat.mtime)?.getTime()].join()
  if (seen === place.seen) return { events: [], place, idle: true }
  const { anchor, offset, want } = place
  const bytes = Number(stat.size) < offset ? new Uint8Array(0) : concat(
    yield* Stream.runCollect(fs.stream(path, { offset: offset - anchor.length, bytesToRead: anchor.length + want }))
  )
  return startsWith(bytes, anchor)
    ? read(path, place, bytes.subarray(anchor.length), seen)
    : { events: [{ _tag: "Restarted" }], place: beginning, idle: false }
})

const missing = (place: Place): Found => ({
  events: place.missing
    ? []
    : [...(place.offset > 0 ? [{ _tag: "Restarted" as const }] : []), { _tag: "Missing" }],
  place: { ...beginning, missing: true },
  idle: true
})

/** Whether everything has been read and the last of it is the end of a run. */
const isOver = (events: ReadonlyArray<Event>, ended: boolean): boolean => {
  const last = events.at(-1)
  return ended && last?._tag === "CaughtUp" && last.torn === undefined
}

/**
 * The lines of a log as they are written, until a run's end is the last of them.
 *
 * @internal
 */
export const events = (
  path: string,
  { every = "250 millis", once = false }: {
    /** How often to look. Defaults to 250 milliseconds. */
    readonly every?: Duration.DurationInput | undefined
    /** Ends when all there is has been read; a file that is not there is a failure then. Defaults to false. */
    readonly once?: boolean | undefined
  } = {}
): Stream.Stream<Event, MetricsLog.MalformedLine | PlatformError.PlatformError, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.map(FileSystem.FileSystem, (fs) => {
    const next = ({ ended, failed, idle, place }: State) => {
      if (failed !== undefined) return Effect.fail(failed)
      return look(fs, path, place).pipe(
        Effect.catchIf(
          (error) => !once && error._tag === "SystemError" && error.reason === "NotFound",
          () => Effect.succeed(missing(place))
        ),
        idle ? Effect.delay(every) : (self) => self,
        Effect.map((found) => {
          const line = found.events.filter(({ _tag }) => _tag !== "CaughtUp" && _tag !== "Missing").at(-1)
          const over = line === undefined ? ended : line._tag === "Ended"
          const end = isOver(found.events, over) || (once && found.idle && found.failed === undefined)
          const state: State = { ...found, ended: over }
          return [Chunk.fromIterable(found.events), end ? Option.none<State>() : Option.some(state)] as const
        })
      )
    }
    const first: State = { events: [], place: beginning, idle: false, ended: false }
    return Stream.paginateChunkEffect(
      first,
      (state): Effect.Effect<
        readonly [Chunk.Chunk<Event>, Option.Option<State>],
        MetricsLog.MalformedLine | PlatformError.PlatformError
      > => next(state)
    )
  }))

/** The run a log tells of, line by line. */
const makeRun = (totalSteps: number | undefined) => {
  let pace = Progress.makePace()
  let started: number | undefined
  let entry: MetricsLog.Entry | undefined
  let total = totalSteps
  let reason: string | undefined
  let ended: MetricsLog.Outcome | undefined
  let live = false

  const begin = () => {
    pace = Progress.makePace()
    started = undefined
    entry = undefined
    reason = undefined
    ended = undefined
  }

  const at = (time: number): Standing => {
    const { tokens_per_second: tokensPerSecond, ...metrics } = entry?.metrics ?? {}
    return {
      step: entry?.step ?? 0,
      totalSteps: total,
      metrics,
      ...pace.read(time, total),
      ...(ended === undefined ? {} : { eta: undefined, sinceStep: undefined }),
      tokensPerSecond,
      elapsed: Duration.millis(Math.max(0, time - (started ?? time))),
      reason,
      time,
      ended
    }
  }

  const step = (next: MetricsLog.Entry, now: number): Standing => {
    if (ended !== undefined || (entry !== undefined && next.step < entry.step)) begin()
    total = totalSteps ?? next.totalSteps ?? total
    reason = undefined
    // Lines that were there before we looked may have no times: then nothing is known of their pace.
    const time = next.time ?? (live ? now : undefined)
    if (entry?.step === next.step) entry = { ...next, metrics: { ...entry.metrics, ...next.metrics } }
    else {
      entry = next
      if (time !== undefined) pace.mark({ at: time, step: next.step })
    }
    if (time !== undefined) started ??= time
    return at(time ?? now)
  }

  return {
    /** Where it stands now, once there is something to say. */
    tick: (now: number): Option.Option<Standing> =>
      entry === undefined && reason === undefined ? Option.none() : Option.some(at(now)),
    apply: (event: Event, now: number): Option.Option<Standing> => {
      switch (event._tag) {
        case "Step":
          return Option.some(step(event.entry, now))
        case "Waiting":
          if (ended !== undefined) begin()
          reason = event.reason
          return Option.some(at(event.time ?? now))
        case "Ended":
          reason = undefined
          ended = event.outcome
          return Option.some(at(event.time ?? now))
        case "Restarted":
          begin()
          total = totalSteps
          return Option.none()
        case "CaughtUp":
          live = true
          return Option.none()
        case "Missing":
          return Option.none()
      }
    }
  }
}

/**
 * Positions of a log by its events: where the run stood at each of its lines and, with `every`, stands in between.
 *
 * @internal
 */
export const standings = (options?: {
  /** Steps to do. Defaults to what the log says. */
  readonly totalSteps?: number | undefined
  /** Time after which a standing comes though nothing has happened, so that clocks on a screen run. Defaults to never. */
  readonly every?: Duration.DurationInput | undefined
}) =>
<E, R>(events: Stream.Stream<Event, E, R>): Stream.Stream<Standing, E, R> =>
  Stream.suspend(() => {
    const run = makeRun(options?.totalSteps)
    const reported = Stream.mapEffect(events, (event) =>
      Effect.map(Clock.currentTimeMillis, (now) => run.apply(event, now)))
    if (options?.every === undefined) {
      return Stream.filterMap(reported, (standing) =>
        standing)
    }
    const ticks = Stream.mapEffect(
      Stream.fromSchedule(Schedule.spaced(options.every)),
      () => Effect.map(Clock.currentTimeMillis, run.tick)
    )
    return Stream.filterMap(Stream.merge(reported, ticks, { haltStrategy: "left" }), (standing) => standing)
  })

/**
 * Where the run of a log stands, live: `standings` of `events`.
 *
 * @internal
 */
export const watch = (
  path: string,
  options?: { readonly totalSteps?: number | undefined; readonly every?: Duration.DurationInput | undefined }
): Stream.Stream<Standing, MetricsLog.MalformedLine | PlatformError.PlatformError, FileSystem.FileSystem> =>
  standings(options)(events(path))
