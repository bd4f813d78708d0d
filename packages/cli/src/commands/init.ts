/**
 * `tinker init`: the project that `npm create effect-tinker` writes, with the same questions and templates.
 *
 * @since 0.2.0
 */
import * as Command from "@effect/cli/Command"
import * as NodeCommandExecutor from "@effect/platform-node/NodeCommandExecutor"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Create } from "create-effect-tinker"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { CliFailure } from "../internal/CliFailure.js"
import { version } from "../internal/version.js"

const templates = join(
  dirname(createRequire(import.meta.url).resolve("create-effect-tinker/package.json")),
  "templates"
)

const adviceOf = (error: Create.Failure): string => {
  switch (error._tag) {
    case "DirectoryNotEmpty":
      return "Name a directory that is new or empty: `tinker init DIRECTORY`."
    case "InstallFailed":
      return "Install the packages in it by hand; another package manager can be named with --pm."
    case "ParseError":
      return "Name a directory whose name a package may have, such as my-model."
    case "QuitException":
      return "Nothing was written. `tinker init --yes` asks nothing."
    default:
      return "Check the path, its permissions and the space on the disk."
  }
}

/** @internal */
export const command = Create.command({
  name: "init",
  version,
  templates,
  interactive: process.stdin.isTTY === true && process.stdout.isTTY === true
}).pipe(
  Command.transformHandler(Effect.mapError((cause) =>
    new CliFailure({
      what: cause._tag === "QuitException" ? "The questions were left" : cause.message,
      advice: adviceOf(cause),
      cause
    })
  )),
  Command.provide(Layer.provide(NodeCommandExecutor.layer, NodeFileSystem.layer))
)
