/**
 * `tinker export`: a checkpoint as an inference server takes it, with a model card and the command that serves it; and
 * the curves of runs as other tools take them.
 *
 * @since 0.1.0
 */
import * as ServingKit from "@effect-tinker/weights/ServingKit"
import * as WeightsError from "@effect-tinker/weights/WeightsError"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Archive from "effect-tinker/Archive"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as RestClient from "effect-tinker/RestClient"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { texts } from "../internal/options.js"
import * as RunCheckpoint from "../internal/runCheckpoint.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import * as text from "../terminal/text.js"
import { fetch } from "./download.js"
import * as studio from "./studio.js"

interface Settings {
  readonly path: string
  readonly target: ServingKit.Target
  readonly output: Option.Option<string>
  readonly base: Option.Option<string>
  readonly name: Option.Option<string>
  readonly dtype: Option.Option<"f32" | "f16" | "bf16" | "q8_0">
  readonly fp8Experts: boolean
  readonly merged: boolean
  readonly adapter: boolean
  readonly notes: ReadonlyArray<string>
  readonly verify: boolean
  readonly prompts: ReadonlyArray<string>
}

/** An adapter on this machine, and what is known about where it comes from. */
interface Source {
  readonly adapter: string
  readonly baseModel: string | undefined
  readonly provenance: Readonly<Record<string, string>>
  /** A checkpoint that the server can sample from, to compare with. */
  readonly sampler: string | undefined
}

const isRemote = (path: string): boolean => path.startsWith("tinker://")

/** Facts the server has about a checkpoint; those it does not tell are left out. */
const describe = Effect.fnUntraced(function*(tinkerPath: string, runId: string) {
  const rest = yield* RestClient.RestClient
  const [checkpoint, run] = yield* Effect.all([
    Effect.option(rest.getCheckpoint(tinkerPath)),
    Effect.option(rest.getTrainingRun(runId))
  ])
  const metadata = {
    ...Option.getOrUndefined(run)?.userMetadata,
    ...Option.getOrUndefined(checkpoint)?.userMetadata
  }
  return {
    Checkpoint: tinkerPath,
    ...(Option.isSome(checkpoint) ? { Saved: DateTime.formatIso(checkpoint.value.time) } : {}),
    ...metadata
  }
})

/** Brings a checkpoint to a directory beside the output; an archive is unpacked as it arrives. */
const download = Effect.fnUntraced(function*(tinkerPath: string, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const rest = yield* RestClient.RestClient
  const parsed = yield* Checkpoint.parsePath(tinkerPath)
  const info = yield* live.bounded(rest.getWeightsInfo(tinkerPath))
  const provenance = yield* describe(tinkerPath, parsed.trainingRunId)
  if (!(yield* fs.exists(directory))) yield* fetch({ tinkerPath, directory, streamArchive: true })
  const source: Source = {
    adapter: directory,
    baseModel: info.baseModel,
    provenance,
    sampler: parsed.checkpointType === "sampler" ? tinkerPath : undefined
  }
  return source
}, Effect.provide(live.rest))

const AdapterConfig = Schema.parseJson(Schema.Struct({ base_model_name_or_path: Schema.optional(Schema.String) }))

/** An adapter in a directory, or in an archive that is unpacked beside the output. */
const open = Effect.fnUntraced(function*(source: string, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const info = yield* Effect.mapError(
    fs.stat(source),
    (cause) =>
      new CliFailure({
        what: `There is no ${source}`,
        advice: "Give a tinker:// path, a run directory, a directory with an adapter, or an archive of one.",
        exitCode: 2,
        cause
      })
  )
  const unpack = info.type !== "Directory"
  if (unpack && !(yield* fs.exists(directory))) {
    const unpacking = `${directory}.unpacking`
    yield* fs.remove(unpacking, { recursive: true, force: true })
    yield* Archive.extract(fs.stream(source), { directory: unpacking })
    yield* fs.rename(unpacking, directory)
  }
  const adapter = unpack ? directory : source
  const config = yield* fs.readFileString(path.join(adapter, "adapter_config.json")).pipe(
    Effect.flatMap(Schema.decode(AdapterConfig)),
    Effect.option
  )
  const found: Source = {
    adapter,
    baseModel: Option.getOrUndefined(config)?.base_model_name_or_path,
    provenance: { Checkpoint: path.resolve(source) },
    sampler: undefined
  }
  return found
})

