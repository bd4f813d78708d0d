/**
 * The rows of benchmarks, from the Hugging Face hub.
 *
 * @since 0.2.0
 */
import type { TokenizerError } from "@effect-tinker/tokenizer/TokenizerError"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Path from "@effect/platform/Path"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Benchmarks from "./Benchmarks.js"
import * as DataFile from "./DataFile.js"
import * as Dataset from "./Dataset.js"
import * as NodeHubDataset from "./NodeHubDataset.js"

/** The leaderboard's `.json` files are JSON lines, and so are those of other benchmarks. */
const rowsOf = (paths: ReadonlyArray<string>) => {
  const [first = ""] = paths
  return first.endsWith(".parquet") ? DataFile.parquet(paths, Schema.Unknown) : DataFile.jsonl(first, Schema.Unknown)
}

/** One dataset after another. */
const concatenated = <E, R>(
  parts: ReadonlyArray<Dataset.Dataset<unknown, E, R>>
): Dataset.Dataset<unknown, E, R> => {
  const [only, ...others] = parts
  return only !== undefined && others.length === 0 ? only : Dataset.make({
    rows: (from) =>
      Stream.fromIterable(parts).pipe(
        Stream.flatMap((part) => part.rows(Dataset.start(from.epoch))),
        Stream.drop(from.index),
        Stream.zipWithIndex,
        Stream.map(([row, i]) => ({ ...row, next: { epoch: from.epoch, index: from.index + i + 1, offset: 0 } }))
      )
  })
}

/**
 * The rows of a benchmark, downloaded unless the hub's cache has them.
 *
 * @since 0.2.0
 * @category constructors
 */
export const rows: (
  definition: Pick<Benchmarks.Definition, "sources" | "answers">,
  options?: Parameters<typeof NodeHubDataset.files>[1]
) => Effect.Effect<
  Dataset.Dataset<unknown, PlatformError.PlatformError, FileSystem.FileSystem>,
  NodeHubDataset.SplitNotFound | TokenizerError | ConfigError | PlatformError.PlatformError,
  FileSystem.FileSystem | Path.Path | HttpClient.HttpClient
> = Effect.fnUntraced(function*({ answers, sources }, options) {
  const parts = yield* Effect.forEach(
    sources,
    (source) => Effect.map(NodeHubDataset.files(source, options), rowsOf),
    { concurrency: 4 }
  )
  const data = concatenated(parts)
  if (answers === undefined) return data
  const known = new Map<unknown, object>()
  yield* Stream.runForEach(
    Dataset.values(rowsOf(yield* NodeHubDataset.files(answers, options))),
    (row) =>
      Effect.sync(() => {
        if (Predicate.hasProperty(row, "id")) known.set(row.id, row)
      })
  )
  return Dataset.map(data, (row) => Predicate.hasProperty(row, "id") ? { ...known.get(row.id), ...row } : row)
})
