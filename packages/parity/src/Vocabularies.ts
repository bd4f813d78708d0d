/**
 * Real vocabularies and other tokenizers. They are large, so they are installed when a suite first needs them.
 */
import { Effect } from "effect"
import { install } from "../../../.ci/install.mjs"
import { PythonMissing } from "./Suite.js"

/** How their packages are found. */
export const packages = Effect.flatMap(
  Effect.promise(() => install("packages/tokenizer/test/vocabularies")),
  ({ missing, require }) =>
    require === undefined ? Effect.fail(new PythonMissing({ reason: missing })) : Effect.succeed(require)
)
