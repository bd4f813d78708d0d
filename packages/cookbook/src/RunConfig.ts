/**
 * The configuration of a run: any Schema's value, printed, hashed, compared, and overridden from the command line with
 * `a.b=c`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { ArrayFormatter, isParseError } from "effect/ParseResult"
import * as Schema from "effect/Schema"

/**
 * An override that cannot be applied: it names no field, or its value does not fit.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidOverride
  extends Schema.TaggedError<InvalidOverride>("@effect-tinker/cookbook/RunConfig/InvalidOverride")("InvalidOverride", {
    override: Schema.String,
    description: Schema.String
  })
{
  override get message(): string {
    return `${this.override}: ${this.description}`
  }
}

type JsonObject = { readonly [key: string]: unknown }

const isObject = (u: unknown): u is JsonObject => typeof u === "object" && u !== null && !Array.isArray(u)

/** The same JSON whatever the order its keys were written in. */
const canonical = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(canonical)
    : isObject(value)
    ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, canonical(value[key])]))
    : value

/**
 * JSON of a configuration for people to read.
 *
 * @since 0.1.0
 * @category combinators
 */
export const print = (json: unknown): string => JSON.stringify(canonical(json), undefined, 2)

/**
 * SHA-256 of a configuration's JSON, whatever the order of its keys.
 *
 * @since 0.1.0
 * @category combinators
 */
export const hash = (json: unknown): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() =>
      globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(canonical(json))))
    ),
    (digest) => Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("")
  )

/**
 * A field that two configurations have different values for.
 *
 * @since 0.1.0
 * @category models
 */
export interface Difference {
  /** `a.b` */
  readonly path: string
  readonly before: unknown
  readonly after: unknown
}

/**
 * The fields in which two configurations differ.
 *
 * @since 0.1.0
 * @category combinators
 */
export const diff = (before: unknown, after: unknown, path: string = ""): ReadonlyArray<Difference> => {
  if (isObject(before) && isObject(after)) {
    return Array.from(new Set([...Object.keys(before), ...Object.keys(after)])).sort().flatMap((key) =>
      diff(before[key], after[key], path === "" ? key : `${path}.${key}`)
    )
  }
  return JSON.stringify(canonical(before)) === JSON.stringify(canonical(after)) ? [] : [{ path, before, after }]
}

const jsonOrText = (text: string): unknown => Either.getOrElse(Either.try((): unknown => JSON.parse(text)), () => text)

const set = (json: unknown, path: ReadonlyArray<string>, value: unknown): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return value
  const object = isObject(json) ? json : {}
  return { ...object, [key]: set(object[key], rest, value) }
}

/**
 * The problem with a value, in a line: the field and the first problem with it, such as `adam.clip: Expected a number`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const describe = (error: unknown): string => {
  if (!isParseError(error)) return error instanceof Error ? error.message : String(error)
  // Of the members of a union, the one that came furthest is the one that was meant.
  const [first] = ArrayFormatter.formatErrorSync(error).sort((a, b) => b.path.length - a.path.length)
  if (first === undefined) return error.message
  const problem = first.message.split("\n", 1)[0] ?? ""
  return first.path.length === 0 ? problem : `${first.path.map(String).join(".")}: ${problem}`
}

/** Strict about names, so that a typo does not pass for an override. */
const strict = { onExcessProperty: "error" } as const

/**
 * A configuration with some of its fields replaced: `learningRate=1e-4`, `model.rank=8`. A value is read as JSON, and as
 * text where it is none.
 *
 * @since 0.1.0
 * @category combinators
 */
export const override = <A, I>(
  schema: Schema.Schema<A, I>,
  config: A,
  overrides: ReadonlyArray<string>
): Either.Either<A, InvalidOverride> =>
  overrides.reduce<Either.Either<A, InvalidOverride>>(
    (result, text) =>
      Either.flatMap(result, (current) => {
        const invalid = (description: string) => Either.left(new InvalidOverride({ override: text, description }))
        const [name, ...parts] = text.split("=")
        const path = (name ?? "").trim().split(".")
        if (parts.length === 0 || path.some((key) => key === "" || key === "__proto__")) {
          return invalid("an override is written field.field=value")
        }
        const json = Schema.encodeSync(schema)(current)
        const given = parts.join("=")
        const decode = (value: unknown) => Schema.decodeUnknownEither(schema, strict)(set(json, path, value))
        return decode(jsonOrText(given)).pipe(
          // `name=123` is a number by its looks and may be wanted as text.
          Either.orElse(() => decode(given)),
          Either.orElse((error) => invalid(describe(error)))
        )
      }),
    Either.right(config)
  )
