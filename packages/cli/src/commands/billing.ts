/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"
import { csv } from "../internal/options.js"

const actions = () => import("../actions/billing.js")

const usage = Command.make("usage", {
  startingOn: Args.text({ name: "starting-on" }).pipe(
    Args.withDescription("First UTC hour, e.g. 2026-07-13T00:00:00Z.")
  ),
  endingBefore: Args.text({ name: "ending-before" }).pipe(
    Args.withDescription("The hour after the last, at most 14 days later.")
  ),
  csv: csv("csv", "the rows"),
  sessionsCsv: csv("sessions-csv", "the sessions and their metadata")
}, lazily(actions, ({ usage }) => usage)).pipe(Command.withDescription("Show usage by the hour, with estimated costs."))

const checkpointStorage = Command.make("checkpoint-storage", {
  csv: csv("csv", "the rows")
}, lazily(actions, ({ checkpointStorage }) => checkpointStorage)).pipe(
  Command.withDescription("Show what stored checkpoints take and cost (--project for one project).")
)

const summary = Command.make("summary", {
  days: Options.integer("days").pipe(
    Options.withDefault(7),
    Options.withDescription("The last days, 1 to 14. Default: 7.")
  ),
  by: Options.choice("by", ["run", "session", "model", "project", "user", "day", "type"]).pipe(
    Options.withDefault("run" as const),
    Options.withDescription("What to add up for. Default: run; runs of one session that has several are one line.")
  )
}, lazily(actions, ({ summary }) => summary)).pipe(
  Command.withDescription("Add up tokens and estimated costs, by run or otherwise.")
)

/** @internal */
export const command = Command.make("billing").pipe(
  Command.withDescription("Usage and costs."),
  Command.withSubcommands([usage, checkpointStorage, summary])
)
