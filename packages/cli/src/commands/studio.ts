/**
 * `tinker studio`: a page for the runs in a directory; `tinker export tensorboard` and `tinker export mlflow`: their
 * curves for other tools.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { CliFailure, explain, usage } from "../internal/CliFailure.js"
import { texts } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import * as modelSettings from "../training/modelSettings.js"
import * as training from "../training/options.js"

const loaded = Effect.promise(() => import("../internal/studioServer.js"))

const runsArgument = Args.directory({ name: "dir" }).pipe(
  Args.withDescription("Run directory, or a directory that contains runs. Default: the current directory."),
  Args.withDefault(".")
)

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

const dataFile = Effect.fnUntraced(function*(file: string) {
  const fs = yield* FileSystem.FileSystem
  const info = yield* fs.stat(file).pipe(
    Effect.mapError(explain(file, "Check the path: it is a file of training data."))
  )
  return { path: file, bytes: Number(info.size) }
})

/** Results in a directory, or one below it; or the file itself. */
const resultsIn = Effect.fnUntraced(function*(place: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const info = yield* fs.stat(place).pipe(
    Effect.mapError(explain(place, "Check the path: it is what `tinker eval --benchmark … --out DIR` wrote."))
  )
  if (info.type !== "Directory") return [place]
  const names = yield* fs.readDirectory(place, { recursive: true })
  return names.filter((name) => name.endsWith(".jsonl")).sort().slice(0, maxResults).map((name) =>
    path.join(place, name)
  )
})

/** More than a person chooses from. */
const maxResults = 500

const studio = Effect.fnUntraced(function*(options: {
  readonly directory: string
  readonly port: number
  readonly chat: boolean
  readonly price: Option.Option<string>
  readonly currency: string
  readonly data: ReadonlyArray<string>
  readonly evals: ReadonlyArray<string>
  readonly model: Option.Option<string>
}) {
  const output = yield* Output
  const directory = yield* existing(options.directory)
  const price = Option.isNone(options.price) ? undefined : yield* modelSettings.parsePrice(options.price.value)
  const currency = options.currency.toUpperCase()
  if (!/^[A-Z]{3}$/.test(currency)) {
    return yield* usage(`${options.currency} is not a currency`, "Name it by its three letters, such as USD.")
  }
  const server = yield* loaded
  const model = Option.getOrElse(options.model, () => "")
  const data = Layer.effect(server.DataCheck, server.dataCheck(yield* Effect.forEach(options.data, dataFile), model))
  const tokenizers = server.tokenizers(options.chat)
  const results = (yield* Effect.forEach(options.evals, resultsIn)).flat()
  const evaluations = results.length === 0 ? Layer.empty : server.evaluations(results)
  const all = Layer.mergeAll(server.grades, data, evaluations, options.chat ? server.talk : Layer.empty).pipe(
    Layer.provideMerge(tokenizers)
  )
  const { origin, url } = yield* server.serve({ directory, port: options.port, price, currency }).pipe(
    Effect.provide(yield* Layer.build(all)),
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
  directory: runsArgument,
  port: Options.integer("port").pipe(
    Options.withDefault(0),
    Options.withDescription("Port to listen on. Default: any free one.")
  ),
  chat: Options.boolean("chat").pipe(
    Options.withDescription("Connect to the server to chat with checkpoints. Without it, nothing leaves this machine.")
  ),
  price: training.price,
  currency: Options.text("currency").pipe(
    Options.withDefault("USD"),
    Options.withDescription("Currency of --price and of costs that runs record without one. Default: USD.")
  ),
  data: texts("data", "A file of training data, to look at before it is trained on"),
  evals: texts("evals", "Results of `tinker eval --benchmark … --out DIR`, to compare"),
  model: training.optionalText("model", "The model whose tokenizer and format data is shown in.")
}, studio).pipe(
  Command.withDescription(
    "Show runs in the browser, live: curves, rollouts token by token, checkpoints, answers to grade, training data, evaluations. It " +
      "opens log directories of the Python cookbook too."
  )
)

const noRuns = (directory: string) =>
  new CliFailure({
    what: `There are no runs with metrics in ${directory}`,
    advice: "Give a run directory, or one that has some below it."
  })

const tensorBoard = Effect.fnUntraced(function*(options: { readonly directory: string; readonly output: string }) {
  const output = yield* Output
  const from = yield* existing(options.directory)
  const { exportTensorBoard } = yield* loaded
  const exported = yield* exportTensorBoard({ from, to: options.output }).pipe(
    Effect.mapError(explain(options.output, "Check that the directory can be written to."))
  )
  if (exported.length === 0) return yield* noRuns(options.directory)
  yield* output.print({
    columns: [{ header: "Run", keep: true }, { header: "Steps", align: "right" }, { header: "File" }],
    rows: exported.map(({ path, run, steps }) => [run, String(steps), path]),
    json: { runs: exported }
  })
  yield* output.note(`tensorboard --logdir ${options.output}`)
})

/** @internal */
export const tensorBoardCommand = Command.make("tensorboard", {
  directory: runsArgument,
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDefault("tensorboard"),
    Options.withDescription("Directory to write to. Default: tensorboard.")
  )
}, tensorBoard).pipe(
  Command.withDescription("Write the curves of runs as event files for TensorBoard.")
)

