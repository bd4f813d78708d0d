/**
 * Models by name, from where people have them: the Hugging Face hub and its cache, a directory, a GGUF file, or what
 * Ollama has on this machine.
 *
 * @since 0.2.0
 */
import * as HubDirectory from "@effect-tinker/platform/HubDirectory"
import * as HuggingFaceHub from "@effect-tinker/tokenizer/HuggingFaceHub"
import * as NodeHubSnapshot from "@effect-tinker/tokenizer/NodeHubSnapshot"
import { TokenizerNotFound, TokenizerUnsupported } from "@effect-tinker/tokenizer/TokenizerError"
import * as HubCache from "@effect-tinker/weights/HubCache"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ModelUnavailable } from "./EngineError.js"
import * as LocalCheckpoint from "./LocalCheckpoint.js"
import type * as LocalModel from "./LocalModel.js"

/**
 * How models are found; all of it may be left out.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options {
  /** The name clients ask for. Defaults to the reference, of a path its last part. */
  readonly name?: string | undefined
  /** The longest sequence. Defaults to what the model was made for, at most 4096 tokens. */
  readonly contextLength?: number | undefined
  /** Keep frozen matrices in eight bits. Defaults to the precision of the files. */
  readonly quantize?: "int8" | undefined
  /** Settings of the hub; those that are left out come from the environment (`HF_TOKEN`, `HF_ENDPOINT`, …). */
  readonly hub?: Partial<HuggingFaceHub.Options> | undefined
  /** Called while files are downloaded. Defaults to a log line every hundred megabytes. */
  readonly onProgress?: ((progress: NodeHubSnapshot.Progress) => Effect.Effect<void>) | undefined
}

type Services = FileSystem.FileSystem | Path.Path | HttpClient.HttpClient

const platform = Layer.mergeAll(NodeContext.layer, NodeHttpClient.layerUndici)

/** The parts of a name: `org/name@revision:quantization`. */
interface HubName {
  readonly repo: string
  readonly revision: string | undefined
  /** Part of the name of a GGUF file. */
  readonly variant: string | undefined
}

const hubName = (reference: string): Option.Option<HubName> => {
  const match = /^(?:hf\.co\/|hf:)?([\w.-]+\/[\w.-]+)(?:@([\w./-]+))?(?::([\w.-]+))?$/.exec(reference)
  return match === null
    ? Option.none()
    : Option.some({ repo: match[1] ?? "", revision: match[2], variant: match[3] })
}

const wantedNames: ReadonlySet<string> = new Set([
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
  "model.safetensors.index.json"
])

const isShard = (name: string): boolean => /^model(-\d+-of-\d+)?\.safetensors$/.test(name)

