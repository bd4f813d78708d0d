/**
 * The connection flags of a command line: which server, which key, which project, how patient.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type * as Option from "effect/Option"

/**
 * The server a command talks to, and how.
 *
 * @since 0.1.0
 * @category services
 */
export class Connection extends Context.Tag("@effect-tinker/cli/Connection")<Connection, {
  /** `@FILE`, `-` for stdin, or `prompt`. */
  readonly apiKey: Option.Option<string>
  /** An address, or `local`. */
  readonly baseUrl: Option.Option<string>
  readonly project: Option.Option<string>
  readonly timeout: Option.Option<Duration.Duration>
}>() {}

/**
 * How long a request may take unless `--timeout` says otherwise.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultTimeout: Duration.Duration = Duration.seconds(30)
