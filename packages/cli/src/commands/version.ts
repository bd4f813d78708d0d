/**
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { version } from "../internal/version.js"
import { Output } from "../Output.js"

/** @internal */
export const command = Command.make("version", {}, () =>
  Effect.flatMap(Output, (output) =>
    output.format === "table"
      ? output.write(`tinker ${version}\n`)
      : output.print({ columns: [], rows: [], json: { version, node: process.version } }))).pipe(
    Command.withDescription("Show the version.")
  )