/** The files of a repository that make up the model: its safetensors, or the GGUF file that was asked for. */
const chooseFiles = ({ repo, variant }: HubName): NodeHubSnapshot.SnapshotOptions["choose"] => (files) => {
  const ggufs = files.filter(({ name }) => name.endsWith(".gguf"))
  const weights = files.filter(({ name }) => isShard(name))
  if (variant === undefined && weights.length > 0) {
    const rest = files.filter(({ name }) => wantedNames.has(name))
    // small files first, so that what is not supported is refused before gigabytes are there
    return Effect.succeed([...rest, ...weights])
  }
  const fitting = variant === undefined
    ? ggufs
    : ggufs.filter(({ name }) => name.toLowerCase().includes(variant.toLowerCase()))
  const [only, ...others] = fitting
  if (only !== undefined && others.length === 0) return Effect.succeed([only])
  if (ggufs.length === 0) {
    return new TokenizerUnsupported({ repo, description: "it has neither safetensors nor GGUF files" })
  }
  return new TokenizerNotFound({
    repo,
    description: `it has the GGUF files ${ggufs.map(({ name }) => name).join(", ")}; name one: ${repo}:Q8_0`
  })
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`

/** A log line for every hundred megabytes, and at the end of large files. */
const logProgress = (): (progress: NodeHubSnapshot.Progress) => Effect.Effect<void> => {
  let last = 0
  return ({ bytes, done, file }) => {
    if (done < last) last = 0
    if (bytes < 1e7 || (done - last < 1e8 && done < bytes)) return Effect.void
    last = done
    return Effect.logInfo(`Downloading ${file}: ${megabytes(done)} of ${megabytes(bytes)}`)
  }
}

const fromHub = Effect.fnUntraced(function*(reference: string, name: HubName, options: Options) {
  const path = yield* Path.Path
  const refuse = (error: { readonly message: string }) =>
    new ModelUnavailable({ model: reference, description: error.message })
  const environment = yield* Effect.mapError(HuggingFaceHub.fromEnvironment, refuse)
  const snapshot = yield* NodeHubSnapshot.ensure({ ...environment, ...options.hub }, name, {
    choose: chooseFiles(name),
    onProgress: options.onProgress ?? logProgress()
  }).pipe(Effect.mapError(refuse))
  const gguf = snapshot.files.find((file) => file.name.endsWith(".gguf"))
  const settings = {
    name: options.name ?? reference,
    contextLength: options.contextLength,
    quantize: options.quantize
  }
  return yield* gguf === undefined
    ? LocalCheckpoint.fromDirectory(snapshot.directory, settings)
    : LocalCheckpoint.fromGguf(path.join(snapshot.directory, ...gguf.name.split("/")), settings)
})

const names = (directory: string): Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.orElseSucceed(fs.readDirectory(directory), () => []))

const OllamaManifest = Schema.parseJson(Schema.Struct({
  layers: Schema.Array(Schema.Struct({ mediaType: Schema.String, digest: Schema.String }))
}))

/** Directory of Ollama's models. */
const ollamaRoot = Effect.gen(function*() {
  const path = yield* Path.Path
  const variable = (name: string) => Effect.orElseSucceed(Config.nonEmptyString(name), () => undefined)
  const home = (yield* variable("HOME")) ?? (yield* variable("USERPROFILE")) ?? "."
  return (yield* variable("OLLAMA_MODELS")) ?? path.join(home, ".ollama", "models")
})

/** The GGUF file of a model that Ollama has, by its name there: `ollama:llama3.2:1b`. */
const ollamaFile = Effect.fnUntraced(function*(reference: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const refuse = (description: string) => new ModelUnavailable({ model: reference, description })
  const root = yield* ollamaRoot
  const [name = "", tag = "latest"] = reference.slice("ollama:".length).split(":")
  if (![...name.split("/"), tag].every((part) => /^[\w-][\w.-]*$/.test(part))) {
    return yield* refuse("this is not the name of a model of Ollama")
  }
  const owned = name.includes("/") ? name.split("/") : ["library", name]
  const manifest = path.join(root, "manifests", "registry.ollama.ai", ...owned, tag)
  const { layers } = yield* fs.readFileString(manifest).pipe(
    Effect.flatMap(Schema.decode(OllamaManifest)),
    Effect.mapError(() => refuse(`Ollama does not have it in ${root}; try \`ollama pull ${name}:${tag}\``))
  )
  const digest = layers.find(({ mediaType }) => mediaType === "application/vnd.ollama.image.model")?.digest
  if (digest === undefined || !/^sha256:[0-9a-f]{64}$/.test(digest)) {
    return yield* refuse(`${manifest} names no model file`)
  }
  return path.join(root, "blobs", digest.replace(":", "-"))
})

/** File or directory of a model: the directory itself, if it is a Hugging Face one, or the only GGUF file in it. */
const placeIn = Effect.fnUntraced(function*(directory: string) {
  const path = yield* Path.Path
  const inside = yield* names(directory)
  const ggufs = inside.filter((name) => name.endsWith(".gguf"))
  const [only] = ggufs
  if (inside.includes("config.json") || only === undefined) return directory
  if (ggufs.length > 1) {
    return yield* new ModelUnavailable({
      model: directory,
      description: `the directory has several GGUF files; name one of ${ggufs.join(", ")}`
    })
  }
  return path.join(directory, only)
})

