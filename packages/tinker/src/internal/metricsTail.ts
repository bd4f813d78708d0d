/**
 * A log that others write, read from where reading had come to.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as MetricsLog from "../MetricsLog.js"
import type { Event } from "../MetricsWatch.js"
import * as MetricsLine from "./metricsLine.js"

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
  /** What the file looked like when there was nothing more to read. */
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
  /** What came after the events, and ends everything. */
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
    const line = MetricsLine.parse(text, entries)
    if (Either.isLeft(line)) {
      const failed = new MetricsLog.MalformedLine({ path, line: lines, description: line.left })
      return { events, place, idle: true, failed }
    }
    add(line.right)
  }
  const tail = atEnd ? decoder.decode(fresh.subarray(whole)) : ""
  // An object that is closed is whole, though the end of its line may be still to come.
  const last = tail.trim() === "" ? undefined : MetricsLine.parse(tail, entries)
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

/** @internal */
export const events = (
  path: string,
  { every, once }: { readonly every: Duration.DurationInput; readonly once: boolean }
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
