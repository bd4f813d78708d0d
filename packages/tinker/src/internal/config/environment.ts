/**
 * The environment, read in this one place.
 *
 * @since 0.1.0
 */
import * as Config from "effect/Config"
import type { Options } from "../../TinkerConfig.js"

/** @internal */
export const optional = (name: string) => Config.string(name).pipe(Config.withDefault(""))

/** In upper or lower case. @internal */
export const either = (name: string) =>
  Config.all([optional(name), optional(name.toLowerCase())]).pipe(
    Config.map(([upper, lower]) => upper === "" ? lower : upper)
  )

/** Only these words switch something on; anything else, an empty value too, switches it off. */
const isOn = (value: string): boolean => ["1", "true", "yes", "on"].includes(value.toLowerCase())

/**
 * What the environment says.
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
  log: env.log === "debug" || env.log === "info" ? env.log : undefined,
  headers: {
    ...(env.clientId === "" ? {} : { "cf-access-client-id": env.clientId }),
    ...(env.clientSecret === "" ? {} : { "cf-access-client-secret": env.clientSecret })
  }
})))

/**
 * What is given wins over the environment; an empty base URL or key counts as not given.
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
