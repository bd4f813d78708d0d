/**
 * `--vectors`: the corpus as the pinned SDK writes it today beside the committed one, and what we write read by the
 * SDK's own classes.
 */
import { FileSystem, Path } from "@effect/platform"
import { Arbitrary, Console, Effect, Either, FastCheck, ParseResult, Schema } from "effect"
import { Datum } from "effect-tinker"
import { Sample } from "effect-tinker/wire"
import { fileURLToPath } from "node:url"
import * as Python from "../Python.js"
import type { Suite } from "../Suite.js"
import { Differs } from "../Suite.js"
import * as corpus from "../vectors/corpus.js"
import * as protobuf from "../vectors/protobuf.js"
import * as table from "../vectors/table.js"

const name = "vectors"

/** Random values of every request, alike in every run. */
const samples = 40
const seed = 7

interface Written {
  readonly json: Array<{ readonly type: string; readonly text: string }>
  readonly protobuf: Array<{ readonly message: string; readonly hex: string }>
}

const lines = (text: string): ReadonlySet<string> => new Set(text.split("\n"))

/** What changed in a file of the corpus, by its lines. */
const changes = (file: string, before: string, after: string): ReadonlyArray<string> => {
  if (before === after) return []
  const old = lines(before)
  const now = lines(after)
  const short = (line: string) => line.trim().slice(0, 160)
  return [
    ...Array.from(old).filter((line) => !now.has(line)).map((line) => `${file}: - ${short(line)}`),
    ...Array.from(now).filter((line) => !old.has(line)).map((line) => `${file}: + ${short(line)}`)
  ]
}

/** A random request without what only servers of other versions or makes know. */
const current = (json: unknown): unknown => {
  if (Array.isArray(json)) return json.map(current)
  if (typeof json !== "object" || json === null) return json
  const image = "type" in json && (json.type === "image" || json.type === "image_asset_pointer")
  return Object.fromEntries(
    Object.entries(json).flatMap(([key, value]) =>
      image && (key === "height" || key === "width" || key === "tokens")
        ? []
        : [[key, key === "loss_fn" ? "cross_entropy" : current(value)]]
    )
  )
}

const writeRequests = (out: Written): void => {
  for (const [type, row] of Object.entries(table.requests)) {
    const encode = Schema.encodeSync(row.schema)
    for (const value of FastCheck.sample(Arbitrary.make(row.schema), { numRuns: samples, seed })) {
      const json = current(JSON.parse(JSON.stringify(encode(value))))
      out.json.push({ type, text: JSON.stringify(row.fromWire === undefined ? json : row.fromWire(json)) })
    }
  }
}

/** What a server of ours would answer for every answer of the corpus. */
const writeResponses = (out: Written): void => {
  for (const vector of corpus.responses().vectors) {
    const row = table.responses[vector.type]
    if (row === undefined || vector.error !== undefined) continue
    const value = Schema.decodeUnknownEither(row.schema)(vector.input)
    if (Either.isRight(value)) {
      out.json.push({ type: vector.type, text: JSON.stringify(Schema.encodeSync(row.schema)(value.right)) })
    }
  }
}

const writeMessages = (out: Written): void => {
  const push = (message: string, bytes: Either.Either<string, unknown>) => {
    if (Either.isRight(bytes)) out.protobuf.push({ message, hex: bytes.right })
  }
  for (const vector of corpus.protobuf().requests) {
    if (vector.error === undefined) push("ForwardBackwardRequest", protobuf.encode(protobuf.toRequest(vector.input)))
  }
  for (const data of FastCheck.sample(FastCheck.array(Arbitrary.make(Datum.FromJson)), { numRuns: 200, seed })) {
    push("ForwardBackwardRequest", protobuf.encode({ modelId: "m", seqId: 1, lossFn: "cross_entropy", data }))
  }
  for (const response of FastCheck.sample(Arbitrary.make(Sample.SampleResponse), { numRuns: 200, seed })) {
    push(
      "SampleResponse",
      Either.map(Sample.encodeResponse(response), (bytes) => Buffer.from(bytes).toString("hex"))
    )
  }
}

const Accepted = Schema.parseJson(Schema.Struct({
  checked: Schema.Number,
  problems: Schema.Array(Schema.Struct({ what: Schema.String, problem: Schema.String, body: Schema.String }))
}))

const run = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const python = yield* Python.make
  const differences: Array<string> = []

  const committed = fileURLToPath(corpus.directory)
  const fresh = yield* fs.makeTempDirectoryScoped()
  yield* python.run("corpus", fresh)
  for (const file of corpus.files) {
    const before = yield* fs.readFileString(path.join(committed, file)).pipe(Effect.orElseSucceed(() => ""))
    const after = yield* fs.readFileString(path.join(fresh, file))
    const changed = changes(file, before, after)
    differences.push(...changed)
    if (changed.length > 0) yield* fs.writeFileString(path.join(committed, file), after)
  }
  const count = corpus.count()
  yield* Console.log(`corpus of tinker ${python.sdk}: ${count} vectors, ${differences.length} changed lines`)

  const written: Written = { json: [], protobuf: [] }
  writeRequests(written)
  writeResponses(written)
  writeMessages(written)
  const ours = path.join(fresh, "ours.json")
  yield* fs.writeFileString(ours, JSON.stringify(written))
  const report = yield* Schema.decode(Accepted)(yield* python.run("corpus.accept", ours))
  yield* Console.log(
    `written here, read there: ${written.json.length} JSON bodies, ${written.protobuf.length} messages, ` +
      `${report.problems.length} refused`
  )
  differences.push(...report.problems.map(({ body, problem, what }) => `${what}: ${problem} in ${body}`))
  if (differences.length > 0) return yield* new Differs({ suite: name, differences })
}).pipe(
  Effect.scoped,
  Effect.catchTags({
    BadArgument: (error) => new Differs({ suite: name, differences: [error.message] }),
    SystemError: (error) => new Differs({ suite: name, differences: [error.message] }),
    ParseError: (error) => new Differs({ suite: name, differences: [ParseResult.TreeFormatter.formatErrorSync(error)] })
  })
)

export const vectors: Suite = {
  name,
  summary: "every type as the official SDK writes and reads it; regenerates the corpus and fails when it changed",
  run: () => run
}
