/**
 * The options that a trainer and its workers share.
 *
 * @since 0.1.0
 */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { CliFailure } from "../internal/CliFailure.js"
import { usage } from "../internal/CliFailure.js"

/** Labels of workers: those of `@effect-tinker/cluster`, without loading it. @internal */
export const labels = ["cpu", "sandbox", "browser", "gpu"] as const

/** @internal */
export type Label = typeof labels[number]

const isLabel = (value: string): value is Label => labels.some((label) => label === value)

/** `cpu,browser` @internal */
export const parseLabels = (value: string): Effect.Effect<ReadonlyArray<Label>, CliFailure> => {
  const given = value.split(",").map((label) => label.trim()).filter((label) => label !== "")
  const wrong = given.find((label) => !isLabel(label))
  return wrong !== undefined || given.length === 0
    ? usage(`There is no label ${JSON.stringify(wrong ?? value)}`, `The labels are ${labels.join(", ")}.`)
    : Effect.succeed(given.filter(isLabel))
}

/** `9464`, `0.0.0.0:9464`, `[::]:9464` @internal */
export const parseMetrics = (
  value: string
): Effect.Effect<{ readonly port: number; readonly listen: string }, CliFailure> => {
  const [, bracketed, plain, port = ""] = /^(?:(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+)):)?(\d{1,5})$/i.exec(value.trim()) ??
    []
  return port === "" || Number(port) > 65_535
    ? usage(`There is no address ${JSON.stringify(value)}`, "Give --metrics PORT or --metrics ADDRESS:PORT.")
    : Effect.succeed({ port: Number(port), listen: bracketed ?? plain ?? "127.0.0.1" })
}

/** Whether somebody who reads the address can log in. */
const hasPassword = (url: string): boolean =>
  !URL.canParse(url) || new URL(url).password !== "" || /[?&](password|sslpassword)=/i.test(url)

const wrong = (message: string) => Effect.fail(ValidationError.invalidValue(HelpDoc.p(message)))

/**
 * The address of a database. Everybody on the machine can read the command line of a process, so one with a password comes
 * from a file or the environment.
 */
const databaseOption = (name: string, variable: string, description: string) =>
  Options.redacted(name).pipe(
    Options.mapEffect((given) => {
      const value = Redacted.value(given)
      if (!value.startsWith("@")) {
        return hasPassword(value)
          ? wrong(
            `--${name} is postgres://HOST/NAME or @FILE: a password on the command line would be visible to everyone on ` +
              `this machine. Set ${variable}, or write --${name} @FILE`
          )
          : Effect.succeed(given)
      }
      const file = value.slice(1)
      return Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file)).pipe(
        Effect.map((url) => Redacted.make(url.trim())),
        Effect.catchAll(() => wrong(`--${name}: the file ${file} cannot be read`))
      )
    }),
    Options.withFallbackConfig(Config.redacted(variable)),
    Options.withDescription(`postgres://HOST/NAME, or the file with an address that has a password${description}`)
  )

/** @internal */
export const database = databaseOption("database", "DATABASE_URL", ". Default: DATABASE_URL of the environment.")

/** @internal */
export const durableDatabase = databaseOption(
  "durable-database",
  "TINKER_DURABLE_DATABASE",
  " to record a durable run in, so that another machine can take over. Default: TINKER_DURABLE_DATABASE of the " +
    "environment, or a file in the run's directory."
)

/** @internal */
export const slots = Options.integer("slots").pipe(
  Options.withDefault(128),
  Options.withDescription(
    "Maximum number of rollouts sent to workers at once; twice the workers' total concurrency keeps them busy. Default: 128."
  )
)

/** @internal */
export const store = Options.text("store").pipe(
  Options.withDescription(
    "Where trajectories are kept: a shared directory, or s3://BUCKET/PREFIX with the AWS_ variables of the environment. " +
      "Default: the database."
  ),
  Options.optional
)

/** @internal */
export const weight = Options.float("weight").pipe(
  Options.withDefault(1),
  Options.withDescription("Share of busy workers that this run gets beside other runs. Default: 1.")
)
