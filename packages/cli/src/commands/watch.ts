/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"

/** @internal */
export const command = Command.make("watch", {
  log: Args.text({ name: "log" }).pipe(
    Args.withDescription("A metrics log: one JSON object a line, as MetricsLog writes it. It need not be there yet.")
  ),
  once: Options.boolean("once").pipe(Options.withDescription("Say where the run stands, and end.")),
  steps: Options.integer("steps").pipe(
    Options.withDescription("How many steps the run has, where its log does not say."),
    Options.optional
  ),
  metric: Options.text("metric").pipe(
    Options.withDescription("The metric to draw. Default: the first that is a loss, or a reward."),
    Options.optional
  )
}, lazily(() => import("../actions/watch.js"), ({ watch }) => watch)).pipe(
  Command.withDescription("Follow a training run by its metrics log until it ends.")
)
