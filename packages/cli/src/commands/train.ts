/**
 * `tinker train`: from a file, or an environment, to a tuned model. A run is kept in a directory, and the same command
 * resumes it.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import { distill } from "./train/distill.js"
import { dpo } from "./train/dpo.js"
import { judged } from "./train/judged.js"
import { agent, rl } from "./train/rl.js"
import { sft } from "./train/sft.js"

/** @internal */
export const command = Command.make("train").pipe(
  Command.withSubcommands([sft, dpo, rl, agent, judged, distill]),
  Command.withDescription("Train a model; the same command resumes a run that was interrupted.")
)
