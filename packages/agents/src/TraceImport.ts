/**
 * Logs of agents as traces: spans of OpenTelemetry (JSON lines and protobuf), exports and requests of Langfuse, Braintrust and
 * LangSmith, stored completions and batches of OpenAI, recordings of the gateway, and files of chats.
 *
 * Files are read as streams. What belongs to one trace is held until its file ends or room is needed; calls that continue
 * each other become one conversation. The file of traces only grows: the same import again adds nothing that is there, goes
 * on where it was cut short, and takes what was added to its files. What cannot be used is kept in a file beside it.
 *
 * @since 0.2.0
 */
import * as DataFile from "@effect-tinker/cookbook/DataFile"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Duplicates from "@effect-tinker/cookbook/Duplicates"
import * as Example from "@effect-tinker/cookbook/Example"
import * as JsonText from "@effect-tinker/cookbook/JsonText"
import * as Sensitive from "@effect-tinker/cookbook/Sensitive"
import type * as Message from "@effect-tinker/tokenizer/Message"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as CallStore from "./CallStore.js"
import * as Assembly from "./internal/traces/assembly.js"
import * as Exports from "./internal/traces/exports.js"
import * as Messages from "./internal/traces/messages.js"
import * as Protobuf from "./internal/traces/protobuf.js"
import * as Trace from "./Trace.js"

// =============================================================================
// models
// =============================================================================

/**
 * Files to import, and the file of traces they go to.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options {
  /** Files, and directories that a gateway recorded to. Spans and scores of one trace may be in several. */
  readonly sources: ReadonlyArray<string>
  /** The file of traces, which is added to. */
  readonly out: string
  /** Whether personal data and secrets are replaced, as `Sensitive` finds them. Defaults to true. */
  readonly redact?: boolean | undefined
  /** Bytes of records that are held until their traces are complete; in memory they take about five times as much. Defaults to 64 MiB. */
  readonly maxHeldBytes?: number | undefined
  /** A record of more bytes is put aside; also the limit of files that are read whole. Defaults to 64 MiB. */
  readonly maxRecordBytes?: number | undefined
  /** Called now and then with the records read so far. */
  readonly onProgress?: ((records: number) => Effect.Effect<void>) | undefined
}

/**
 * A record that could not be used.
 *
 * @since 0.2.0
 * @category models
 */
export interface Rejected {
  readonly file: string
  /** Its number in the file, from 1. */
  readonly row: number
  readonly reason: string
}

/**
 * Result of an import.
 *
 * @since 0.2.0
 * @category models
 */
export interface Report {
  /** Records that were read now, those before the place of an earlier import not among them. */
  readonly records: number
  /** Traces that were added. */
  readonly added: number
  /** Traces that were there already. */
  readonly duplicates: number
  /** Added traces by where they come from. */
  readonly sources: Readonly<Partial<Record<Trace.Source, number>>>
  /** Added traces in which something was replaced. */
  readonly redacted: number
  readonly rejected: number
  /** The first of them. */
  readonly examples: ReadonlyArray<Rejected>
  /** Where they are kept, when there are some. */
  readonly rejectedFile: string
}

/**
 * A file that cannot be imported as a whole.
 *
 * @since 0.2.0
 * @category errors
 */
export class ImportFailed extends Schema.TaggedError<ImportFailed>("@effect-tinker/agents/TraceImport/ImportFailed")(
  "ImportFailed",
  { path: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return `${this.path} cannot be imported: ${this.description}`
  }
}

// =============================================================================
// records of files
// =============================================================================

interface Row {
  readonly place: Assembly.Place
  /** Where the next one begins. */
  readonly next: { readonly row: number; readonly offset: number }
  readonly bytes: number
  readonly value: Either.Either<unknown, string>
}

const isProtobuf = (path: string): boolean => /\.(pb|bin|binpb|protobuf)$/.test(path)