/** As MLflow's own clients read it. */
const credential = Effect.gen(function*() {
  const token = yield* Config.option(Config.redacted("MLFLOW_TRACKING_TOKEN"))
  if (Option.isSome(token)) return { _tag: "Bearer", token: token.value } as const
  const username = yield* Config.option(Config.string("MLFLOW_TRACKING_USERNAME"))
  const password = yield* Config.option(Config.redacted("MLFLOW_TRACKING_PASSWORD"))
  return Option.isSome(username) && Option.isSome(password)
    ? { _tag: "Basic", username: username.value, password: password.value } as const
    : undefined
})

const mlflow = Effect.fnUntraced(function*(options: {
  readonly directory: string
  readonly url: Option.Option<string>
  readonly experiment: string
}) {
  const output = yield* Output
  const from = yield* existing(options.directory)
  const url = Option.getOrUndefined(options.url) ??
    Option.getOrUndefined(yield* Config.option(Config.string("MLFLOW_TRACKING_URI")))
  if (url === undefined || !/^https?:\/\//.test(url)) {
    return yield* usage("There is no tracking server", "Give --url http://127.0.0.1:5000, or set MLFLOW_TRACKING_URI.")
  }
  const { exportMLflow } = yield* loaded
  const { experiment } = options
  const exported = yield* exportMLflow({ from, url, experiment, credential: yield* credential }).pipe(
    Effect.catchTag("MLflowFailed", (cause) =>
      new CliFailure({
        what: `The runs were not taken: ${cause.message}`,
        advice:
          "Check the address, and MLFLOW_TRACKING_TOKEN or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.",
        cause
      }))
  )
  if (exported.length === 0) return yield* noRuns(options.directory)
  yield* output.print({
    columns: [{ header: "Run", keep: true }, { header: "Values", align: "right" }, { header: "Id" }],
    rows: exported.map(({ id, run, values }) => [run, values.toLocaleString("en-US"), id]),
    json: { runs: exported }
  })
})

/** @internal */
export const mlflowCommand = Command.make("mlflow", {
  directory: runsArgument,
  url: training.optionalText("url", "The tracking server. Default: MLFLOW_TRACKING_URI."),
  experiment: Options.text("experiment").pipe(
    Options.withDefault("tinker"),
    Options.withDescription("Experiment for the runs, created if missing. Default: tinker.")
  )
}, mlflow).pipe(
  Command.withDescription(
    "Send curves and configurations of runs to an MLflow tracking server; repeated, sends only what is new."
  )
)
