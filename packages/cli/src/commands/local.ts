/**
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"

/** @internal */
export const command = Command.make("local", {
  port: Options.integer("port").pipe(
    Options.withDefault(8765),
    Options.withDescription("Port to listen on; 0 for any free one. Default: 8765.")
  ),
  host: Options.text("host").pipe(
    Options.withDefault("127.0.0.1"),
    Options.withDescription("Address to listen on. Default: 127.0.0.1, which other machines cannot reach.")
  ),
  directory: Options.text("dir").pipe(
    Options.withDescription("Where to keep checkpoints and records. Default: TINKER_LOCAL_DIR, then ~/.tinker/local."),
    Options.optional
  ),
  models: Options.text("model").pipe(
    Options.withDescription("Directory of a Hugging Face model (Llama or Qwen3) to serve too. May be repeated."),
    Options.repeated
  ),
  threads: Options.integer("threads").pipe(
    Options.withDescription("Threads that train and sample. Default: one for each core."),
    Options.optional
  ),
  memory: Options.boolean("memory").pipe(Options.withDescription("Keep nothing."))
}, lazily(() => import("../actions/local.js"), ({ local }) => local)).pipe(
  Command.withDescription("Start the embedded backend: training and sampling of small models on this machine.")
)
