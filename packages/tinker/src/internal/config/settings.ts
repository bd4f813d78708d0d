/**
 * Settings that cannot work are refused when the configuration is built, not retried when it is used.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Either from "effect/Either"
import * as Redacted from "effect/Redacted"
import type { Options } from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"

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
