/**
 * `tinker checkpoint push-hf`: a checkpoint on the Hugging Face Hub as a PEFT adapter, with a model card.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type { ParsedPath } from "effect-tinker/Checkpoint"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as RestClient from "effect-tinker/RestClient"
import type { WeightsInfoResponse } from "effect-tinker/wire/Weights"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as HuggingFace from "../huggingFace/HuggingFace.js"
import { CliFailure, usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { texts, tinkerPath } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import { fetch } from "./download.js"

const safe = (value: string): string =>
  value.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/-{2,}/g, "-").replace(/^[-_.]+|[-_.]+$/g, "")

const repositoryName = (path: ParsedPath, info: Option.Option<WeightsInfoResponse>): string => {
  const base = Option.match(info, {
    onNone: () => "adapter",
    onSome: ({ baseModel }) => baseModel.split("/").at(-1) ?? "adapter"
  })
  // The hub's limit for names is 96 characters.
  return safe(`tinker-${base}-${path.trainingRunId}`).slice(0, 96)
}

const branchName = (path: ParsedPath): string => safe(path.checkpointId.replaceAll("/", "-"))

/**
 * The checkpoint a model card says it comes from.
 *
 * @internal
 */
const cardSource = (card: string): Option.Option<string> => Option.fromNullable(/tinker:\/\/[^\s`"')]+/.exec(card)?.[0])

/** Quoted, because a name is data: it must not become structure of the YAML header. */
const yaml = (value: string): string => JSON.stringify(value)

const renderCard = (options: {
  readonly tinkerPath: string
  readonly repo: string
  readonly info: Option.Option<WeightsInfoResponse>
}): string => {
  const base = Option.getOrUndefined(Option.map(options.info, ({ baseModel }) => baseModel))
  const info = Option.getOrUndefined(options.info)
  const trained = [
    ...(info?.trainAttn === false ? [] : ["attention"]),
    ...(info?.trainMlp === false ? [] : ["MLP"]),
    ...(info?.trainUnembed === false ? [] : ["unembedding"])
  ]
  return [
    "---",
    ...(base === undefined ? [] : [`base_model: ${yaml(base)}`]),
    "library_name: peft",
    "tags:",
    "- tinker",
    "- peft",
    "- lora",
    ...(base === undefined ? [] : [`- ${yaml(`base_model:adapter:${base}`)}`]),
    `tinker_path: ${yaml(options.tinkerPath)}`,
    "---",
    "",
    "# LoRA adapter trained with Tinker",
    "",
    "| | |",
    "| --- | --- |",
    `| checkpoint | \`${options.tinkerPath}\` |`,
    ...(base === undefined ? [] : [`| base model | \`${base}\` |`]),
    ...(info?.loraRank === undefined ? [] : [`| rank | ${info.loraRank} |`]),
    ...(info === undefined ? [] : [`| trained layers | ${trained.join(", ")} |`]),
    "",
    "```python",
    "from transformers import AutoModelForCausalLM",
    "",
    `model = AutoModelForCausalLM.from_pretrained(${JSON.stringify(options.repo)}, device_map="auto")`,
    "```",
    ""
  ].join("\n")
}

const AdapterConfig = Schema.parseJson(Schema.Record({ key: Schema.String, value: Schema.Unknown }))

/** The patterns of the hub: `*` crosses directories. */
const matches = (path: string, pattern: string): boolean =>
  new RegExp(`^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`).test(path)

/** Says that a file is complete; of no use to anyone else. */
const marker = "checkpoint_complete"

const checkAdapter = Effect.fnUntraced(function*(directory: string, info: Option.Option<WeightsInfoResponse>) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const config = path.join(directory, "adapter_config.json")
  const hasWeights = (yield* fs.exists(path.join(directory, "adapter_model.safetensors"))) ||
    (yield* fs.exists(path.join(directory, "adapter_model.bin")))
  if (!hasWeights || !(yield* fs.exists(config))) {
    return yield* new CliFailure({
      what:
        "The checkpoint holds no PEFT adapter: adapter_config.json and adapter_model.safetensors (or .bin) are needed",
      advice:
        "Sampler and training checkpoints of LoRA models have one; encrypted (.age) files have to be decrypted first."
    })
  }
  const decoded = yield* fs.readFileString(config).pipe(Effect.flatMap(Schema.decode(AdapterConfig)), Effect.option)
  if (Option.isNone(decoded)) {
    return yield* new CliFailure({
      what: "adapter_config.json of the checkpoint is not JSON",
      advice: "Download it and look."
    })
  }
  // Loaders look the base model up by this name.
  if (typeof decoded.value["base_model_name_or_path"] !== "string" && Option.isSome(info)) {
    const completed = { ...decoded.value, base_model_name_or_path: info.value.baseModel }
    yield* fs.writeFileString(config, `${JSON.stringify(completed, undefined, 2)}\n`)
  }
})

