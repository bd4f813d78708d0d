/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"

const actions = () => import("../actions/lookup.js")

const substring = Args.text({ name: "substring" }).pipe(
  Args.withDescription("Only models whose name contains this."),
  Args.optional
)

/** @internal */
export const models = Command.make("models", { substring }, lazily(actions, ({ models }) => models)).pipe(
  Command.withDescription("List the models you can train or sample.")
)

/** @internal */
export const model = Command.make("model").pipe(
  Command.withDescription("The same as `models`, by the name other tools use."),
  Command.withSubcommands([
    Command.make("list", { substring }, lazily(actions, ({ models }) => models)).pipe(
      Command.withDescription("List the models you can train or sample.")
    )
  ])
)

/** @internal */
export const sampler = Command.make("sampler").pipe(
  Command.withDescription("Samplers."),
  Command.withSubcommands([
    Command.make("info", {
      samplerId: Args.text({ name: "sampler-id" }).pipe(
        Args.withDescription("A sampler; `tinker session info` shows those of a session.")
      )
    }, lazily(actions, ({ sampler }) => sampler))
      .pipe(
        Command.withDescription("Show what a sampler samples from.")
      )
  ])
)

/** @internal */
export const whoami = Command.make("whoami", {}, lazily(actions, ({ whoami }) => whoami)).pipe(
  Command.withDescription("Show whom the credential belongs to.")
)

/** @internal */
export const audit = Command.make("audit", {
  type: Options.choice("type", ["all", "checkpoints", "projects", "teams", "organizations"]).pipe(
    Options.withDefault("all" as const),
    Options.withDescription("Which events. Default: all.")
  ),
  day: Options.text("day").pipe(
    Options.withDescription("The UTC day, as 2026-01-31. Default: today."),
    Options.optional
  )
}, lazily(actions, ({ audit }) => audit)).pipe(
  Command.withDescription("Show the organization's audit log of a day (admins only).")
)
