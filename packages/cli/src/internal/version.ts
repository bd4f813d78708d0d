/**
 * The version, and the command that shows it, so that `tinker version` loads nothing else.
 *
 * @since 0.1.0
 */
import type { CommandSpec } from "./grammar.js"

/** @internal */
export const version = "0.1.0"

/** @internal */
export const versionDescription = "Show the version."

/**
 * A program with this command alone.
 *
 * @internal
 */
export const versionOnly: CommandSpec = {
  path: [],
  description: "",
  options: [],
  arguments: [],
  commands: new Map([
    ["version", {
      path: ["version"],
      description: versionDescription,
      options: [],
      arguments: [],
      commands: new Map()
    }]
  ])
}