const readWhole = Effect.fnUntraced(function*(path: string, limit: number) {
  const fs = yield* FileSystem.FileSystem
  const { size } = yield* fs.stat(path)
  return Number(size) > limit
    ? yield* new ImportFailed({
      path,
      description: `it has ${size} bytes, of ${limit} allowed for a file that is read whole; write JSON lines`
    })
    : yield* fs.readFile(path)
})

const listed = (path: string, values: ReadonlyArray<Either.Either<unknown, string>>): ReadonlyArray<Row> =>
  values.map((value, row) => ({
    place: { file: path, row, offset: 0 },
    next: { row: row + 1, offset: 0 },
    bytes: 1000,
    value
  }))

/** A request after the other, or requests with their lengths before them, as the collector writes them. */
const protobufRecords = (path: string, bytes: Uint8Array): ReadonlyArray<Row> => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const messages: Array<Uint8Array> = []
  if (bytes[0] === 0) {
    for (let at = 0; at + 4 <= bytes.length;) {
      const length = view.getUint32(at)
      messages.push(bytes.subarray(at + 4, at + 4 + length))
      at += 4 + length
    }
  } else messages.push(bytes)
  return listed(
    path,
    messages.flatMap((message) =>
      Either.match(Protobuf.request(message), {
        onLeft: (problem): ReadonlyArray<Either.Either<unknown, string>> => [Either.left(problem)],
        onRight: ({ resourceSpans }) => resourceSpans.map((one) => Either.right({ resourceSpans: [one] }))
      })
    )
  )
}

const lineRecords = (
  path: string,
  from: { readonly row: number; readonly offset: number },
  limit: number
): Stream.Stream<Row, PlatformError.PlatformError, FileSystem.FileSystem> => {
  let offset = from.offset
  return Dataset.rows(DataFile.jsonl(path, Schema.Unknown, { maxRowBytes: limit }), {
    from: { epoch: 0, index: from.row, offset: from.offset }
  }).pipe(Stream.map((row): Row => {
    const begin = offset
    offset = row.next.offset
    return {
      place: { file: path, row: row.origin.row, offset: begin },
      next: { row: row.next.index, offset: row.next.offset },
      bytes: row.next.offset - begin,
      value: row._tag === "Kept" ? Either.right(row.value) : Either.left(row.detail)
    }
  }))
}

/** A `.json` file may hold lines all the same: what the first line is says it. */
const holdsLines = Effect.fnUntraced(function*(path: string, limit: number) {
  if (!path.endsWith(".json")) return true
  const first = yield* Stream.runHead(lineRecords(path, { row: 0, offset: 0 }, limit))
  return Option.exists(first, ({ value }) => Either.isRight(value) && Messages.record(value.right) !== undefined)
})

const wholeRecords = Effect.fnUntraced(function*(path: string, limit: number) {
  const text = Either.flatMap(
    JsonText.decode(yield* readWhole(path, limit)),
    (text) => JsonText.parse(text, JsonText.maxNesting + 1)
  )
  return Either.match(text, {
    onLeft: (problem) => listed(path, [Either.left(problem)]),
    onRight: (value) =>
      listed(path, Array.isArray(value) ? value.map((item) => Either.right(item)) : [Either.right(value)])
  })
})

const recordsOf = (
  path: string,
  from: { readonly row: number; readonly offset: number },
  limit: number
): Stream.Stream<Row, PlatformError.PlatformError | ImportFailed, FileSystem.FileSystem> =>
  Stream.unwrap(Effect.gen(function*() {
    if (isProtobuf(path)) return Stream.fromIterable(protobufRecords(path, yield* readWhole(path, limit)))
    return (yield* holdsLines(path, limit))
      ? lineRecords(path, from, limit)
      : Stream.fromIterable(yield* wholeRecords(path, limit))
  }))

// =============================================================================
// recordings
// =============================================================================

