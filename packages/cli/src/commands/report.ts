/**
 * `tinker report`: the curves of a run as one HTML file.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { explain } from "../internal/CliFailure.js"
import * as Report from "../metrics/Report.js"
import { Output } from "../terminal/Output.js"

const report = Effect.fnUntraced(function*(options: {
  readonly log: string
  readonly output: Option.Option<string>
  readonly title: Option.Option<string>
}) {
  const printer = yield* Output
  const path = yield* Path.Path
  const output = Option.getOrElse(options.output, () => `${options.log}.html`)
  const { steps, torn } = yield* Report.write({
    log: options.log,
    output,
    title: Option.getOrElse(options.title, () => path.basename(options.log))
  }).pipe(
    Effect.mapError(
      explain(options.log, "Check the path: it is a run directory, or the log that a run writes with MetricsLog.")
    )
  )
  if (torn !== undefined) yield* printer.note(torn.message)
  yield* printer.printRecord({
    json: { report: output, steps },
    properties: [["Report", output], ["Steps", `${steps}`]]
  })
})

/** @internal */
export const command = Command.make("report", {
  log: Args.text({ name: "log" }).pipe(
    Args.withDescription("Run directory, or a metrics log with one JSON object per line, as MetricsLog writes it.")
  ),
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription("HTML file to write. Default: LOG.html."),
    Options.optional
  ),
  title: Options.text("title").pipe(
    Options.withDescription("Title of the page. Default: the name of the log."),
    Options.optional
  )
}, report).pipe(
  Command.withDescription("Write a report of a run's curves as one HTML file.")
)
