/**
 * Datasets of the Hugging Face hub by name: the files of a split, downloaded into the hub's own cache.
 *
 * @since 0.2.0
 */
import * as HuggingFaceHub from "@effect-tinker/tokenizer/HuggingFaceHub"
import * as NodeHubSnapshot from "@effect-tinker/tokenizer/NodeHubSnapshot"
import type { TokenizerError } from "@effect-tinker/tokenizer/TokenizerError"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import type { ConfigError } from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/**
 * A repository that has no such split, or none in a format that can be read.
 *
 * @since 0.2.0
 * @category errors
 */
export class SplitNotFound extends Schema.TaggedError<SplitNotFound>(
  "@effect-tinker/cookbook/NodeHubDataset/SplitNotFound"
)("SplitNotFound", { repo: Schema.String, description: Schema.String }) {
  override get message(): string {
    return `${this.repo}: ${this.description}`
  }
}

/**
 * A split of a dataset on the hub.
 *
 * @since 0.2.0
 * @category models
 */
export interface Reference {
  /** Name, such as `openai/gsm8k`. */
  readonly repo: string
  /** Branch, tag or commit. Defaults to `main`. */
  readonly revision?: string | undefined
  /** Configuration, for repositories that have several. */
  readonly config?: string | undefined
  /** Defaults to `train`. */
  readonly split?: string | undefined
}

/**
 * Reads `NAME[@REVISION][:[CONFIG/]SPLIT]`, such as `openai/gsm8k:main/test`.
 *
 * @since 0.2.0
 * @category constructors
 */
export const parse = (reference: string): Option.Option<Reference> => {
  const match = /^(\w[\w.-]*(?:\/\w[\w.-]*)?)(?:@([\w./-]+))?(?::(?:([\w.-]+)\/)?([\w.-]+))?$/.exec(reference)
  return match === null
    ? Option.none()
    : Option.some({ repo: match[1] ?? "", revision: match[2], config: match[3], split: match[4] })
}

/** The configuration and split that a file belongs to, as the hub lays repositories out. */
const placeOf = (name: string): { readonly config: string; readonly split: string } | undefined => {
  // what the hub itself made of a dataset, at the revision refs/convert/parquet
  const converted = /^([^/]+)\/([^/]+)\/\d+\.parquet$/.exec(name)
  if (converted !== null) return { config: converted[1] ?? "", split: converted[2] ?? "" }
  const match = /^(?:(.+)\/)?([\w.]+?)(?:[-_]\d+(?:-of-\d+)?)?\.(parquet|jsonl|jsonl\.gz|json)$/.exec(name)
  if (match === null) return undefined
  const folder = match[1] ?? ""
  return { config: folder === "data" ? "" : folder.replace(/^data\//, ""), split: match[2] ?? "" }
}

const described = (configs: Iterable<string>): string =>
  Array.from(new Set(configs), (config) => config === "" ? "(none)" : config).sort().join(", ")

/**
 * The names of a split's files among those of a repository, in order, or what there is instead.
 *
 * @internal
 */
export const choose = (
  names: ReadonlyArray<string>,
  { config, split = "train" }: Pick<Reference, "config" | "split">
): Either.Either<ReadonlyArray<string>, string> => {
  const files = names.flatMap((name) => {
    const place = placeOf(name)
    return place === undefined ? [] : [{ name, ...place }]
  })
  if (files.length === 0) return Either.left("it has no Parquet, JSON or JSON lines files")
  const ofSplit = files.filter((file) => file.split === split)
  if (ofSplit.length === 0) {
    return Either.left(`it has no split ${split}, but ${described(files.map((file) => file.split))}`)
  }
  const configs = new Set(ofSplit.map((file) => file.config))
  const wanted = config ??
    (configs.size === 1 ? Array.from(configs)[0] : ["", "main", "default"].find((name) => configs.has(name)))
  const chosen = ofSplit.filter((file) => file.config === wanted).map(({ name }) => name).sort()
  if (chosen.length === 0) {
    return Either.left(
      config === undefined
        ? `it has several configurations; name one of ${described(configs)}`
        : `it has no configuration ${config}, but ${described(configs)}`
    )
  }
  const parquet = chosen.filter((name) => name.endsWith(".parquet"))
  if (parquet.length > 0) return Either.right(parquet)
  return chosen.length === 1
    ? Either.right(chosen)
    : Either.left(`the split has ${chosen.length} JSON files; only Parquet can be in several`)
}

/**
 * The files of a split on this machine, downloaded unless the hub's cache has them: one or more Parquet files, or one JSON or
 * JSON lines file. `DataFile` reads them.
 *
 * @since 0.2.0
 * @category constructors
 */
export const files: (
  reference: Reference,
  options?: {
    /** Settings of the hub; those that are left out come from the environment (`HF_TOKEN`, `HF_ENDPOINT`, …). */
    readonly hub?: Partial<HuggingFaceHub.Options> | undefined
    /** Called about every megabyte. Defaults to nothing. */
    readonly onProgress?: NodeHubSnapshot.SnapshotOptions["onProgress"]
  }
) => Effect.Effect<
  ReadonlyArray<string>,
  SplitNotFound | TokenizerError | ConfigError,
  FileSystem.FileSystem | Path.Path | HttpClient.HttpClient
> = Effect.fnUntraced(function*(reference, options = {}) {
  const path = yield* Path.Path
  const environment = yield* HuggingFaceHub.fromEnvironment
  const { repo, revision } = reference
  let missing: SplitNotFound | undefined
  const snapshot = yield* NodeHubSnapshot.ensure(
    { ...environment, ...options.hub },
    { repo, revision, kind: "dataset" },
    {
      choose: (all) =>
        Effect.sync(() =>
          Either.match(choose(all.map(({ name }) => name), reference), {
            onLeft: (description) => {
              missing = new SplitNotFound({ repo, description })
              return []
            },
            onRight: (names) => all.filter(({ name }) => names.includes(name))
          })
        ),
      onProgress: options.onProgress
    }
  )
  if (missing !== undefined) return yield* missing
  return snapshot.files.map(({ name }) => path.join(snapshot.directory, ...name.split("/"))).sort()
})
