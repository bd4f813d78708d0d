/**
 * The environment, read only here.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type { Options } from "../TinkerConfig.js"
import * as TinkerError from "../TinkerError.js"

// -----------------------------------------------------------------------------
// Checks settings when the configuration is built.
// -----------------------------------------------------------------------------

const refuse = (description: string) =>
  Either.left(new TinkerError.InvalidInput({ module: "TinkerConfig", method: "make", description }))

const headerName = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Names in lower case. Values are secrets, so no error quotes them.
 *
 * @internal
 */
export const headers = (
  given: NonNullable<Options["headers"]>
): Either.Either<Readonly<Record<string, Redacted.Redacted>>, TinkerError.InvalidInput> => {
  const result: Record<string, Redacted.Redacted> = {}
  for (const [name, value] of Object.entries(given)) {
    const lower = name.toLowerCase()
    const secret = typeof value === "string" ? Redacted.make(value) : value
    if (!headerName.test(lower)) return refuse(`${JSON.stringify(name)} cannot be the name of a header`)
    if (!headerValue.test(Redacted.value(secret))) return refuse(`the value of the header ${name} cannot be sent`)
    result[lower] = secret
  }
  return Either.right(result)
}

/** @internal */
export const numbers = (options: Options): Either.Either<void, TinkerError.InvalidInput> => {
  for (const [pool, limit] of Object.entries(options.poolLimits ?? {})) {
    if (limit !== undefined && !(Number.isInteger(limit) && limit > 0)) {
      return refuse(`the limit of the pool ${pool} must be a positive integer`)
    }
  }
  const { maxResponseBytes } = options
  if (maxResponseBytes !== undefined && !(maxResponseBytes > 0)) return refuse("maxResponseBytes must be above 0")
  for (const name of ["timeout", "pollTimeout"] as const) {
    const duration = options[name]
    if (duration !== undefined && Duration.toMillis(duration) <= 0) return refuse(`${name} must be above 0`)
  }
  return Either.right(undefined)
}

// -----------------------------------------------------------------------------
// The environment.
// -----------------------------------------------------------------------------

/** @internal */
export const optional = (name: string) => Config.string(name).pipe(Config.withDefault(""))

/** In upper or lower case. @internal */
export const either = (name: string) =>
  Config.all([optional(name), optional(name.toLowerCase())]).pipe(
    Config.map(([upper, lower]) => upper === "" ? lower : upper)
  )

/** Only these words enable a setting; anything else, including an empty value, disables it. */
const isOn = (value: string): boolean => ["1", "true", "yes", "on"].includes(value.toLowerCase())

const levels = ["debug", "info"] as const

const switches = ["1", "true", "yes", "on", "0", "false", "no", "off"]

/** Settings that take one of a few words, and what any other word means. */
const wordSettings = [
  { name: "TINKER_LOG", words: ["debug", "info"], otherwise: "nothing is logged" },
  { name: "TINKER_TELEMETRY", words: switches, otherwise: "telemetry is off" },
  { name: "TINKER_ALLOW_INSECURE", words: switches, otherwise: "insecure addresses are refused" }
]

/**
 * Environment variables with an unknown value, one sentence each.
 *
 * @internal
 */
export const misunderstood: Config.Config<ReadonlyArray<string>> = Config.all(
  wordSettings.map(({ name, otherwise, words }) =>
    Config.map(optional(name), (value) =>
      value === "" || words.includes(value.toLowerCase())
        ? []
        : [`${name}=${value} is not understood, so ${otherwise}: write ${words.join(", ")}`])
  )
).pipe(Config.map((found) => found.flat()))

/**
 * Settings from the environment.
 *
 * @internal
 */
export const options: Config.Config<Options> = Config.all({
  baseUrl: optional("TINKER_BASE_URL"),
  allowInsecure: optional("TINKER_ALLOW_INSECURE"),
  apiKey: optional("TINKER_API_KEY"),
  credentialCommand: optional("TINKER_CREDENTIAL_CMD"),
  projectId: optional("TINKER_PROJECT_ID"),
  tags: optional("TINKER_TAGS"),
  telemetry: Config.string("TINKER_TELEMETRY").pipe(Config.withDefault("1")),
  log: optional("TINKER_LOG"),
  clientId: optional("CLOUDFLARE_ACCESS_CLIENT_ID"),
  clientSecret: optional("CLOUDFLARE_ACCESS_CLIENT_SECRET")
}).pipe(Config.map((env): Options => ({
  baseUrl: env.baseUrl,
  allowInsecure: isOn(env.allowInsecure),
  apiKey: env.apiKey,
  credentialCommand: env.credentialCommand,
  projectId: env.projectId,
  tags: env.tags === ""
    ? []
    : Array.from(new Set(env.tags.split(",").map((tag) => tag.trim()).filter((tag) => tag !== ""))),
  telemetry: isOn(env.telemetry),
  log: levels.find((level) => level === env.log.toLowerCase()),
  headers: {
    ...(env.clientId === "" ? {} : { "cf-access-client-id": env.clientId }),
    ...(env.clientSecret === "" ? {} : { "cf-access-client-secret": env.clientSecret })
  }
})))

/**
 * Explicit options win over the environment; an empty base URL or key counts as absent.
 *
 * @internal
 */
export const over = (given: Options, env: Options): Options => {
  const stated = Object.fromEntries(
    Object.entries(given).filter(([key, value]) =>
      value !== undefined && !(value === "" && (key === "baseUrl" || key === "apiKey"))
    )
  )
  return { ...env, ...stated, headers: { ...env.headers, ...given.headers } }
}
