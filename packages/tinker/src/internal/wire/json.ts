/**
 * Schemas for JSON on the wire: field names, defaults, nulls, dates and open enumerations.
 */
import type * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Types from "effect/Types"

/**
 * Requests: an unknown key is a mistake of the caller.
 *
 * @internal
 */
export const strict = [
  { parseOptions: { onExcessProperty: "error" } },
  { parseOptions: { onExcessProperty: "error" } }
] as const

/**
 * Responses: a key we do not know is a newer server.
 *
 * @internal
 */
export const lenient = [
  { parseOptions: { onExcessProperty: "ignore" } },
  { parseOptions: { onExcessProperty: "ignore" } }
] as const

/**
 * An instance of a schema's class with every field given, defaults included, and right. Its constructor looks up the
 * default of each field and copies them three times: which is measurable at thousands of samples a second.
 *
 * @internal
 */
export const instance = <A extends object>(prototype: A, fields: A): A => ({ __proto__: prototype, ...fields })

/**
 * A required field.
 *
 * @internal
 */
export const required = <A, I, R, const K extends string>(schema: Schema.Schema<A, I, R>, key: K) =>
  Schema.propertySignature(schema).pipe(Schema.fromKey(key))

/**
 * A field left out when it has no value; `null` is read as absent.
 *
 * @internal
 */
export const optional = <A, I, R, const K extends string>(schema: Schema.Schema<A, I, R>, key: K) =>
  Schema.optionalWith(schema, { nullable: true }).pipe(Schema.fromKey(key))

/**
 * A field that is always written, and filled in when it is absent or `null`.
 *
 * @internal
 */
export const withDefault = <A, I, R, const K extends string>(
  schema: Schema.Schema<A, I, R>,
  key: K,
  value: () => Types.NoInfer<A>
) => Schema.optionalWith(schema, { default: value, nullable: true }).pipe(Schema.fromKey(key))

/**
 * The `type` of a request or of a variant: always written, may be missing in what others send.
 *
 * @internal
 */
export const tag = <const T extends string>(value: T) =>
  Schema.optionalWith(Schema.Literal(value), { default: () => value })

/**
 * The `type` of a response: it says nothing the endpoint does not, so whatever came is replaced.
 *
 * @internal
 */
export const responseTag = <const T extends string>(value: T) =>
  Schema.optionalToRequired(Schema.Unknown, Schema.Literal(value), {
    decode: () => value,
    encode: (type): Option.Option<unknown> => Option.some(type)
  }).pipe(Schema.withConstructorDefault(() => value))

/**
 * One of the known words, or a word of a newer server.
 *
 * @internal
 */
export type Open<T extends string> = T | (string & {})

/**
 * @internal
 */
export const open = <const T extends ReadonlyArray<string>>(...known: T): Schema.Schema<Open<T[number]>, string> =>
  Schema.declare((u): u is Open<T[number]> => typeof u === "string", {
    title: `${known.map((word) => JSON.stringify(word)).join(" | ")} | string`,
    arbitrary: () => (fc) => fc.oneof(fc.constantFrom(...known), fc.string())
  })

const pad = (n: number, width: number): string => String(n).padStart(width, "0")

/** As the Python SDK prints instants: no fraction, or six digits. */
const formatInstant = (instant: DateTime.Utc): string => {
  const iso = DateTime.formatIso(instant)
  const millis = ((instant.epochMillis % 1000) + 1000) % 1000
  return `${iso.slice(0, iso.lastIndexOf("."))}${millis === 0 ? "" : `.${pad(millis, 3)}000`}Z`
}

const zone = /(?:Z|[+-]\d{2}:?\d{2})$/i
const dateOnly = /^\d{4}-\d{2}-\d{2}$/

/**
 * @internal
 */
export const parseInstant = (input: string | number): Option.Option<DateTime.Utc> => {
  if (typeof input === "number") {
    // Unix time: seconds, or milliseconds when the number is too large for seconds
    return DateTime.make(Math.abs(input) > 2e10 ? input : input * 1000).pipe(Option.map(DateTime.toUtc))
  }
  const text = input.trim().replace(" ", "T")
  // an instant without a zone means UTC, where JavaScript would read local time
  return DateTime.make(zone.test(text) || dateOnly.test(text) ? text : `${text}Z`).pipe(Option.map(DateTime.toUtc))
}

/** The years every side can write. */
const first = Date.parse("0001-01-01T00:00:00Z")
const last = Date.parse("9999-12-31T23:59:59.999Z")

/**
 * An instant: ISO 8601 text (UTC when no zone is given) or Unix time.
 *
 * @internal
 */
