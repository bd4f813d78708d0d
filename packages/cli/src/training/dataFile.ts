/**
 * Files of training data: what kind of rows one has, and its rows as a dataset. JSON lines, a JSON array, or Parquet, by
 * the name's ending.
 *
 * @since 0.1.0
 */
import * as DataFile from "@effect-tinker/cookbook/DataFile"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Example from "@effect-tinker/cookbook/Example"
import * as NodeHubDataset from "@effect-tinker/cookbook/NodeHubDataset"
import * as RowShape from "@effect-tinker/cookbook/RowShape"
import * as Message from "@effect-tinker/tokenizer/Message"
import type { PlatformError } from "@effect/platform/Error"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import type * as Datum from "effect-tinker/Datum"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"

type File<A> = Dataset.Dataset<A, PlatformError | ParseResult.ParseError, FileSystem.FileSystem>

/** @internal */
export type Kind = RowShape.Kind

/** @internal */
export const kinds: readonly [Kind, ...ReadonlyArray<Kind>] = ["chats", "completions", "preferences"]

/** The mapping of `--columns`. @internal */
export const parseColumns = (
  given: Option.Option<string>
): Effect.Effect<RowShape.Columns | undefined, CliFailure> =>
  Option.match(given, {
    onNone: () => Effect.succeed(undefined),
    onSome: (mapping) =>
      Effect.mapError(
        RowShape.parseColumns(mapping),
        (problem) => usage(`--columns ${mapping}: ${problem}`, "For example: --columns user=question,assistant=answer")
      )
  })

/** A file, or the Parquet files of a dataset one after another. @internal */
export type Source = string | ReadonlyArray<string>

/** Beginning of a name that means a dataset of the Hugging Face hub. */
const hubPrefix = "hub:"

/** A log line every so many bytes. */
const reportEvery = 50_000_000

const logProgress = () => {
  let last = 0
  return ({ bytes, done, file }: { readonly bytes: number; readonly done: number; readonly file: string }) => {
    if (done < last) last = 0
    if (done - last < reportEvery) return Effect.void
    last = done
    return Effect.logInfo(`Downloading ${file}: ${Math.round(done / 1e6)} of ${Math.round(bytes / 1e6)} MB`)
  }
}

/**
 * The files that a name stands for: a path as it is, `hub:NAME[@REVISION][:[CONFIG/]SPLIT]` downloaded.
 *
 * @internal
 */
export const locate = Effect.fnUntraced(function*(name: string): Effect.fn.Return<
  Source,
  CliFailure,
  FileSystem.FileSystem | Path.Path
> {
  if (!name.startsWith(hubPrefix)) return name
  const reference = NodeHubDataset.parse(name.slice(hubPrefix.length))
  const advice = "For example: hub:openai/gsm8k:main/train"
  if (Option.isNone(reference)) return yield* usage(`${name} is not the name of a dataset on the hub`, advice)
  return yield* NodeHubDataset.files(reference.value, { onProgress: logProgress() }).pipe(
    Effect.provide(FetchHttpClient.layer),
    Effect.mapError((cause) =>
      new CliFailure({ what: "message" in cause ? cause.message : "the hub's settings are wrong", advice, cause })
    )
  )
})

const rawRows = <A, I>(source: Source, schema: Schema.Schema<A, I>): File<A> => {
  const [path = ""] = typeof source === "string" ? [source] : source
  return path.endsWith(".parquet")
    ? DataFile.parquet(source, schema)
    : path.endsWith(".json")
    ? DataFile.json(path, schema)
    : DataFile.jsonl(path, schema)
}

/** The rows of a file as they stand in it. @internal */
export const raw = (source: Source): File<unknown> => rawRows(source, Schema.Unknown)

const rowsOf = <A, I>(source: Source, schema: Schema.Schema<A, I>, columns?: RowShape.Columns): File<A> =>
  rawRows(source, RowShape.reading(schema, columns))

/** Rows that are looked at to see what a file has. */
const looked = 100

/**
 * Fails unless it is a file.
 *
 * @internal
 */
export const requireFile = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* fs.stat(path)
  return info.type === "Directory"
    ? yield* new CliFailure({ what: `${path} is a directory`, advice: "Name the file in it: JSON lines or Parquet." })
    : undefined
})

/**
 * The shape of a file's rows, by the first row that has one.
 *
 * @internal
 */
export const recognize: (
  source: Source,
  columns?: RowShape.Columns
) => Effect.Effect<
  Omit<RowShape.Recognized, "row">,
  CliFailure | PlatformError | ParseResult.ParseError,
  FileSystem.FileSystem
