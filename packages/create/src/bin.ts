#!/usr/bin/env node
/**
 * The executable behind `npm create effect-tinker`.
 *
 * @since 0.1.0
 */
import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as Create from "./Create.js"

const { version }: { readonly version: string } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8")
)

const run = Command.run(
  Create.command({
    version,
    templates: fileURLToPath(new URL("../templates", import.meta.url)),
    interactive: process.stdin.isTTY && process.stdout.isTTY
  }),
  { name: "create-effect-tinker", version }
)

run(process.argv).pipe(
  // Wrong usage was printed by the library itself, and leaving a question is nobody's failure.
  Effect.tapError((error) =>
    ValidationError.isValidationError(error) || error._tag === "QuitException"
      ? Effect.void
      : Console.error(`error: ${error.message}`)
  ),
  Effect.provide([NodeContext.layer, CliConfig.layer({ showBuiltIns: false })]),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