/** The conversations of a rollout, with the tokens that were sampled. */
const recordedTraces = ({ calls, rollout, score }: CallStore.Recorded): ReadonlyArray<Trace.Trace> => {
  const parents = new Set(
    calls.flatMap(({ origin, rejected }) =>
      rejected === undefined && origin._tag === "Continued" ? [origin.parent] : []
    )
  )
  const byId = new Map(calls.map((call) => [call.id, call]))
  const scores = Option.match(score, { onNone: () => ({}), onSome: ({ metrics, reward }) => ({ ...metrics, reward }) })
  return calls.filter(({ id, rejected }) => rejected === undefined && !parents.has(id)).map((last) => {
    const chain = [last]
    for (let call = last; call.origin._tag === "Continued";) {
      const parent = byId.get(call.origin.parent)
      if (parent === undefined) break
      chain.unshift(parent)
      call = parent
    }
    const { completion, prompt } = last.turn
    const written = new Set<Message.Message>(chain.map(({ message }) => message))
    const sampled = new Uint8Array(prompt.length + completion.length)
    const logprobs = new Float32Array(sampled.length)
    for (const call of chain) {
      sampled.fill(1, call.turn.prompt.length, call.turn.prompt.length + call.turn.completion.length)
      logprobs.set(call.logprobs, call.turn.prompt.length)
    }
    return new Trace.Trace({
      id: `${rollout}/${last.id}`,
      session: rollout,
      source: "gateway",
      started_at: Math.min(...chain.map(({ startedAt }) => startedAt)),
      ended_at: last.endedAt,
      messages: [...last.turn.messages, last.message].map((message) =>
        message.role === "assistant" ? { ...message, trainable: written.has(message) } : message
      ),
      scores,
      calls: chain.length,
      usage: {
        input: chain.reduce((sum, { turn }) => sum + turn.prompt.length, 0),
        output: chain.reduce((sum, { turn }) => sum + turn.completion.length, 0)
      },
      tokens: { ids: [...prompt, ...completion], sampled: Array.from(sampled), logprobs: Array.from(logprobs) }
    })
  })
}

// =============================================================================
// importing
// =============================================================================

const decodeTrace = Schema.decodeUnknownEither(Trace.FromJson)
const encodeMessages = Schema.encodeSync(Schema.Array(Example.MessageFromJson))
const decodeMessages = Schema.decodeUnknownSync(Schema.Array(Example.MessageFromJson))

/** A trace without personal data and secrets, and whether there were some. */
const redacted = (trace: Trace.Trace): readonly [Trace.Trace, boolean] => {
  const before = encodeMessages(trace.messages)
  const after = Sensitive.redactJson(before)
  const said = JSON.stringify(before) !== JSON.stringify(after)
  const comment = trace.feedback?.comment
  const clean = comment === undefined ? undefined : Sensitive.redact(comment)
  const session = Sensitive.redact(trace.session) === trace.session
    ? trace.session
    // a name of its own all the same: sessions are held out as a whole
    : `session-${Duplicates.hashOf(trace.session).toString(16)}`
  const tags = trace.tags?.map(Sensitive.redact)
  if (
    !said && clean === comment && session === trace.session && (tags ?? []).every((tag, i) => tag === trace.tags?.[i])
  ) {
    return [trace, false]
  }
  const { feedback, tokens, ...rest } = trace
  return [
    new Trace.Trace({
      ...rest,
      session,
      messages: said ? decodeMessages(after) : trace.messages,
      ...tags === undefined ? {} : { tags },
      ...feedback === undefined ? {} : { feedback: clean === undefined ? feedback : { ...feedback, comment: clean } },
      // tokens say the same as messages
      ...tokens === undefined || said ? {} : { tokens }
    }),
    true
  ]
}

const State = Schema.parseJson(Schema.Struct({
  files: Schema.Record({
    key: Schema.String,
    value: Schema.Struct({ row: Schema.NonNegativeInt, offset: Schema.NonNegativeInt })
  })
}))

