/**
 * `tinker checkpoint download`. Where the server has no archive of a training checkpoint, it is loaded into a new model, saved
 * once more as external weights that expire soon, and deleted after the download.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as CheckpointDownload from "effect-tinker/CheckpointDownload"
import * as NodeCredentials from "effect-tinker/NodeCredentials"
import * as RestClient from "effect-tinker/RestClient"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as TinkerError from "effect-tinker/TinkerError"
import type * as TinkerTransport from "effect-tinker/TinkerTransport"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { tinkerPath } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import * as text from "../terminal/text.js"

/** Long enough for a large download. */
const ttlSeconds = 3600 * 6

const exportExternal: Effect.Effect<
  (tinkerPath: string) => Effect.Effect<string, TinkerError.TinkerError, Scope.Scope>,
  never,
  TinkerConfig.TinkerConfig | TinkerTransport.TinkerTransport | RestClient.RestClient | Output
> = Effect.gen(function*() {
  const config = yield* TinkerConfig.TinkerConfig
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const context = yield* Effect.context<TinkerTransport.TinkerTransport>()
  return Effect.fnUntraced(function*(tinkerPath) {
    yield* output.note(
      "The server has no archive of this checkpoint: exporting it through a training session of its base model"
    )
    const service = yield* Layer.build(
      ServiceClient.layerFromEnv({
        baseUrl: config.baseUrl,
        apiKey: Option.getOrUndefined(config.apiKey),
        projectId: Option.getOrUndefined(config.projectId),
        // The URL was checked when the configuration was read.
        allowInsecure: true,
        tags: config.tags
      }).pipe(Layer.provide(NodeCredentials.layer))
    ).pipe(
      Effect.provide(context),
      Effect.catchTag(
        "ConfigError",
        (cause) => new TinkerError.InvalidInput({ module: "Cli", method: "exportExternal", description: String(cause) })
      )
    )
    const training = yield* Effect.provide(TrainingClient.makeFromState({ path: tinkerPath }), service)
    return yield* Effect.acquireRelease(
      Effect.flatMap(
        training.saveWeightsExternal("download", { ttlSeconds }),
        (saved) => Effect.map(saved, ({ path }) => path)
      ),
      (path) =>
        rest.deleteCheckpoint(path).pipe(
          Effect.catchAll(() => output.warn(`${path} could not be deleted; it expires in 6 hours`))
        )
    )
  })
})

/**
 * Downloads with a bar on stderr.
 *
 * @internal
 */
export const fetch = (options: Omit<CheckpointDownload.Options, "exportExternal">) =>
  Effect.scoped(Effect.gen(function*() {
    const exporting = yield* exportExternal
    const progress = yield* Progress.make({ label: "Downloading", unit: "bytes" })
    const unpacking = yield* Progress.make({ label: "Unpacking", unit: "bytes" })
    let summary: CheckpointDownload.Summary | undefined
    yield* Stream.runForEach(CheckpointDownload.stream({ ...options, exportExternal: exporting }), (event) => {
      switch (event._tag) {
        case "Preparing":
          return Effect.void
        case "Downloading":
          return progress.update(event.received, event.total)
        case "Extracting":
          return unpacking.update(event.bytes)
        case "Completed":
          summary = event
          return Effect.void
      }
    })
    return summary ?? (yield* Effect.dieMessage("a download that ends has a summary"))
  }))

const download = Effect.fnUntraced(function*(options: {
  readonly path: string
  readonly output: Option.Option<string>
  readonly force: boolean
}) {
  const output = yield* Output
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const parsed = yield* Checkpoint.parsePath(options.path)
  const parent = Option.getOrElse(options.output, () => ".")
  const directory = path.resolve(parent, CheckpointDownload.directoryName(parsed))
  if (!options.force && (yield* fs.exists(directory))) {
    return yield* usage(
      `${directory} exists already`,
      "Choose another place with --output, or replace it with --force."
    )
  }
  yield* fs.makeDirectory(parent, { recursive: true })
  const summary = yield* fetch({ tinkerPath: options.path, directory, overwrite: options.force })
  yield* output.printRecord({
    json: {
      checkpoint_path: options.path,
      destination: summary.directory,
      files: summary.files,
      file_size_bytes: summary.bytes,
      fetched_bytes: summary.fetched
    },
    properties: [
      ["Checkpoint", options.path],
      ["Downloaded to", summary.directory],
      ["Files", String(summary.files)],
      ["Size", text.size(summary.bytes)]
    ]
  })
}, Effect.provide(live.rest))

/** @internal */
export const command = Command.make("download", {
  path: tinkerPath,
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription("Directory in which to create the checkpoint's directory. Default: the current directory."),
    Options.optional
  ),
  force: Options.boolean("force").pipe(
    Options.withDescription("Replace an existing directory once the download is complete.")
  )
}, download).pipe(
  Command.withDescription("Download a checkpoint; run it again to resume.")
)
