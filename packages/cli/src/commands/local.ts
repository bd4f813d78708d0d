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
  memory: Options.boolean("memory").pipe(Options.withDescription("Keep nothing.")),
  jwt: Options.boolean("jwt").pipe(
    Options.withDescription("Have clients exchange their API key for a token, as the hosted service does.")
  ),
  allowHost: Options.text("allow-host").pipe(
    Options.withDescription("A further name under which clients reach the server. May be repeated."),
    Options.repeated
  ),
  allowOrigin: Options.text("allow-origin").pipe(
    Options.withDescription("Web pages that may call: an origin such as https://example.org, or *. Default: none."),
    Options.optional
  ),
  open: Options.boolean("open").pipe(
    Options.withDescription(
      "Accept any key, any host name and any web page. Whoever reaches the port can do everything."
    )
  )
}, lazily(() => import("../actions/local.js"), ({ local }) => local)).pipe(
  Command.withDescription(
    "Start the embedded backend: training and sampling of small models on this machine. It accepts the key it prints, " +
      "which is kept in its directory; with --api-key @FILE the keys in that file, one per line, each with the e-mail " +
      "of its user if there are several users."
  )
)
