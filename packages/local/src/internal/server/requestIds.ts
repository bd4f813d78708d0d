/**
 * The ids of a training request in protobuf, read without its schema: a request that does not fit it still gives its number
 * back. The decoder of the wire format refuses such a request as a whole.
 */

const varint = (bytes: Uint8Array, from: number): readonly [value: number, next: number] => {
  let value = 0
  for (let at = from, scale = 1; at < bytes.length && at < from + 10; at++, scale *= 128) {
    const byte = bytes[at] ?? 0
    value += (byte & 0x7f) * scale
    if (byte < 0x80) return [value, at + 1]
  }
  return [value, bytes.length]
}

/** The model and the number of a request, fields 1 and 2, whatever else is wrong with it. @internal */
export const readIds = (bytes: Uint8Array): { readonly modelId: unknown; readonly seqId: unknown } => {
  let modelId: string | undefined
  let seqId: number | undefined
  for (let at = 0; at < bytes.length && (modelId === undefined || seqId === undefined);) {
    const [tag, start] = varint(bytes, at)
    const [value, next] = varint(bytes, start)
    if (tag === 16) seqId = value
    if (tag === 10) modelId = new TextDecoder().decode(bytes.subarray(next, next + value))
    if ((tag & 7) !== 0 && (tag & 7) !== 2) break
    at = (tag & 7) === 2 ? next + value : next
  }
  return { modelId, seqId }
}
