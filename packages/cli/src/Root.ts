/**
 * The root of the command tree: the options every command has.
 *
 * @since 0.1.0
 */
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"

const timeout = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/

/**
 * `30` (seconds), `30s`, `500ms`, `2m`, `1h` or `7d`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const parseDuration = (value: string): Either.Either<Duration.Duration, string> => {
  const match = timeout.exec(value.trim())
  const amount = Number(match?.[1])
  if (match === null || !(amount > 0)) {
    return Either.left(`'${value}' is not a duration: write 30s, 500ms, 2m, 1h or 7d`)
  }
  switch (match[2]) {
    case "ms":
      return Either.right(Duration.millis(amount))
    case "m":
      return Either.right(Duration.minutes(amount))
    case "h":
      return Either.right(Duration.hours(amount))
    case "d":
      return Either.right(Duration.days(amount))
    default:
      return Either.right(Duration.seconds(amount))
  }
}

/**
 * The options of the root command. They are accepted anywhere on the line.
 *
 * @since 0.1.0
 * @category constructors
 */
export const root = Command.make("tinker", {
  format: Options.choice("format", ["table", "json", "ndjson"]).pipe(
    Options.withAlias("f"),
    Options.withDefault("table" as const),
    Options.withDescription("How data is printed on stdout.")
  ),
  apiKey: Options.text("api-key").pipe(
    Options.withDescription(
      "Where to read the API key: @FILE, - for stdin, or prompt. Default: TINKER_API_KEY, TINKER_CREDENTIAL_CMD, then the stored login."
    ),
    Options.optional
  ),
  baseUrl: Options.text("base-url").pipe(
    Options.withDescription(
      "The server, or `local` for the embedded backend. Default: TINKER_BASE_URL, then the hosted service."
    ),
    Options.optional
  ),
  project: Options.text("project").pipe(
    Options.withDescription("The project to work in. Default: TINKER_PROJECT_ID."),
    Options.optional
  ),
  timeout: Options.text("timeout").pipe(
    Options.mapEffect((value) =>
      Either.mapLeft(parseDuration(value), (message) => ValidationError.invalidValue(HelpDoc.p(message)))
    ),
    Options.withDescription("How long a request may take, retries included, e.g. 30s. Default: 30s."),
    Options.optional
  )
})