const pushHf = Effect.fnUntraced(
  function*(options: {
    readonly path: string
    readonly repo: Option.Option<string>
    readonly public: boolean
    readonly revision: Option.Option<string>
    readonly commitMessage: Option.Option<string>
    readonly createPr: boolean
    readonly allowPattern: ReadonlyArray<string>
    readonly ignorePattern: ReadonlyArray<string>
    readonly noModelCard: boolean
  }) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const output = yield* Output
    const rest = yield* RestClient.RestClient
    const hub = yield* HuggingFace.HuggingFace
    const parsed = yield* Checkpoint.parsePath(options.path)
    if (Option.isSome(options.repo) && !/^[^/\s]+(\/[^/\s]+)?$/.test(options.repo.value)) {
      return yield* usage(`${options.repo.value} is not a repository`, "Write OWNER/NAME, or NAME for one of yours.")
    }
    // Everything that may be refused is asked for before the download.
    const account = yield* hub.whoami
    const info = yield* Effect.option(live.bounded(rest.getWeightsInfo(options.path)))
    const name = Option.getOrElse(options.repo, () => repositoryName(parsed, info))
    const repo = name.includes("/") ? name : `${account}/${name}`
    const revision = Option.getOrElse(
      options.revision,
      () => Option.isSome(options.repo) ? "main" : branchName(parsed)
    )

    const result = yield* Effect.scoped(Effect.gen(function*() {
      const work = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-push-" })
      const directory = path.join(work, "adapter")
      yield* fetch({ tinkerPath: options.path, directory })
      yield* checkAdapter(directory, info)
      const card = path.join(directory, "README.md")
      if (!options.noModelCard && !(yield* fs.exists(card))) {
        yield* fs.writeFileString(card, renderCard({ tinkerPath: options.path, repo, info }))
      }
      yield* hub.createRepository(repo, { private: !options.public })
      if (revision !== "main") yield* hub.createBranch(repo, revision)
      const existing = yield* hub.readText(repo, revision, "README.md")
      const other = Option.flatMap(existing, cardSource)
      if (Option.isSome(other) && other.value !== options.path) {
        return yield* new CliFailure({
          what: `${repo} (${revision}) holds another checkpoint: ${other.value}`,
          advice: "Choose another --repo or --revision."
        })
      }
      const names = yield* fs.readDirectory(directory, { recursive: true })
      const files: Array<HuggingFace.LocalFile> = []
      for (const file of names.sort()) {
        const source = path.join(directory, file)
        const { size, type } = yield* fs.stat(source)
        const target = file.split(path.sep).join("/")
        const wanted = options.allowPattern.length === 0
          ? target !== marker
          : options.allowPattern.some((pattern) => matches(target, pattern))
        if (type === "File" && wanted && !options.ignorePattern.some((pattern) => matches(target, pattern))) {
          files.push({ path: target, source, size: Number(size) })
        }
      }
      if (files.length === 0) {
        return yield* usage("No file is left to upload", "Check --allow-pattern and --ignore-pattern.")
      }
      const progress = yield* Progress.make({ label: "Uploading", unit: "bytes" })
      return yield* hub.upload({
        repo,
        revision,
        files,
        message: Option.getOrElse(options.commitMessage, () => `Upload ${options.path}`),
        createPullRequest: options.createPr,
        onProgress: progress.update
      })
    }))
    yield* output.printRecord({
      json: { checkpoint_path: options.path, repo_id: repo, revision, public: options.public, url: result.url },
      properties: [
        ["Checkpoint", options.path],
        ["Repository", repo],
        ["Revision", revision],
        ["Visibility", options.public ? "public, if created now" : "private, if created now"],
        ["Address", result.url]
      ]
    })
  },
  Effect.provide(HuggingFace.layer),
  Effect.provide(live.rest)
)

/** @internal */
export const command = Command.make("push-hf", {
  path: tinkerPath,
  repo: Options.text("repo").pipe(
    Options.withAlias("r"),
    Options.withDescription("Repository as OWNER/NAME. Default: your account and a name derived from the run."),
    Options.optional
  ),
  public: Options.boolean("public").pipe(Options.withDescription("Create a public repository. Default: private.")),
  revision: Options.text("revision").pipe(
    Options.withDescription(
      "Branch to upload to, created if missing. Default: main; for a derived repository name, the checkpoint's name."
    ),
    Options.optional
  ),
  commitMessage: Options.text("commit-message").pipe(
    Options.withDescription("Title of the commit. Default: names the checkpoint."),
    Options.optional
  ),
  createPr: Options.boolean("create-pr").pipe(Options.withDescription("Open a pull request instead of committing.")),
  allowPattern: texts("allow-pattern", "Upload only files that match, such as *.safetensors"),
  ignorePattern: texts("ignore-pattern", "Skip files that match"),
  noModelCard: Options.boolean("no-model-card").pipe(Options.withDescription("Do not write a README.md."))
}, pushHf).pipe(
  Command.withDescription("Upload a checkpoint to the Hugging Face Hub as a PEFT adapter.")
)
