/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"

const sampling = {
  model: Options.text("model").pipe(
    Options.withAlias("m"),
    Options.withDescription("A base model; see `tinker models`. Default: the first the server can sample from."),
    Options.optional
  ),
  checkpoint: Options.text("checkpoint").pipe(
    Options.withDescription("A sampler checkpoint: tinker://RUN/sampler_weights/NAME."),
    Options.optional
  ),
  maxTokens: Options.integer("max-tokens").pipe(
    Options.withDescription("Longest answer, in tokens."),
    Options.optional
  ),
  temperature: Options.float("temperature").pipe(
    Options.withDescription("0 always takes the likeliest token."),
    Options.optional
  ),
  topP: Options.float("top-p").pipe(
    Options.withDescription("Only the likeliest tokens up to this share."),
    Options.optional
  ),
  seed: Options.integer("seed").pipe(Options.withDescription("The same seed gives the same sample."), Options.optional),
  stop: Options.text("stop").pipe(Options.withDescription("End at this text; may be repeated."), Options.repeated)
}

/** @internal */
export const sample = Command.make("sample", {
  ...sampling,
  count: Options.integer("count").pipe(
    Options.withAlias("n"),
    Options.withDefault(1),
    Options.withDescription("How many samples. Default: 1.")
  ),
  prompt: Args.text({ name: "prompt" }).pipe(
    Args.withDescription("The text to continue: itself, @FILE, or - for stdin."),
    Args.optional
  )
}, lazily(() => import("../actions/sample.js"), ({ sample }) => sample)).pipe(
  Command.withDescription("Let a model continue a text.")
)

/** @internal */
export const chat = Command.make("chat", {
  ...sampling,
  system: Options.text("system").pipe(Options.withDescription("Instructions for the model."), Options.optional)
}, lazily(() => import("../actions/chat.js"), ({ chat }) => chat)).pipe(
  Command.withDescription("Talk with a model; a pipe gives one turn a line.")
)
