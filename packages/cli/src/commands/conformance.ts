/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"

const url = Args.text({ name: "url" }).pipe(
  Args.withDescription("The server, or `local` for the embedded backend. Default: --base-url."),
  Args.optional
)

const model = Options.text("model").pipe(
  Options.withDescription("The model to train and sample. Default: the first one the server offers."),
  Options.optional
)

/** @internal */
export const command = Command.make(
  "conformance",
  { url, model },
  lazily(() => import("../actions/conformance.js"), ({ conformance }) => conformance)
).pipe(
  Command.withDescription("Check whether a server is Tinker-compatible: it trains, saves, samples and lists there.")
)
