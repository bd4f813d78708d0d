/**
 * `tinker studio`: a page for the runs in a directory, and `tinker tensorboard`: their curves as event files.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { CliFailure, explain } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"

const loaded = Effect.promise(() => import("../internal/studioServer.js"))

const existing = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const info = yield* fs.stat(directory).pipe(
    Effect.mapError(explain(directory, "Check the path: it is a run directory, or one that has some below it."))
  )
  if (info.type !== "Directory") {
    return yield* new CliFailure({
      what: `${directory} is not a directory`,
      advice: "Give a run directory, or one that has some below it."
    })
  }
  return path.resolve(directory)
})

const studio = Effect.fnUntraced(function*(options: {
  readonly directory: string
  readonly port: number
  readonly chat: boolean
}) {
  const output = yield* Output
  const directory = yield* existing(options.directory)
  const server = yield* loaded
  const tokenizers = server.tokenizers(options.chat)
  const { origin, url } = yield* server.serve({ directory, port: options.port }).pipe(
    Effect.provide(
      yield* Layer.build(options.chat ? Layer.provideMerge(server.talk, tokenizers) : tokenizers)
    ),
    Effect.catchTags({
      ServeError: (cause) =>
        new CliFailure({
          what: `Port ${options.port} cannot be opened`,
          advice: "Another program may be using it: choose another with --port, or 0 for any free one.",
          cause
        }),
      PageMissing: (cause) =>
        new CliFailure({
          what: `The studio cannot start: ${cause.message}`,
          advice: "Install the package again.",
          cause
        })
    })
  )
  const open = Redacted.value(url)
  yield* output.printRecord({
    json: { url: open, origin, directory },
    properties: [["Studio", open], ["Runs", directory]]
  })
  yield* output.note("Open the address in a browser on this machine; Ctrl-C stops it")
  return yield* Effect.never
}, Effect.scoped)

/** @internal */
export const command = Command.make("studio", {
  directory: Args.directory({ name: "dir" }).pipe(
    Args.withDescription("A run directory, or one that has some below it. Default: the current directory."),
    Args.withDefault(".")
  ),
  port: Options.integer("port").pipe(
    Options.withDefault(0),
    Options.withDescription("Port to listen on. Default: any free one.")
  ),
  chat: Options.boolean("chat").pipe(
    Options.withDescription("Connect to the server, to talk to checkpoints. Without it nothing leaves this machine.")
  )
}, studio).pipe(
  Command.withDescription(
    "Show runs in the browser, live: curves, rollouts token by token, checkpoints. It opens log directories of the " +
      "Python cookbook too."
  )
)

const tensorBoard = Effect.fnUntraced(function*(options: { readonly directory: string; readonly output: string }) {
  const output = yield* Output
  const from = yield* existing(options.directory)
  const { exportTensorBoard } = yield* loaded
  const exported = yield* exportTensorBoard({ from, to: options.output }).pipe(
    Effect.mapError(explain(options.output, "Check that the directory can be written to."))
  )
  if (exported.length === 0) {
    return yield* new CliFailure({
      what: `There are no runs with metrics in ${options.directory}`,
      advice: "Give a run directory, or one that has some below it."
    })
  }
  yield* output.print({
    columns: [{ header: "Run", keep: true }, { header: "Steps", align: "right" }, { header: "File" }],
    rows: exported.map(({ path, run, steps }) => [run, String(steps), path]),
    json: { runs: exported }
  })
  yield* output.note(`tensorboard --logdir ${options.output}`)
})

/** @internal */
export const tensorBoardCommand = Command.make("tensorboard", {
  directory: Args.directory({ name: "dir" }).pipe(
    Args.withDescription("A run directory, or one that has some below it. Default: the current directory."),
    Args.withDefault(".")
  ),
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDefault("tensorboard"),
    Options.withDescription("Directory to write to. Default: tensorboard.")
  )
}, tensorBoard).pipe(
  Command.withDescription("Write the curves of runs as event files for TensorBoard.")
)
