/**
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as CheckpointDownload from "effect-tinker/CheckpointDownload"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { usage } from "../CliFailure.js"
import * as exportExternal from "../internal/exportExternal.js"
import * as live from "../internal/live.js"
import * as text from "../internal/text.js"
import { Output } from "../Output.js"
import * as Progress from "../Progress.js"

/**
 * Downloads with a bar on stderr.
 *
 * @internal
 */
export const fetch = (options: Omit<CheckpointDownload.Options, "exportExternal">) =>
  Effect.scoped(Effect.gen(function*() {
    const exporting = yield* exportExternal.make
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

/** @internal */
export const download = Effect.fnUntraced(function*(options: {
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
