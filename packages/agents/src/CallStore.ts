/**
 * Recorded calls in a directory: JSON lines with what a call was, and beside them its ids and log probabilities as plain
 * little-endian arrays.
 *
 * Files only grow, and every process writes its own files: several may share a directory, a reader may read while they
 * write, and nothing is repaired after a crash. The arrays of a call are written before its line, so that a line that can
 * be read is complete; what a killed process left of its last line is skipped. A call that continues another stores only
 * what it added to it.
 *
 * @since 0.1.0
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Chunk from "effect/Chunk"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Recorder from "./Recorder.js"

// =============================================================================
// lines
// =============================================================================

const Fork = Schema.Struct({ reason: Schema.String, description: Schema.String })

const CallLine = Schema.TaggedStruct("Call", {
  id: Schema.String,
  rollout: Schema.String,
  origin: Schema.Union(
    Schema.TaggedStruct("Root", {}),
    Schema.TaggedStruct("Continued", { parent: Schema.String, ids: Schema.Number, messages: Schema.Number }),
    Schema.TaggedStruct("Forked", { parent: Schema.optional(Schema.String), fork: Fork })
  ),
  policyVersion: Schema.Number,
  toolsHash: Schema.String,
  /** After the messages of the call it continues and their answer. */
  messages: Schema.Array(Message.Message),
  message: Message.Message,
  stopReason: Schema.Literal("stop", "length"),
  rejected: Schema.optional(Schema.String),
  startedAt: Schema.Number,
  endedAt: Schema.Number,
  /** Where its arrays begin, in bytes, and how many numbers they have: ids added to the prompt, sampled ids, logprobs. */
  at: Schema.Number,
  added: Schema.Number,
  sampled: Schema.Number
})

const ScoreLine = Schema.TaggedStruct("Score", {
  rollout: Schema.String,
  reward: Schema.Number,
  metrics: Schema.Record({ key: Schema.String, value: Schema.Number }),
  time: Schema.Number
})

const LineJson = Schema.parseJson(Schema.Union(CallLine, ScoreLine))
const decodeLine = Schema.decodeUnknownOption(LineJson)
const encodeLine = Schema.encodeSync(LineJson)

type CallLine = typeof CallLine.Type

// =============================================================================
// models
// =============================================================================

/**
 * How good a rollout was.
 *
 * @since 0.1.0
 * @category models
 */
export interface Score {
  readonly rollout: string
  readonly reward: number
  readonly metrics: Readonly<Record<string, number>>
  /** Milliseconds since the epoch. */
  readonly time: number
}

/**
 * A rollout as it was recorded.
 *
 * @since 0.1.0
 * @category models
 */
export interface Recorded {
  readonly rollout: string
  readonly calls: ReadonlyArray<Recorder.Call>
  /** The latest one. */
  readonly score: Option.Option<Score>
}

/**
 * A directory that calls are written to.
 *
 * @since 0.1.0
 * @category models
 */
export interface CallStore {
  /** Writes a call; the call it continues must have been written before. */
  readonly append: (call: Recorder.Call) => Effect.Effect<void, PlatformError.PlatformError>
  readonly score: (score: Score) => Effect.Effect<void, PlatformError.PlatformError>
  /** A rollout as it was recorded, by this process or an earlier one; without calls when it is unknown. */
  readonly rollout: (rollout: string) => Effect.Effect<Recorded, PlatformError.PlatformError>
  /** Forgets where a rollout is written. It stays in the files. */
  readonly forget: (rollout: string) => Effect.Effect<void>
  /** Rollouts that were not forgotten, in the order of their first calls. */
  readonly rollouts: Effect.Effect<ReadonlyArray<string>>
}

// =============================================================================
// files
// =============================================================================

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const maxLineBytes = 64 * 1024 * 1024
/** Lines that are written at once. */
const maxBatch = 256

/** A line that waits to be written. */
interface Waiting {
  readonly rollout: string
  readonly bytes: Uint8Array
  readonly line: (at: number) => typeof LineJson.Type
  readonly written: Deferred.Deferred<void, PlatformError.PlatformError>
}

/** Where a line is. */
interface Place {
  readonly segment: string
  readonly offset: number
  readonly length: number
}

const linesOf = (segment: string) => `${segment}.jsonl`
const arraysOf = (segment: string) => `${segment}.bin`

const segmentsOf = (fs: FileSystem.FileSystem, directory: string) =>
  Effect.map(
    fs.readDirectory(directory),
    (names) =>
      names.filter((name) => /^calls-[0-9]+-[0-9a-f]+\.jsonl$/.test(name)).sort().map((name) =>
        `${directory}/${name.slice(0, -".jsonl".length)}`
      )
  )

