/**
 * Options that several commands have.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { parseDuration } from "../Root.js"

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
  Options.withDescription("How many to skip. Default: 0.")
)

/** @internal */
export const scope = Options.choice("scope", ["owned", "accessible"]).pipe(
  Options.withDefault("owned" as const),
  Options.withDescription("Your own, or all you may see. Default: owned.")
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
