/**
 * The options of the program, and those that several commands share.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import { decodeRepeated } from "./commandLine.js"

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
 * Where a secret is to be read: `@FILE`, `-` or `prompt`, for `readSecret`. Options of this type are not recorded, and their
 * values are refused where they are the secret itself.
 *
 * @internal
 */
export const secretPlace = (name: string): Options.Options<string> =>
  Options.map(Options.redacted(name), Redacted.value)

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
    Options.withDescription("Output format on stdout.")
  ),
  apiKey: secretPlace("api-key").pipe(
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
  local: Options.boolean("local").pipe(
    Options.withDescription("Use the embedded backend: short for --base-url local.")
  ),
  project: Options.text("project").pipe(
    Options.withAlias("project-id"),
    Options.withDescription("Project to use. Default: TINKER_PROJECT_ID."),
    Options.optional
  ),
  timeout: Options.text("timeout").pipe(
    Options.mapEffect((value) =>
      Either.mapLeft(parseDuration(value), (message) => ValidationError.invalidValue(HelpDoc.p(message)))
    ),
    Options.withDescription("Time limit of a request including retries, such as 30s. Default: 30s."),
    Options.optional
  )
})

const natural = (name: string) => (value: number) =>
  value >= 0
    ? Effect.succeed(value)
    : Effect.fail(ValidationError.invalidValue(HelpDoc.p(`--${name} must not be negative`)))

/** @internal */
export const limit = (fallback: number) =>
  Options.integer("limit").pipe(
    Options.withDefault(fallback),
    Options.mapEffect(natural("limit")),
    Options.withDescription(`How many to show at most; 0 for all. Default: ${fallback}.`)
  )

/** @internal */
export const offset = Options.integer("offset").pipe(
  Options.withDefault(0),
  Options.mapEffect(natural("offset")),
  Options.withDescription("Number of entries to skip. Default: 0.")
)

/** @internal */
export const scope = Options.choice("scope", ["owned", "accessible"]).pipe(
  Options.withDefault("owned" as const),
  Options.withDescription("Show your own entries, or all you can access. Default: owned.")
)

/** @internal */
export const yes = Options.boolean("yes").pipe(
  Options.withAlias("y"),
  Options.withDescription("Do not ask for a confirmation.")
)

/** @internal */
export const duration = (name: string, description: string) =>
  Options.text(name).pipe(
    Options.mapEffect((value) =>
      Either.mapLeft(parseDuration(value), (message) => ValidationError.invalidValue(HelpDoc.p(message)))
    ),
    Options.withDescription(description),
    Options.optional
  )

/** @internal */
export const tinkerPath = Args.text({ name: "path" }).pipe(
  Args.withDescription(
    "A checkpoint: tinker://RUN/weights/NAME, .../sampler_weights/NAME or .../external_weights/NAME."
  )
)

/** @internal */
export const csv = (name: string, what: string) =>
  Options.text(name).pipe(
    Options.withDescription(`Write ${what} as CSV to this file instead ('-' for stdout).`),
    Options.optional
  )

/**
 * An option that may be repeated.
 *
 * @internal
 */
export const texts = (name: string, description: string) =>
  Options.text(name).pipe(
    Options.withDescription(`${description}; may be repeated.`),
    Options.repeated,
    Options.map((values) => values.map(decodeRepeated))
  )
