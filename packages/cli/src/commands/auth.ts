/**
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import { lazily } from "../internal/lazily.js"

const actions = () => import("../actions/auth.js")

/** @internal */
export const command = Command.make("auth").pipe(
  Command.withDescription("Log in and out."),
  Command.withSubcommands([
    Command.make("login", {}, lazily(actions, ({ login }) => login)).pipe(
      Command.withDescription("Store an API key: paste it, pipe it in, or --api-key @FILE.")
    ),
    Command.make("logout", {}, lazily(actions, ({ logout }) => logout)).pipe(
      Command.withDescription("Forget the stored API key.")
    ),
    Command.make("status", {}, lazily(actions, ({ status }) => status)).pipe(
      Command.withDescription("Check that there is a credential and that the server takes it.")
    ),
    Command.make("whoami", {}, lazily(() => import("../actions/lookup.js"), ({ whoami }) => whoami)).pipe(
      Command.withDescription("Show whom the credential belongs to.")
    )
  ])
)
