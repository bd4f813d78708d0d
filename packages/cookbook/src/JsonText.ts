/**
 * JSON that somebody else has written: files of data, bodies of requests. Bytes that are not UTF-8 are an error, where a
 * decoder would put other characters in their place; and values may have so many levels only, since whatever reads a value
 * (schemas, hashes, templates) calls itself for each of them, so that a line of brackets would end the stack.
 *
 * @since 0.2.0
 */
import * as Either from "effect/Either"

/**
 * Levels that a value may have: more than any data has. Schemas of tools have about ten.
 *
 * @since 0.2.0
 * @category constants
 */
export const maxNesting = 100

/**
 * Whether a text has more brackets open at once than {@link maxNesting}, without reading it as JSON.
 *
 * @since 0.2.0
 * @category predicates
 */
export const isTooDeep = (text: string, most: number = maxNesting): boolean => {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) {
      // A string, up to its quote.
      for (i++; i < text.length && text.charCodeAt(i) !== 0x22; i++) if (text.charCodeAt(i) === 0x5c) i++
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth > most) return true
    } else if (code === 0x5d || code === 0x7d) depth--
  }
  return false
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

/**
 * Bytes as text, where they are UTF-8.
 *
 * @since 0.2.0
 * @category parsing
 */
export const decode = (bytes: Uint8Array): Either.Either<string, string> =>
  Either.try({ try: () => utf8.decode(bytes), catch: () => "not UTF-8: save it in that encoding" })

/**
 * A value, or why there is none.
 *
 * @since 0.2.0
 * @category parsing
 */
export const parse = (text: string, most: number = maxNesting): Either.Either<unknown, string> =>
  isTooDeep(text, most)
    ? Either.left(`nested more than ${most} levels deep`)
    : Either.try({ try: (): unknown => JSON.parse(text), catch: (error) => `not JSON: ${String(error)}` })