/** The whole lines of a segment with their places; a line without an end is not there yet. */
const places = (fs: FileSystem.FileSystem, segment: string) =>
  Stream.suspend(() => {
    let held = new Uint8Array(0)
    let offset = 0
    return Stream.mapChunks(fs.stream(linesOf(segment)), (chunks) => {
      const found: Array<readonly [Place, Uint8Array]> = []
      for (const chunk of chunks) {
        const bytes = held.length === 0 ? chunk : concat([held, chunk])
        let from = 0
        for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, from)) {
          found.push([{ segment, offset: offset + from, length: end - from }, bytes.subarray(from, end)])
          from = end + 1
        }
        offset += from
        held = bytes.slice(from)
        // nothing of ours is that long: the rest of the file is not a journal
        if (held.length > maxLineBytes) held = new Uint8Array(0)
      }
      return Chunk.unsafeFromArray(found)
    })
  })

const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const out = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}

const rolloutOf = (line: Uint8Array): string | undefined =>
  Option.getOrUndefined(Option.map(decodeLine(decoder.decode(line)), ({ rollout }) => rollout))

/** Where the lines of each rollout are. */
const makeIndex = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, segments: ReadonlyArray<string>) {
  const index = new Map<string, Array<Place>>()
  for (const segment of segments) {
    yield* Stream.runForEach(places(fs, segment), ([place, line]) =>
      Effect.sync(() => {
        const rollout = rolloutOf(line)
        if (rollout !== undefined) push(index, rollout, place)
      }))
  }
  return index
})

const push = (index: Map<string, Array<Place>>, rollout: string, place: Place): void => {
  const known = index.get(rollout)
  if (known === undefined) index.set(rollout, [place])
  else known.push(place)
}

const readAt = Effect.fnUntraced(function*(file: FileSystem.File, offset: number, length: number) {
  yield* file.seek(offset, "start")
  const out = new Uint8Array(length)
  let at = 0
  while (at < length) {
    const part = yield* file.readAlloc(length - at)
    if (Option.isNone(part)) break
    out.set(part.value, at)
    at += part.value.length
  }
  return at === length ? Option.some(out) : Option.none()
})

const readRollout = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  rollout: string,
  index: ReadonlyArray<Place>
) {
  const files = new Map<string, FileSystem.File>()
  const open = Effect.fnUntraced(function*(path: string) {
    const known = files.get(path)
    if (known !== undefined) return known
    const file = yield* fs.open(path, { flag: "r" })
    files.set(path, file)
    return file
  })
  const calls = new Map<string, Recorder.Call>()
  let score = Option.none<Score>()
  for (const { length, offset, segment } of index) {
    const bytes = yield* readAt(yield* open(linesOf(segment)), offset, length)
    const line = Option.flatMap(bytes, (found) => decodeLine(decoder.decode(found)))
    if (Option.isNone(line)) continue
    if (line.value._tag === "Score") {
      const { _tag: _, ...found } = line.value
      score = Option.some(found)
      continue
    }
    const { added, at, sampled } = line.value
    const arrays = yield* readAt(yield* open(arraysOf(segment)), at, 4 * (added + 2 * sampled))
    if (Option.isNone(arrays)) continue
    const call = restore(line.value, arrays.value, calls)
    if (call !== undefined) calls.set(call.id, call)
  }
  return { rollout, calls: Array.from(calls.values()), score } satisfies Recorded
}, Effect.scoped)

const restore = (
  line: CallLine,
  arrays: Uint8Array,
  calls: ReadonlyMap<string, Recorder.Call>
): Recorder.Call | undefined => {
  const { _tag: _, added, at: __, messages, sampled, ...fields } = line
  const ids = new Int32Array(arrays.buffer, arrays.byteOffset, added + sampled)
  const fresh = ids.subarray(0, added)
  const completion = ids.subarray(added)
  const logprobs = new Float32Array(arrays.buffer, arrays.byteOffset + 4 * (added + sampled), sampled)
  if (line.origin._tag !== "Continued") {
    return { ...fields, rejected: line.rejected, turn: { messages, prompt: fresh, completion }, logprobs }
  }
  const parent = calls.get(line.origin.parent)
  if (parent === undefined) return undefined
  const before = parent.turn.prompt.length + parent.turn.completion.length
  const prompt = new Int32Array(before + added)
  prompt.set(parent.turn.prompt)
  prompt.set(parent.turn.completion, parent.turn.prompt.length)
  prompt.set(fresh, before)
  const turn = { messages: [...parent.turn.messages, parent.message, ...messages], prompt, completion }
  return { ...fields, rejected: line.rejected, turn, logprobs }
}

// =============================================================================
// constructors
// =============================================================================

