/**
 * Byte arrays put together and compared.
 *
 * @since 0.2.0
 */

/**
 * Parts as one array. A single part is given back as it is, without a copy.
 *
 * @since 0.2.0
 * @category combinators
 */
export const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [only] = parts
  if (only !== undefined && parts.length === 1) return only
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

/**
 * Whether two arrays have the same content.
 *
 * @since 0.2.0
 * @category predicates
 */
export const equals = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, i) => byte === b[i])

/**
 * Whether two texts are the same, compared in a time that says nothing about where they differ: for keys.
 *
 * @since 0.2.0
 * @category predicates
 */
export const equalSecrets = (presented: string, secret: string): boolean => {
  let difference = presented.length ^ secret.length
  for (let i = 0; i < secret.length; i++) {
    difference |= presented.charCodeAt(i % Math.max(1, presented.length)) ^ secret.charCodeAt(i)
  }
  return difference === 0
}