> = Effect.fnUntraced(
  function*(source, columns) {
    const path = typeof source === "string" ? source : source.join(", ")
    if (typeof source === "string") yield* requireFile(source)
    let skipped: Dataset.Skipped | undefined
    let found: string | undefined
    const shape = yield* Dataset.rows(rawRows(source, Schema.Unknown)).pipe(
      Stream.take(looked),
      Stream.tap((row) =>
        Effect.sync(() => {
          if (row._tag === "Skipped") skipped ??= row
          else if (Predicate.isRecord(row.value)) found ??= Object.keys(row.value).slice(0, 20).join(", ")
        })
      ),
      Stream.filterMap((row) => row._tag === "Kept" ? RowShape.recognize(row.value, columns) : Option.none()),
      Stream.runHead
    )
    return yield* Option.match(shape, {
      onSome: Effect.succeed,
      onNone: () =>
        new CliFailure({
          what: `${path} has no rows to train on${found === undefined ? "" : `: its columns are ${found}`}`,
          advice: skipped === undefined
            ? `Expected ${
              RowShape.known.join("; ")
            }. Other names can be mapped: --columns user=question,assistant=answer`
            : `Row ${skipped.origin.row + 1} is ${skipped.reason.replace("_", " ")}: ${skipped.detail}.`
        })
    })
  }
)

/**
 * The examples of a file for supervised training.
 *
 * @internal
 */
export const examples = (
  source: Source,
  kind: "chats" | "completions",
  columns?: RowShape.Columns
): File<Example.Example> =>
  kind === "chats"
    ? rowsOf(source, Example.ConversationFromJson, columns)
    : rowsOf(source, Example.CompletionFromJson, columns)

/** @internal */
export const preferences = (source: Source, columns?: RowShape.Columns): File<Example.Preference> =>
  rowsOf(source, Example.PreferenceFromJson, columns)

/** The rows of a file as what would be trained on; a preference is two of them, the chosen answer first. @internal */
export const data = (
  source: Source,
  kind: Kind,
  options: Example.RenderOptions,
  columns?: RowShape.Columns
): File<ReadonlyArray<Datum.Datum>> =>
  kind === "preferences"
    ? Dataset.mapEffect(
      preferences(source, columns),
      (pair) => Effect.map(Example.toPair(pair, options), ({ chosen, rejected }) => [chosen, rejected])
    )
    : Dataset.mapEffect(
      examples(source, kind, columns),
      (example) => Effect.map(Example.toDatum(example, options), (datum) => [datum])
    )

const PromptRow = Schema.Union(
  Schema.String,
  Schema.Struct({ prompt: Schema.Union(Schema.String, Schema.Array(Example.MessageFromJson)) }),
  Schema.Struct({ messages: Schema.Array(Example.MessageFromJson) })
)

/** A prompt, and the answer that follows it in the file, if there is one. @internal */
export interface Prompt {
  readonly messages: ReadonlyArray<Message.Message>
  readonly expected: Option.Option<string>
}

/** A conversation up to its last answer. */
const untilAnswer = (messages: ReadonlyArray<Message.Message>): Prompt => {
  const last = Arr.findLastIndex(messages, ({ role }) => role === "assistant")
  return {
    messages: Option.match(last, { onNone: () => messages, onSome: (at) => messages.slice(0, at) }),
    expected: Option.map(Option.flatMap(last, (at) => Arr.get(messages, at)), Message.text)
  }
}

const PromptFromJson = Schema.transformOrFail(
  PromptRow,
  Schema.declare((u): u is Prompt => Predicate.hasProperty(u, "messages"), { identifier: "Prompt" }),
  {
    strict: true,
    decode: (row, _, ast): Either.Either<Prompt, ParseResult.ParseIssue> => {
      const given = typeof row === "string" ? row : "prompt" in row ? row.prompt : row.messages
      const prompt = typeof given === "string"
        ? { messages: [Message.user(given)], expected: Option.none<string>() }
        : untilAnswer(given)
      return prompt.messages.length === 0
        ? Either.left(new ParseResult.Type(ast, row, "a prompt needs a message before the answer"))
        : Either.right(prompt)
    },
    encode: (prompt, _, ast) => Either.left(new ParseResult.Forbidden(ast, prompt, "rows are read, not written"))
  }
)

/**
 * The prompts of a file: texts, `prompt`s, or conversations up to their last answer.
 *
 * @internal
 */
export const prompts = (path: string): File<Prompt> => rawRows(path, PromptFromJson)

/**
 * The batch size to use where none was asked for: that many, or as many rows as there are.
 *
 * @internal
 */
export const sizeFor = <A, E, R>(
  data: Dataset.Dataset<A, E, R>,
  given: Option.Option<number>,
  usual: number
): Effect.Effect<number, E, R> =>
  Option.match(given, {
    onSome: Effect.succeed,
    onNone: () =>
      Dataset.values(data).pipe(
        Stream.take(usual),
        Stream.runCount,
        Effect.map((count) => Math.max(1, count))
      )
  })