/**
 * The directory or GGUF file of the base model: the one given, `local/chat` where this command has it, what is in the hub's
 * cache or Ollama's.
 */
const findBase = Effect.fnUntraced(function*(model: string | undefined) {
  if (model === undefined) {
    return yield* usage("The checkpoint does not say what it was trained from", "Give the base model with --base.")
  }
  if (model === "local/chat") return yield* (yield* Effect.promise(() => import("../internal/exportCheck.js"))).chat
  const { locate } = yield* Effect.promise(() => import("@effect-tinker/local/NodeModels"))
  return yield* Effect.mapError(
    locate(model),
    ({ description }) => new WeightsError.ModelNotFound({ model, description })
  )
})

const parseNotes = (notes: ReadonlyArray<string>): Effect.Effect<Readonly<Record<string, string>>, CliFailure> => {
  const wrong = notes.find((note) => !/^[^=]+=/.test(note))
  return wrong !== undefined
    ? Effect.fail(usage(`${wrong} is not a note`, "Write --note \"Trained on=support tickets of 2025\"."))
    : Effect.succeed(Object.fromEntries(notes.map((note) => {
      const at = note.indexOf("=")
      return [note.slice(0, at), note.slice(at + 1)]
    })))
}

const explain = (error: WeightsError.WeightsError): CliFailure => {
  const advice: { readonly [Tag in WeightsError.WeightsError["_tag"]]: string } = {
    InvalidFile: "Check the files; a download that broke off may be the cause.",
    AdapterMismatch: "Give the base model the adapter was trained on with --base.",
    UnsupportedFormat: "Nothing was written.",
    OutputExists: "Choose another place with --output.",
    ModelNotFound: "Then run this again, or give its directory or GGUF file with --base."
  }
  return new CliFailure({ what: error.message, advice: advice[error._tag], cause: error })
}

const defaultName = (path: Path.Path, source: string): string =>
  isRemote(source)
    ? source.split("/").at(-1) ?? "model"
    : path.basename(path.resolve(source)).replace(/\.(tar|tgz|tar\.gz)$/, "")

const run = Effect.fnUntraced(
  function*(settings: Settings) {
    const output = yield* Output
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const { target } = settings
    if (settings.merged && settings.adapter) {
      return yield* usage("Give either --merged or --adapter", "A merged model contains its adapter.")
    }
    const notes = yield* parseNotes(settings.notes)
    const name = Option.getOrElse(settings.name, () => defaultName(path, settings.path))
    const from = (yield* RunCheckpoint.isRun(settings.path)) ? yield* RunCheckpoint.ofRun(settings.path) : settings.path
    const directory = Option.getOrElse(settings.output, () => `${name}-${target}`)
    if (yield* fs.exists(directory)) {
      return yield* usage(`${directory} exists already`, "Choose another place with --output.")
    }
    const given = Option.getOrUndefined(settings.base)
    // A base model that is not here is noticed before anything is downloaded.
    const known = given === undefined ? undefined : yield* findBase(given)
    // Kept until the export is complete, so that a second attempt finds it; named after what it is.
    const downloaded = `${directory}.${from.replace(/[^A-Za-z0-9._-]+/g, "_")}`
    const source = yield* isRemote(from)
      ? download(from, downloaded)
      : open(from, downloaded)
    const base = known ?? (yield* findBase(source.baseModel))
    const form = settings.merged ? "merged" : settings.adapter ? "adapter" : undefined
    const dtype = Option.getOrUndefined(settings.dtype)
    const check = settings.verify ? yield* Effect.promise(() => import("../internal/exportCheck.js")) : undefined
    const verifier = check === undefined ? undefined : yield* check.prepare({
      target,
      form,
      base,
      adapter: source.adapter,
      sampler: source.sampler,
      prompts: settings.prompts
    })

    const made = yield* Effect.scoped(Effect.gen(function*() {
      const progress = yield* Progress.make({ label: "Writing", unit: "bytes" })
      const last = yield* Stream.runFoldEffect(
        ServingKit.stream({
          target,
          base,
          adapter: source.adapter,
          output: directory,
          name,
          baseModelName: source.baseModel ?? given,
          form,
          dtype,
          experts: settings.fp8Experts ? "fp8" : undefined,
          provenance: { ...source.provenance, ...notes }
        }),
        Option.none<ServingKit.Event & { readonly _tag: "Completed" }>(),
        (found, event) =>
          event._tag === "Completed"
            ? Effect.succeedSome(event)
            : Effect.as(progress.update(event.written, event.bytes), found)
      )
      return yield* Effect.orDieWith(last, () => new Error("an export that ends is complete"))
    }))
    yield* Effect.forEach(made.warnings, output.warn, { discard: true })
    const verified = verifier === undefined ? undefined : yield* verifier(directory, made.form, dtype)
    yield* fs.remove(downloaded, { recursive: true, force: true })
    const size = yield* Effect.map(
      Effect.forEach(yield* fs.readDirectory(directory), (file) => fs.stat(path.join(directory, file))),
      (files) => files.reduce((sum, file) => sum + Number(file.size), 0)
    )
    yield* output.printRecord({
      json: {
        source: from,
        directory: made.directory,
        target,
        form: made.form,
        base_model: source.baseModel ?? base,
        bytes: size,
        command: made.command,
        ...(verified === undefined ? {} : { verified })
      },
      properties: [
        ["Exported to", made.directory],
        ["Form", made.form],
        ["Size", text.size(size)],
        ...(verified === undefined ? [] : [["Verified", check?.sentence(verified) ?? ""] as const]),
        ["Serve it with", made.command]
      ]
    })
  },
  Effect.catchTags({
    InvalidFile: explain,
    AdapterMismatch: explain,
    UnsupportedFormat: explain,
    OutputExists: explain,
    ModelNotFound: explain
  })
)