const RejectedLine = Schema.Struct({ file: Schema.String, row: Schema.Number })

const encoder = new TextEncoder()

/** Bytes that are written at once. */
const writeBytes = 1024 * 1024
/** Rejected records are kept up to this length. */
const keptCharacters = 100_000
const shownRejections = 10

/** The ids of a file of traces; a line that was cut short is taken off. */
const idsOf = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const ids = Duplicates.exact()
  if (!(yield* fs.exists(path))) return ids
  let end = 0
  let torn = false
  yield* Stream.runForEach(
    Dataset.rows(DataFile.jsonl(path, Schema.Struct({ id: Schema.String }))),
    (row) =>
      Effect.sync(() => {
        torn = row._tag === "Skipped"
        if (row._tag === "Skipped") return
        ids.add(row.value.id, row.origin.row)
        end = row.next.offset
      })
  )
  if (torn) yield* fs.truncate(path, end)
  return ids
})

/**
 * Imports logs into a file of traces.
 *
 * @since 0.2.0
 * @category constructors
 */
export const run: (
  options: Options
) => Effect.Effect<Report, ImportFailed | PlatformError.PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(options) {
    const fs = yield* FileSystem.FileSystem
    const { maxRecordBytes = 64 * 1024 * 1024, out } = options
    const stateFile = `${out}.import.json`
    const rejectedFile = `${out}.rejected.jsonl`
    const ids = yield* idsOf(out)
    const knownRejections = new Set<string>()
    if (yield* fs.exists(rejectedFile)) {
      yield* Stream.runForEach(
        Dataset.values(DataFile.jsonl(rejectedFile, RejectedLine)),
        ({ file, row }) => Effect.sync(() => void knownRejections.add(`${row}:${file}`))
      )
    }
    const places = new Map<string, { readonly row: number; readonly offset: number }>(
      (yield* fs.exists(stateFile))
        ? Object.entries(
          Option.match(Schema.decodeOption(State)(yield* fs.readFileString(stateFile)), {
            onNone: () => ({}),
            onSome: ({ files }) => files
          })
        )
        : []
    )
    const assembly = Assembly.make({ maxBytes: options.maxHeldBytes ?? 64 * 1024 * 1024 })
    const file = yield* fs.open(out, { flag: "a", mode: 0o600 })
    const aside = yield* fs.open(rejectedFile, { flag: "a", mode: 0o600 })

    const sources: Partial<Record<Trace.Source, number>> = {}
    const examples: Array<Rejected> = []
    let [records, added, duplicates, changed, rejected] = [0, 0, 0, 0, 0]
    let lines: Array<string> = []
    let bad: Array<string> = []
    let size = 0

    const keep = (given: Trace.Trace) => {
      if (ids.add(given.id, 0) !== undefined) {
        duplicates++
        return
      }
      const [trace, wasRedacted] = options.redact === false ? [given, false] : redacted(given)
      if (wasRedacted) changed++
      added++
      sources[trace.source] = (sources[trace.source] ?? 0) + 1
      const line = Trace.toLine(trace)
      lines.push(line)
      size += line.length
    }
    const reject = ({ place, reason, record }: Assembly.Bad) => {
      const key = `${place.row + 1}:${place.file}`
      if (knownRejections.has(key)) return
      knownRejections.add(key)
      rejected++
      const found = { file: place.file, row: place.row + 1, reason: reason.replace(/\s+/g, " ").slice(0, 1000) }
      if (examples.length < shownRejections) examples.push(found)
      const kept = options.redact === false ? record : Sensitive.redactJson(record)
      const text = JSON.stringify(kept) ?? "null"
      const line = JSON.stringify({
        ...found,
        record: text.length > keptCharacters ? text.slice(0, keptCharacters) : kept
      })
      bad.push(line)
      size += line.length
    }
    const take = (all: ReadonlyArray<Assembly.Assembled>) => {
      for (const one of all) {
        if (one._tag === "Trace") keep(one.trace)
        else reject(one.bad)
      }
    }
    const takeRecord = ({ bytes, place, value }: Row) => {
      records++
      if (Either.isLeft(value)) return reject({ place, reason: value.left, record: null })
      const fields = Messages.record(value.right)
      if (fields === undefined) return reject({ place, reason: "not an object", record: value.right })
      // `object` is what OpenAI's stored completions have beside their messages
      if (Array.isArray(fields["messages"]) && fields["object"] === undefined && fields["run_type"] === undefined) {
        const decoded = decodeTrace(value.right)
        if (Either.isRight(decoded)) {
          return decoded.right.messages.at(-1)?.role === "assistant"
            ? keep(decoded.right)
            : reject({ place, reason: "the conversation does not end with an answer", record: value.right })
        }
        const tolerant = Messages.read(fields["messages"], "user")
        if (Either.isRight(tolerant) && tolerant.right.at(-1)?.role === "assistant") {
          return Either.match(decodeTrace({ ...fields, messages: encodeMessages(tolerant.right) }), {
            onLeft: (error) =>
              reject({ place, reason: ParseResult.TreeFormatter.formatErrorSync(error), record: value.right }),
            onRight: keep
          })
        }
        return reject({
          place,
          reason: Either.isLeft(tolerant) ? tolerant.left : "the conversation does not end with an answer",
          record: value.right
        })
      }
      Either.match(Exports.facts(fields), {
        onLeft: (reason) => reject({ place, reason, record: value.right }),
        onRight: (facts) => take(assembly.add(facts, place, bytes))
      })
    }
    const write = Effect.gen(function*() {
      if (lines.length > 0) yield* file.writeAll(encoder.encode(`${lines.join("\n")}\n`))
      if (bad.length > 0) yield* aside.writeAll(encoder.encode(`${bad.join("\n")}\n`))
      lines = []
      bad = []
      size = 0
      const files = Object.fromEntries(Array.from(places, ([path, next]) => {
        const needed = assembly.needed(path)
        return [path, needed === undefined ? next : { row: needed.row, offset: needed.offset }]
      }))
      yield* fs.writeFileString(`${stateFile}.partial`, JSON.stringify({ files }))
      yield* fs.rename(`${stateFile}.partial`, stateFile)
    })

    for (const source of options.sources) {
      const info = yield* fs.stat(source)
      if (info.type === "Directory") {
        yield* Stream.runForEach(CallStore.read(source), (recorded) => {
          records += recorded.calls.length
          for (const trace of recordedTraces(recorded)) keep(trace)
          return size > writeBytes ? write : Effect.void
        })
        continue
      }
      const known = places.get(source)
      // a file that has become shorter is another one
      const from = known === undefined || known.offset > Number(info.size) ? { row: 0, offset: 0 } : known
      yield* Stream.runForEach(recordsOf(source, from, maxRecordBytes), (record) =>
        Effect.gen(function*() {
          takeRecord(record)
          places.set(source, record.next)
          if (size > writeBytes) yield* write
          if (records % 1000 === 0 && options.onProgress !== undefined) yield* options.onProgress(records)
        }))
    }
    take(assembly.end())
    yield* write
    if (knownRejections.size === 0) yield* fs.remove(rejectedFile)
    return { records, added, duplicates, sources, redacted: changed, rejected, examples, rejectedFile }
  },
  Effect.scoped
)

/**
 * The tools and messages of a value as logs write them, for importers of other logs. Fails with what cannot be read.
 *
 * @since 0.2.0
 * @category combinators
 */
export const messagesOf = (
  value: unknown,
  role: "user" | "assistant" = "user"
): Either.Either<ReadonlyArray<Message.Message>, string> => Messages.read(value, role)