/**
 * Opens a directory for writing until the scope closes. What earlier processes wrote can be read through it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const open: (
  directory: string
) => Effect.Effect<CallStore, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.fnUntraced(
  function*(directory) {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    const earlier = yield* segmentsOf(fs, directory)
    const index = yield* makeIndex(fs, earlier)
    // numbered, so that a rollout that goes on is read in its order; processes that open at once differ in the rest
    const last = Number(/calls-([0-9]+)-[0-9a-f]+$/.exec(earlier.at(-1) ?? "")?.[1] ?? 0)
    const segment = `${directory}/calls-${String(last + 1).padStart(6, "0")}-${yield* Entropy.hex(4)}`
    const lines = yield* fs.open(linesOf(segment), { flag: "ax", mode: 0o600 })
    const arrays = yield* fs.open(arraysOf(segment), { flag: "ax", mode: 0o600 })
    let lineBytes = 0
    let arrayBytes = 0
    // A write that fails leaves an unknown number of bytes behind: the sizes are taken from the files again.
    const resync = Effect.gen(function*() {
      yield* lines.writeAll(encoder.encode("\n"))
      lineBytes = Number((yield* lines.stat).size)
      arrayBytes = Number((yield* arrays.stat).size)
      const torn = arrayBytes % 4
      if (torn > 0) {
        yield* arrays.writeAll(new Uint8Array(4 - torn))
        arrayBytes += 4 - torn
      }
    })
    /** All that is waiting is written at once: many rollouts share two writes. */
    const writeBatch = Effect.fnUntraced(
      function*(batch: ReadonlyArray<Waiting>) {
        let at = arrayBytes
        const bytes: Array<Uint8Array> = []
        const texts: Array<Uint8Array> = []
        for (const one of batch) {
          bytes.push(one.bytes)
          texts.push(encoder.encode(`${encodeLine(one.line(at))}\n`))
          at += one.bytes.length
        }
        if (at > arrayBytes) yield* arrays.writeAll(concat(bytes))
        yield* lines.writeAll(concat(texts))
        batch.forEach(({ rollout }, i) => {
          const length = texts[i]?.length ?? 0
          push(index, rollout, { segment, offset: lineBytes, length: length - 1 })
          lineBytes += length
        })
        arrayBytes = at
      },
      Effect.tapError(() => Effect.ignore(resync))
    )
    const waiting: Array<Waiting> = []
    let writer: Fiber.RuntimeFiber<void> | undefined
    const writeAll = Effect.gen(function*() {
      while (waiting.length > 0) {
        const batch = waiting.splice(0, maxBatch)
        const exit = yield* Effect.exit(writeBatch(batch))
        for (const { written } of batch) Deferred.unsafeDone(written, exit)
      }
      writer = undefined
    })
    yield* Effect.addFinalizer(() => Effect.suspend(() => writer === undefined ? Effect.void : Fiber.await(writer)))
    const write = (rollout: string, bytes: Uint8Array, line: (at: number) => typeof LineJson.Type) =>
      Effect.uninterruptible(Effect.gen(function*() {
        const written = Deferred.unsafeMake<void, PlatformError.PlatformError>(FiberId.none)
        waiting.push({ rollout, bytes, line, written })
        if (writer === undefined) writer = yield* Effect.forkDaemon(writeAll)
        return yield* Deferred.await(written)
      }))
    return {
      append: (call) =>
        Effect.suspend(() => {
          const { logprobs, turn, ...fields } = call
          const shared = call.origin._tag === "Continued" ? call.origin : { ids: 0, messages: 0 }
          const fresh = turn.prompt.subarray(shared.ids)
          const sampled = turn.completion.length
          const bytes = new Uint8Array(4 * (fresh.length + 2 * sampled))
          const ids = new Int32Array(bytes.buffer, 0, fresh.length + sampled)
          ids.set(fresh)
          ids.set(turn.completion, fresh.length)
          new Float32Array(bytes.buffer, 4 * ids.length).set(logprobs)
          return write(call.rollout, bytes, (at) => ({
            _tag: "Call",
            ...fields,
            messages: turn.messages.slice(shared.messages),
            at,
            added: fresh.length,
            sampled
          }))
        }),
      score: (score) => write(score.rollout, new Uint8Array(0), () => ({ _tag: "Score", ...score })),
      rollout: (rollout) => Effect.suspend(() => readRollout(fs, rollout, index.get(rollout)?.slice() ?? [])),
      forget: (rollout) => Effect.sync(() => void index.delete(rollout)),
      rollouts: Effect.sync(() => Array.from(index.keys()))
    }
  }
)

/**
 * The rollouts of a directory, one at a time, in the order of their first calls. Reads what is there now, also while it is
 * being written; only places of lines and one rollout are held in memory.
 *
 * @since 0.1.0
 * @category constructors
 */
export const read = (
  directory: string
): Stream.Stream<Recorded, PlatformError.PlatformError, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const index = yield* makeIndex(fs, yield* segmentsOf(fs, directory))
    return Stream.mapEffect(Stream.fromIterable(index), ([rollout, found]) => readRollout(fs, rollout, found))
  }))