const weights = Command.make("weights", {
  path: Args.text({ name: "path" }).pipe(
    Args.withDescription(
      "A checkpoint: a tinker:// path, a run directory, a directory with an adapter, or an archive of one."
    )
  ),
  target: Options.choice("for", ServingKit.targets).pipe(
    Options.withDescription("Inference server that will load the export.")
  ),
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription(
      "Directory to write. Default: named after the checkpoint and the server, in the current directory."
    ),
    Options.optional
  ),
  base: Options.text("base").pipe(
    Options.withDescription(
      "The base model: a directory, a GGUF file, a name in the Hugging Face cache, or ollama:NAME. Default: what the " +
        "checkpoint was trained from."
    ),
    Options.optional
  ),
  name: Options.text("name").pipe(
    Options.withDescription("Name to serve the model under. Default: the checkpoint's name."),
    Options.optional
  ),
  dtype: Options.choice("dtype", ["f32", "f16", "bf16", "q8_0"]).pipe(
    Options.withDescription("Data type of merged weights. Default: the base model's; f16 for llama.cpp and Ollama."),
    Options.optional
  ),
  fp8Experts: Options.boolean("fp8-experts").pipe(
    Options.withDescription("Routed experts as float8 in blocks, for a merged model in vLLM.")
  ),
  merged: Options.boolean("merged").pipe(
    Options.withDescription("Export one model with the adapter merged in; the default for all but vllm and sglang.")
  ),
  adapter: Options.boolean("adapter").pipe(
    Options.withDescription("Export the adapter alone, loaded beside its base model; the default for vllm and sglang.")
  ),
  notes: texts("note", "A line NAME=TEXT for the model card, such as what it was trained on"),
  verify: Options.boolean("verify").pipe(
    Options.withDescription(
      "Compare logprobs of the export with the checkpoint's: Llama and Qwen3 models run here, GGUF files where " +
        "node-llama-cpp is installed."
    )
  ),
  prompts: texts("prompt", "A text to compare logprobs on, instead of ours")
}, run).pipe(
  Command.withDescription(
    "Write a checkpoint in the form an inference server takes, with a model card and the command that serves it; run it " +
      "again to continue an export that was broken off."
  )
)

/** @internal */
export const command = Command.make("export").pipe(
  Command.withSubcommands([weights, studio.tensorBoardCommand, studio.mlflowCommand]),
  Command.withDescription("Write a checkpoint for an inference server, or the curves of runs for other tools.")
)