export const Instant: Schema.Schema<DateTime.Utc, string | number> = Schema.transformOrFail(
  Schema.Union(Schema.String, Schema.JsonNumber),
  Schema.DateTimeUtcFromSelf.pipe(
    Schema.filter(({ epochMillis }) => epochMillis >= first && epochMillis <= last, {
      title: "instant of a year of four digits",
      arbitrary: () => (fc) => fc.integer({ min: first, max: last }).map((millis) => DateTime.unsafeMake(millis))
    })
  ),
  {
    strict: true,
    decode: (input, _, ast) =>
      Option.match(parseInstant(input), {
        onNone: () => ParseResult.fail(new ParseResult.Type(ast, input, "not an instant")),
        onSome: ParseResult.succeed
      }),
    encode: (instant) => ParseResult.succeed(formatInstant(instant))
  }
)

const deepest = 64

const isJson = (u: unknown, depth: number): boolean => {
  switch (typeof u) {
    case "string":
    case "boolean":
      return true
    case "number":
      return Number.isFinite(u)
    case "object": {
      if (u === null) return true
      if (depth === deepest) return false
      if (Array.isArray(u)) return u.every((item) => isJson(item, depth + 1))
      const prototype = Object.getPrototypeOf(u)
      return (prototype === Object.prototype || prototype === null) &&
        Object.values(u).every((item) => isJson(item, depth + 1))
    }
    default:
      return false
  }
}

/**
 * Free-form JSON: nothing that would be dropped or changed on its way, `null` kept.
 *
 * @internal
 */
export const Json: Schema.Schema<unknown> = Schema.declare((u: unknown): u is unknown => isJson(u, 0), {
  title: "JSON",
  arbitrary: () => (fc) => fc.jsonValue({ maxDepth: 2 })
})

const isObject = (u: unknown): u is Readonly<Record<string, unknown>> =>
  typeof u === "object" && u !== null && !Array.isArray(u)

/**
 * A map whose values are checked by one loop and passed on as they came, so that no key is lost on the way
 * (`__proto__` included) and a large map costs little.
 */
const record = <A>(
  title: string,
  isValue: (u: unknown) => u is A,
  arbitrary: Arbitrary.LazyArbitrary<A>
): Schema.Schema<Readonly<Record<string, A>>> =>
  Schema.declare((u): u is Readonly<Record<string, A>> => isObject(u) && Object.values(u).every(isValue), {
    title,
    arbitrary: () => (fc) => fc.dictionary(fc.string(), arbitrary(fc))
  })

/**
 * A free-form JSON object.
 *
 * @internal
 */
export const JsonRecord: Schema.Schema<Readonly<Record<string, unknown>>> = record(
  "JSON object",
  (u): u is unknown => isJson(u, 1),
  (fc) => fc.jsonValue({ maxDepth: 2 })
)

/**
 * A JSON object that names its kind, kept as the wire has it. Kinds we have a Schema for are refused where that Schema
 * is the only right spelling.
 *
 * @internal
 */
export const taggedJson = (
  title: string,
  refused: ReadonlySet<string> = new Set()
): Schema.Schema<{ readonly type: string; readonly [key: string]: unknown }> =>
  Schema.declare(
    (u): u is { readonly type: string; readonly [key: string]: unknown } =>
      isObject(u) && typeof u.type === "string" && !refused.has(u.type) && isJson(u, 0),
    {
      title,
      arbitrary: () => (fc) =>
        fc.tuple(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 })), fc.string()).map(([rest, type]) => ({
          ...rest,
          type: refused.has(type) ? `${type}_` : type
        }))
    }
  )

/**
 * A key of a map that is rebuilt on its way: any but the one that assignment would swallow.
 *
 * @internal
 */
export const Key: Schema.Schema<string> = Schema.String.pipe(Schema.filter((key) => key !== "__proto__"))

/**
 * A map of strings.
 *
 * @internal
 */
export const StringRecord: Schema.Schema<Readonly<Record<string, string>>> = record(
  "map of strings",
  Predicate.isString,
  (fc) => fc.string()
)

/**
 * Metrics by name. JSON has no NaN, so an undefined value comes as `null`.
 *
 * @internal
 */
export const Metrics: Schema.Schema<
  Readonly<Record<string, number>>,
  Readonly<Record<string, number | null>>
> = Schema.transform(
  record(
    "map of numbers",
    (u): u is number | null => u === null || typeof u === "number",
    (fc) => fc.option(fc.double({ noDefaultInfinity: true, noNaN: true }))
  ),
  record("map of numbers", Predicate.isNumber, (fc) => fc.double({ noDefaultInfinity: true })),
  {
    strict: true,
    decode: (metrics) => mapValues(metrics, (value) => value ?? Number.NaN),
    encode: (metrics) => mapValues(metrics, (value) => Number.isFinite(value) ? value : null)
  }
)

const mapValues = <A, B>(values: Readonly<Record<string, A>>, f: (value: A) => B): Readonly<Record<string, B>> =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, f(value)]))

/**
 * A whole number that is not negative.
 *
 * @internal
 */
export const Count = Schema.NonNegativeInt
