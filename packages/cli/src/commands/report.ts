/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"

/** @internal */
export const command = Command.make("report", {
  log: Args.text({ name: "log" }).pipe(
    Args.withDescription("A metrics log: one JSON object a line, as MetricsLog writes it.")
  ),
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription("The page to write. Default: LOG.html."),
    Options.optional
  ),
  title: Options.text("title").pipe(
    Options.withDescription("The heading of the page. Default: the name of the log."),
    Options.optional
  )
}, lazily(() => import("../actions/report.js"), ({ report }) => report)).pipe(
  Command.withDescription("Draw the curves of a metrics log as one HTML file.")
)
