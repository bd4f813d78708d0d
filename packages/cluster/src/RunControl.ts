/**
 * How people and other programs talk to a durable run: by files in its directory. The process that trains is the only one
 * that opens the workflow's database; everybody else reads `status.json` and leaves requests and grades, which survive
 * until that process, or the one after it, has taken them up.
 *
 * Files are below `durable/`: `status.json`, `pause.json`, `resume.json`, `cancel.json`, `questions/KEY.json` and
 * `answers/KEY.json`. Each is written to a temporary name and renamed, so a reader never sees half of one.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/**
 * Where a durable run keeps its own files.
 *
 * @since 0.1.0
 * @category configuration
 */
export const folder = (directory: string): string => `${directory}/durable`

/**
 * An id that no other run has, made when it is first asked for. A directory that is removed and made again holds another
 * run.
 *
 * @since 0.1.0
 * @category constructors
 */
export const id: (
  directory: string
) => Effect.Effect<string, PlatformError.PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(directory) {
    const fs = yield* FileSystem.FileSystem
    const path = `${folder(directory)}/id`
    yield* fs.makeDirectory(folder(directory), { recursive: true, mode: 0o700 })
    const { bytes } = yield* Entropy
    const made = Encoding.encodeHex(yield* bytes(16))
    // The second caller finds the id of the first.
    yield* Effect.ignore(fs.writeFileString(path, made, { flag: "wx", mode: 0o600 }))
    return yield* fs.readFileString(path)
  }
)

/**
 * Where ids come from: the platform's cryptographic generator, unless a test fixes it.
 *
 * @since 0.1.0
 * @category services
 */
export class Entropy extends Context.Reference<Entropy>()("@effect-tinker/cluster/RunControl/Entropy", {
  defaultValue: (): { readonly bytes: (count: number) => Effect.Effect<Uint8Array> } => ({
    bytes: (count) => Effect.sync(() => globalThis.crypto.getRandomValues(new Uint8Array(count)))
  })
}) {}

// =============================================================================
// status
// =============================================================================

/**
 * State of a run. `waiting`: until a time. `judging`: until people have graded answers. `paused`: until it is
 * resumed. `stopped` and `failed`: until its command is started again.
 *
 * @since 0.1.0
 * @category schemas
 */
export const State = Schema.Literal(
  "running",
  "waiting",
  "judging",
  "paused",
  "stopped",
  "failed",
  "cancelled",
  "complete"
)

/**
 * State of a run.
 *
 * @since 0.1.0
 * @category models
 */
export type State = typeof State.Type

/**
 * Where a durable run stands, as its process last recorded it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Status extends Schema.Class<Status>("@effect-tinker/cluster/RunControl/Status")({
  run: Schema.String,
  state: State,
  /** Optimizer steps in the latest checkpoint. */
  step: Schema.NonNegativeInt,
  /** Milliseconds since 1970 at which it entered the state. */
  since: Schema.Number,
  /** When it goes on by itself, where that is known. */
  until: Schema.optional(Schema.Number),
  /** Why it does not go on. */
  message: Schema.optional(Schema.String),
  /** Grades it waits for. */
  questions: Schema.optionalWith(Schema.Array(Schema.String), { default: () => [] })
}) {}

/**
 * Requests to a run.
 *
 * @since 0.1.0
 * @category models
 */
export type Action = "pause" | "resume" | "cancel"

/**
 * A request that a run has not taken up yet.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Request extends Schema.Class<Request>("@effect-tinker/cluster/RunControl/Request")({
  action: Schema.Literal("pause", "resume", "cancel"),
  /** Milliseconds since 1970 at which it was made. */
  time: Schema.Number
}) {}

/**
 * An answer that a person is to grade.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Question extends Schema.Class<Question>("@effect-tinker/cluster/RunControl/Question")({
  /** The same question about the same answer has the same key. */
  key: Schema.String,
  question: Schema.String,
  answer: Schema.String,
  /** Milliseconds since 1970 at which it was first asked. */
  time: Schema.Number
}) {}

/**
 * A grade that a person has given.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Answer extends Schema.Class<Answer>("@effect-tinker/cluster/RunControl/Answer")({
  key: Schema.String,
  grade: Schema.Finite,
  time: Schema.Number
}) {}

/**
 * There is nothing to answer under this key: it was never asked, or the run has used its grade already.
 *
 * @since 0.1.0
 * @category errors
 */
export class NoSuchQuestion
  extends Schema.TaggedError<NoSuchQuestion>("@effect-tinker/cluster/RunControl/NoSuchQuestion")("NoSuchQuestion", {
    directory: Schema.String,
    key: Schema.String
  })
{
  override get message(): string {
    return `${this.directory} does not wait for a grade of ${this.key}`
  }
}

/**
 * A grade is a finite number.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidGrade
  extends Schema.TaggedError<InvalidGrade>("@effect-tinker/cluster/RunControl/InvalidGrade")("InvalidGrade", {
    key: Schema.String,
    grade: Schema.Number
  })
{
  override get message(): string {
    return `${this.grade} is no grade of ${this.key}: a grade is a finite number`
  }
}

// =============================================================================
// files
// =============================================================================

/** A key becomes the name of a file. */
const Key = Schema.String.pipe(Schema.pattern(/^[\w-]{1,128}$/))
const isKey = Schema.is(Key)

const readJson = Effect.fnUntraced(function*<A, I>(schema: Schema.Schema<A, I>, path: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.option(fs.readFileString(path))
  return Option.flatMap(text, (json) => Schema.decodeOption(Schema.parseJson(schema))(json))
})

