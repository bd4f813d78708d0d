/**
 * Byte chunks as they arrive from a connection.
 *
 * @since 0.1.0
 */

/**
 * All chunks in one array; a single chunk is not copied.
 *
 * @internal
 */
export const concat = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const only = chunks[0]
  if (chunks.length === 1 && only !== undefined) return only
  const all = new Uint8Array(size)
  let offset = 0
  for (const chunk of chunks) {
    all.set(chunk, offset)
    offset += chunk.length
  }
  return all
}
