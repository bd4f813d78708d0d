/**
 * How deep JSON may be. What reads a value (schemas, hashes, templates) calls itself for each level, so a body of brackets
 * would end the stack.
 */

/** Deeper than any request of a client: schemas of tools have about ten levels. @internal */
export const maxNesting = 100

/** Whether a text has more open brackets at once than allowed, without reading it as JSON. @internal */
export const isTooDeep = (text: string): boolean => {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) {
      // A string, up to its quote.
      for (i++; i < text.length && text.charCodeAt(i) !== 0x22; i++) if (text.charCodeAt(i) === 0x5c) i++
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth > maxNesting) return true
    } else if (code === 0x5d || code === 0x7d) depth--
  }
  return false
}
