/**
 * Real vocabularies and other tokenizers. They are large, so they are installed when a bench first needs them.
 */
import { Effect } from "effect"
import { install } from "../../../.ci/install.mjs"
import { BenchFailed } from "./Bench.js"

/** How their packages are found. */
export const vocabularies = Effect.flatMap(
  Effect.promise(() => install("packages/tokenizer/test/vocabularies")),
  ({ missing, require }) =>
    require === undefined ? Effect.fail(new BenchFailed({ reason: missing })) : Effect.succeed(require)
)
