/**
 * Answers of programs: bytes from outside, looked at before they are parsed.
 *
 * @since 0.2.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"

const Answer = Schema.parseJson(Schema.Union(
  Schema.Struct({ results: Schema.Array(Schema.Unknown) }),
  Schema.Struct({
    reason: Schema.Literal("Timeout", "OutOfMemory", "OutputTooLarge", "Thrown", "Unserializable"),
    description: Schema.String
  })
))
const decode = Schema.decodeUnknownEither(Answer)
const utf8 = new TextDecoder("utf-8", { fatal: true })

/** Levels of arrays and objects that results may have: deeper ones would overflow the stack of the code that walks them. */
const maxDepth = 200

/** Bytes around the results of an answer, and those of a description of 1,000 characters however they are escaped. */
const envelope = 100
const descriptionBytes = 10_000

/** The deepest level of JSON, without parsing it. */
const depthOf = (bytes: Uint8Array): number => {
  let depth = 0
  let deepest = 0
  let quoted = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (quoted) {
      if (byte === 0x5c) i++
      else if (byte === 0x22) quoted = false
    } else if (byte === 0x22) quoted = true
    else if (byte === 0x5b || byte === 0x7b) deepest = Math.max(deepest, ++depth)
    else if (byte === 0x5d || byte === 0x7d) depth--
  }
  return deepest
}

/**
 * Text of a program, fit for a log.
 *
 * @internal
 */
export const clean = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, " ").slice(0, 1000)

/**
 * Why an answer has no results.
 *
 * @internal
 */
export interface NoResults {
  readonly reason: "Timeout" | "OutOfMemory" | "OutputTooLarge" | "Thrown" | "Unserializable" | "Crashed"
  readonly description: string
}

/**
 * The results of as many calls, or why there are none.
 *
 * @internal
 */
export const decodeResults = (
  bytes: Uint8Array,
  calls: number,
  allowed: number
): Either.Either<ReadonlyArray<unknown>, NoResults> => {
  const no = (reason: NoResults["reason"], description: string) =>
    Either.left({ reason, description: clean(description) })
  const tooLarge = no("OutputTooLarge", `${bytes.length} bytes, of ${allowed} allowed`)
  if (bytes.length > Math.max(allowed, descriptionBytes) + envelope) return tooLarge
  if (depthOf(bytes) > maxDepth) return no("Unserializable", `more than ${maxDepth} levels`)
  const answer = Either.flatMap(Either.try(() => utf8.decode(bytes)), decode)
  if (Either.isLeft(answer)) return no("Unserializable", "the answer is no JSON of results")
  if ("reason" in answer.right) return no(answer.right.reason, answer.right.description)
  if (bytes.length > allowed + envelope) return tooLarge
  const { results } = answer.right
  return results.length === calls
    ? Either.right(results)
    : no("Unserializable", `${results.length} results for ${calls} calls`)
}