const writeJson = Effect.fnUntraced(function*<A, I>(schema: Schema.Schema<A, I>, path: string, value: A) {
  const fs = yield* FileSystem.FileSystem
  const text = Schema.encodeSync(Schema.parseJson(schema))(value)
  const temporary = `${path}.new`
  yield* fs.writeFileString(temporary, `${text}\n`, { mode: 0o600 })
  yield* fs.rename(temporary, path)
})

const list = Effect.fnUntraced(function*<A, I>(schema: Schema.Schema<A, I>, path: string) {
  const fs = yield* FileSystem.FileSystem
  const names = yield* Effect.orElseSucceed(fs.readDirectory(path), (): Array<string> => [])
  const found = yield* Effect.forEach(
    names.filter((name) => name.endsWith(".json")).sort(),
    (name) => readJson(schema, `${path}/${name}`)
  )
  return found.flatMap(Option.toArray)
})

/**
 * Where a run stands; none where the directory holds no durable run.
 *
 * @since 0.1.0
 * @category constructors
 */
export const status = (directory: string): Effect.Effect<Option.Option<Status>, never, FileSystem.FileSystem> =>
  readJson(Status, `${folder(directory)}/status.json`)

/** Records where a run stands. @internal */
export const setStatus = (
  directory: string,
  value: Status
): Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem> =>
  writeJson(Status, `${folder(directory)}/status.json`, value)

const requestPath = (directory: string, action: Action): string => `${folder(directory)}/${action}.json`

/**
 * Asks something of a run. It is taken up within about a second where the run's process is alive, and else when it is
 * started again. Resuming takes back a pause that has not been taken up.
 *
 * @since 0.1.0
 * @category constructors
 */
export const request: (
  directory: string,
  action: Action
) => Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(directory, action) {
    const fs = yield* FileSystem.FileSystem
    yield* fs.makeDirectory(folder(directory), { recursive: true, mode: 0o700 })
    if (action === "resume") yield* fs.remove(requestPath(directory, "pause"), { force: true })
    const time = yield* Clock.currentTimeMillis
    yield* writeJson(Request, requestPath(directory, action), new Request({ action, time }))
  }
)

/** A request that was made, if there is one. @internal */
export const requested = (
  directory: string,
  action: Action
): Effect.Effect<Option.Option<Request>, never, FileSystem.FileSystem> =>
  readJson(Request, requestPath(directory, action))

/** A request is done with; one that was made after it stays. @internal */
export const done = Effect.fnUntraced(function*(directory: string, taken: Request) {
  const fs = yield* FileSystem.FileSystem
  const current = yield* requested(directory, taken.action)
  if (Option.exists(current, ({ time }) => time === taken.time)) {
    yield* fs.remove(requestPath(directory, taken.action), { force: true })
  }
})

/**
 * Answers that a run waits for people to grade, oldest first.
 *
 * @since 0.1.0
 * @category constructors
 */
export const questions: (
  directory: string
) => Effect.Effect<ReadonlyArray<Question>, never, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(directory) {
    const asked = yield* list(Question, `${folder(directory)}/questions`)
    const given = new Set((yield* answers(directory)).map(({ key }) => key))
    return asked.filter(({ key }) => !given.has(key)).sort((a, b) => a.time - b.time || a.key.localeCompare(b.key))
  }
)

/** Puts a question where people find it. @internal */
export const ask: (
  directory: string,
  question: Question
) => Effect.Effect<void, PlatformError.PlatformError, FileSystem.FileSystem> = Effect.fnUntraced(
  function*(directory, question) {
    const fs = yield* FileSystem.FileSystem
    const path = `${folder(directory)}/questions`
    yield* fs.makeDirectory(path, { recursive: true, mode: 0o700 })
    // Asked by an earlier process too, it keeps its time.
    if (!(yield* fs.exists(`${path}/${question.key}.json`))) {
      yield* writeJson(Question, `${path}/${question.key}.json`, question)
    }
  }
)

/**
 * Grades an answer. The grade is the reward of the rollout that asked for it. Until the run has taken it up, another one
 * replaces it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const answer: (
  directory: string,
  key: string,
  grade: number
) => Effect.Effect<void, NoSuchQuestion | InvalidGrade | PlatformError.PlatformError, FileSystem.FileSystem> = Effect
  .fnUntraced(function*(directory, key, grade) {
    if (!Number.isFinite(grade)) return yield* new InvalidGrade({ key, grade })
    const fs = yield* FileSystem.FileSystem
    const known = isKey(key) && (yield* fs.exists(`${folder(directory)}/questions/${key}.json`))
    if (!known) return yield* new NoSuchQuestion({ directory, key })
    const path = `${folder(directory)}/answers`
    yield* fs.makeDirectory(path, { recursive: true, mode: 0o700 })
    yield* writeJson(
      Answer,
      `${path}/${key}.json`,
      new Answer({ key, grade, time: yield* Clock.currentTimeMillis })
    )
  })

/** Grades that were given and not taken up. @internal */
export const answers = (
  directory: string
): Effect.Effect<ReadonlyArray<Answer>, never, FileSystem.FileSystem> => list(Answer, `${folder(directory)}/answers`)

/** A question is answered for good. @internal */
export const answered = Effect.fnUntraced(function*(directory: string, key: string) {
  const fs = yield* FileSystem.FileSystem
  yield* fs.remove(`${folder(directory)}/questions/${key}.json`, { force: true })
  yield* fs.remove(`${folder(directory)}/answers/${key}.json`, { force: true })
})