/** The model of a directory. */
const fromFolder = (directory: string, options: LocalCheckpoint.Options) =>
  Effect.flatMap(placeIn(directory), (place) =>
    place === directory
      ? LocalCheckpoint.fromDirectory(directory, options)
      : LocalCheckpoint.fromGguf(place, options))

/**
 * The model that a reference stands for: a path of a directory or GGUF file, `ollama:NAME`, or a name on the hub with an
 * optional revision and, for repositories of GGUF files, a part of the file's name: `org/name@revision:Q8_0`. Files of the
 * hub are downloaded into its cache unless they are there.
 *
 * @since 0.2.0
 * @category constructors
 */
export const resolve: (
  reference: string,
  options?: Options
) => Effect.Effect<LocalModel.LocalModel, ModelUnavailable> = Effect.fnUntraced(
  function*(reference, options = {}): Effect.fn.Return<LocalModel.LocalModel, ModelUnavailable, Services> {
    const fs = yield* FileSystem.FileSystem
    const settings = { name: options.name, contextLength: options.contextLength, quantize: options.quantize }
    if (reference.startsWith("ollama:")) {
      const file = yield* ollamaFile(reference)
      return yield* LocalCheckpoint.fromGguf(file, { ...settings, name: options.name ?? reference })
    }
    const info = yield* Effect.option(fs.stat(reference))
    if (Option.isSome(info)) {
      return info.value.type === "Directory"
        ? yield* fromFolder(reference, settings)
        : yield* LocalCheckpoint.fromGguf(reference, settings)
    }
    const name = hubName(reference)
    if (Option.isNone(name) || /^[.~/]|\.gguf$/.test(reference)) {
      return yield* new ModelUnavailable({
        model: reference,
        description: "there is no such directory or file, and it is not a name on the hub (org/name)"
      })
    }
    return yield* fromHub(reference, name.value, options)
  },
  Effect.provide(platform)
)

/**
 * A model that is on this machine.
 *
 * @since 0.2.0
 * @category models
 */
export interface Installed {
  /** Reference that `resolve` takes. */
  readonly reference: string
  readonly source: "hub" | "ollama" | "path"
  /** Bytes of its files. */
  readonly bytes: number
  /** The model, or why it cannot be used. */
  readonly model: Either.Either<LocalModel.LocalModel, ModelUnavailable>
}

/** Bytes of a file, or of the files of a directory; links count as what they lead to. */
const bytesOf = Effect.fnUntraced(function*(place: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const size = (file: string) =>
    Effect.map(Effect.option(fs.stat(file)), (info) => Option.isSome(info) ? Number(info.value.size) : 0)
  const inside = yield* names(place)
  const sizes = inside.length === 0
    ? [yield* size(place)]
    : yield* Effect.forEach(inside, (name) => size(path.join(place, name)))
  return sizes.reduce((sum, bytes) => sum + bytes, 0)
})

/** Repositories in the hub's cache that hold weights: the newest snapshot of each. */
const inHubCache = Effect.fnUntraced(function*(hub: Options["hub"]) {
  const path = yield* Path.Path
  const environment = yield* Effect.option(HuggingFaceHub.fromEnvironment)
  const cache = hub?.cacheDirectory ??
    Option.getOrUndefined(Option.map(environment, (settings) => settings.cacheDirectory))
  if (cache === undefined) return []
  const found: Array<{ readonly reference: string; readonly place: string }> = []
  for (const name of yield* names(cache)) {
    const repo = HubDirectory.modelOf(name)
    const commit = yield* HubDirectory.commitOf(path.join(cache, name), "main")
    if (Option.isNone(repo) || Option.isNone(commit)) continue
    const reference = repo.value
    const place = path.join(cache, name, "snapshots", commit.value)
    const files = yield* names(place)
    if (files.some(isShard) && files.includes("config.json")) found.push({ reference, place })
    const ggufs = files.filter((file) => file.endsWith(".gguf"))
    for (const file of ggufs) {
      const part = ggufs.length === 1 ? "" : `:${file.slice(0, -".gguf".length).split(".").pop()}`
      found.push({ reference: `${reference}${part}`, place: path.join(place, file) })
    }
  }
  return found
})

