/**
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as RestClient from "effect-tinker/RestClient"
import type { WeightsInfoResponse } from "effect-tinker/Weights"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure, usage } from "../CliFailure.js"
import * as HuggingFace from "../HuggingFace.js"
import * as live from "../internal/live.js"
import * as modelCard from "../internal/modelCard.js"
import { Output } from "../Output.js"
import * as Progress from "../Progress.js"
import { fetch } from "./download.js"

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

/** @internal */
export const pushHf = Effect.fnUntraced(
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
    const name = Option.getOrElse(options.repo, () => modelCard.repositoryName(parsed, info))
    const repo = name.includes("/") ? name : `${account}/${name}`
    const revision = Option.getOrElse(
      options.revision,
      () => Option.isSome(options.repo) ? "main" : modelCard.branchName(parsed)
    )

    const result = yield* Effect.scoped(Effect.gen(function*() {
      const work = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-push-" })
      const directory = path.join(work, "adapter")
      yield* fetch({ tinkerPath: options.path, directory })
      yield* checkAdapter(directory, info)
      const card = path.join(directory, "README.md")
      if (!options.noModelCard && !(yield* fs.exists(card))) {
        yield* fs.writeFileString(card, modelCard.render({ tinkerPath: options.path, repo, info }))
      }
      yield* hub.createRepository(repo, { private: !options.public })
      if (revision !== "main") yield* hub.createBranch(repo, revision)
      const existing = yield* hub.readText(repo, revision, "README.md")
      const other = Option.flatMap(existing, modelCard.source)
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
