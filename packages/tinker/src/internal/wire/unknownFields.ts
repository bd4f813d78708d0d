/**
 * Fields of a request that a schema does not know, because the client is newer than the server.
 */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Schema from "effect/Schema"

/** Settings in which a field that is left out would silently change the result. */
const settings: ReadonlySet<PropertyKey> = new Set([
  "adam_params",
  "graph",
  "lora_config",
  "loss_fn_config",
  "optimizer_config",
  "optimizer_params",
  "sampling_params"
])

type Path = ReadonlyArray<PropertyKey>

const isNested = (issues: ParseResult.SingleOrNonEmpty<ParseResult.ParseIssue>): issues is readonly [
  ParseResult.ParseIssue,
  ...Array<ParseResult.ParseIssue>
] => Array.isArray(issues)

/** Paths of the unexpected fields below an issue; undefined when anything else is wrong. */
const unexpected = (issue: ParseResult.ParseIssue, path: Path = []): ReadonlyArray<Path> | undefined => {
  switch (issue._tag) {
    case "Unexpected":
      return [path]
    case "Pointer":
      return unexpected(issue.issue, path.concat(issue.path))
    case "Refinement":
    case "Transformation":
      return unexpected(issue.issue, path)
    case "Composite": {
      const found = (isNested(issue.issues) ? issue.issues : [issue.issues]).map((each) => unexpected(each, path))
      // of the members of a union, the one that fits but for unknown fields
      if (issue.ast._tag === "Union") return found.find((paths) => paths !== undefined)
      return found.reduce((all, paths) => all === undefined || paths === undefined ? undefined : all.concat(paths), [])
    }
    default:
      return undefined
  }
}

const isObject = (u: unknown): u is object => typeof u === "object" && u !== null

/** A copy without the fields at these paths; what they do not touch is shared. */
const without = (value: unknown, paths: ReadonlyArray<Path>): unknown => {
  if (!isObject(value)) return value
  const removed = new Set(paths.filter((path) => path.length === 1).map(([key]) => key))
  const below = new Map<PropertyKey, Array<Path>>()
  for (const [key, ...rest] of paths) {
    if (key === undefined || rest.length === 0) continue
    const known = below.get(key)
    if (known === undefined) below.set(key, [rest])
    else known.push(rest)
  }
  if (Array.isArray(value)) return value.map((each, i) => without(each, below.get(i) ?? []))
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, each]) => removed.has(key) ? [] : [[key, without(each, below.get(key) ?? [])]])
  )
}

/** A path as people write it, indices left out: each of a thousand items has the same field. */
const nameOf = (path: Path): string => path.filter((key) => typeof key === "string").join(".")

/**
 * Decodes what a strict schema refuses only because of fields it does not know: without them, and with their names. A
 * field within settings is still refused.
 *
 * @internal
 */
export const decodeWithout = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = ParseResult.decodeUnknownEither(schema)
  const decodeAll = ParseResult.decodeUnknownEither(schema, { errors: "all" })
  return (
    value: unknown
  ): Either.Either<{ readonly request: A; readonly ignored: ReadonlyArray<string> }, ParseResult.ParseIssue> =>
    Either.orElse(Either.map(decode(value), (request) => ({ request, ignored: [] })), (refused) => {
      const paths = Either.match(decodeAll(value), { onLeft: (all) => unexpected(all), onRight: () => [] })
      if (paths === undefined) return Either.left(refused)
      const optional = paths.filter((path) => !path.some((key) => settings.has(key)))
      const ignored = Array.from(new Set(optional.map(nameOf)))
      return Either.map(decode(without(value, optional)), (request) => ({ request, ignored }))
    })
}