/**
 * The directory or GGUF file of a reference that `resolve` takes, where it is on this machine; nothing is downloaded.
 *
 * @since 0.2.0
 * @category combinators
 */
export const locate: (
  reference: string,
  options?: Pick<Options, "hub">
) => Effect.Effect<string, ModelUnavailable> = Effect.fnUntraced(
  function*(reference, options = {}): Effect.fn.Return<string, ModelUnavailable, Services> {
    const fs = yield* FileSystem.FileSystem
    if (reference.startsWith("ollama:")) return yield* ollamaFile(reference)
    const info = yield* Effect.option(fs.stat(reference))
    if (Option.isSome(info)) return info.value.type === "Directory" ? yield* placeIn(reference) : reference
    const name = hubName(reference)
    const absent = (description: string) => new ModelUnavailable({ model: reference, description })
    if (Option.isNone(name)) return yield* absent("there is no such directory or file")
    const { repo, revision, variant } = name.value
    const wanted = variant?.toLowerCase()
    const cached = (yield* inHubCache(options.hub)).find(({ place, reference }) =>
      wanted === undefined
        ? reference === repo
        : reference.split(":")[0] === repo && place.endsWith(".gguf") && place.toLowerCase().includes(wanted)
    )
    if (revision === undefined && cached !== undefined) return cached.place
    return yield* HubCache.find(repo, { revision }).pipe(
      Effect.mapError(({ description }) => absent(description))
    )
  },
  Effect.provide(platform)
)

/** Names of the models that Ollama has. */
const inOllama = Effect.gen(function*() {
  const path = yield* Path.Path
  const root = path.join(yield* ollamaRoot, "manifests", "registry.ollama.ai")
  const found: Array<string> = []
  for (const owner of yield* names(root)) {
    for (const name of yield* names(path.join(root, owner))) {
      for (const tag of yield* names(path.join(root, owner, name))) {
        found.push(`ollama:${owner === "library" ? "" : `${owner}/`}${name}:${tag}`)
      }
    }
  }
  return found
})

/**
 * Models on this machine: in the hub's cache, those of Ollama, and the given references that are paths. Nothing is
 * downloaded; headers and tokenizers are read, weights are not.
 *
 * @since 0.2.0
 * @category combinators
 */
export const installed: (options?: {
  readonly references?: ReadonlyArray<string> | undefined
  readonly hub?: Options["hub"]
}) => Effect.Effect<ReadonlyArray<Installed>> = Effect.fnUntraced(
  function*({ hub, references = [] } = {}): Effect.fn.Return<ReadonlyArray<Installed>, never, Services> {
    const path = yield* Path.Path
    const read = (reference: string, place: string) =>
      Effect.all({
        bytes: bytesOf(place),
        model: Effect.either(
          place.endsWith(".gguf") || path.basename(place).startsWith("sha256-")
            ? LocalCheckpoint.fromGguf(place, { name: reference })
            : fromFolder(place, { name: reference })
        )
      })
    const ofHub = yield* Effect.forEach(
      yield* inHubCache(hub),
      ({ place, reference }) =>
        Effect.map(read(reference, place), (rest) => ({ reference, source: "hub", ...rest }) as const)
    )
    const ofOllama = yield* Effect.forEach(yield* inOllama, (reference) =>
      ollamaFile(reference).pipe(
        Effect.flatMap((file) => read(reference, file)),
        Effect.catchAll((error) => Effect.succeed({ bytes: 0, model: Either.left(error) })),
        Effect.map((rest) => ({ reference, source: "ollama", ...rest }) as const)
      ))
    const paths = yield* Effect.filter(references, (reference) => Effect.map(bytesOf(reference), (bytes) => bytes > 0))
    const ofPaths = yield* Effect.forEach(
      paths,
      (reference) => Effect.map(read(reference, reference), (rest) => ({ reference, source: "path", ...rest }) as const)
    )
    return [...ofHub, ...ofOllama, ...ofPaths]
  },
  Effect.provide(platform)
)
