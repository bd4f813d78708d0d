/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"
import { limit, offset, scope } from "../internal/options.js"

const actions = () => import("../actions/run.js")

const list = Command.make("list", {
  limit: limit(20),
  offset,
  scope,
  columns: Options.text("columns").pipe(
    Options.withAlias("c"),
    Options.withDescription(
      "Columns, separated by commas: id, model, owner, lora, updated, status, checkpoint, checkpoint_time."
    ),
    Options.optional
  )
}, lazily(actions, ({ list }) => list)).pipe(Command.withDescription("List training runs, newest first."))

const info = Command.make("info", {
  runId: Args.text({ name: "run-id" }).pipe(Args.withDescription("A training run; see `tinker run list`.")),
  scope
}, lazily(actions, ({ info }) => info)).pipe(Command.withDescription("Show one training run."))

/** @internal */
export const command = Command.make("run").pipe(
  Command.withDescription("Training runs."),
  Command.withSubcommands([list, info])
)
