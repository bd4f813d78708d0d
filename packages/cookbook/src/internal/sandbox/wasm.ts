/**
 * The upper limit of a WebAssembly module's own memory, set from outside.
 *
 * @since 0.2.0
 */

const number = (bytes: Uint8Array, offset: number): readonly [value: number, next: number] => {
  let value = 0
  for (let shift = 0; shift < 35; shift += 7) {
    const byte = bytes[offset++] ?? 0
    value += (byte & 0x7f) * 2 ** shift
    if (byte < 0x80) break
  }
  return [value, offset]
}

const encoded = (value: number): Array<number> => {
  const bytes: Array<number> = []
  for (; value >= 0x80; value = Math.floor(value / 0x80)) bytes.push(value % 0x80 + 0x80)
  return [...bytes, value]
}

/**
 * The module with this many pages of 64 KiB as the most its memory can ever have, and the pages it starts with. Nothing for
 * bytes that are no module with one memory of its own.
 *
 * @internal
 */
export const limitMemory = (
  module: Uint8Array,
  pages: number
): { readonly bytes: Uint8Array<ArrayBuffer>; readonly initial: number } | undefined => {
  let offset = 8
  while (offset < module.length) {
    const [size, start] = number(module, offset + 1)
    if (module[offset] === 5) {
      const [count, flags] = number(module, start)
      const [initial] = number(module, flags + 1)
      if (count !== 1) return undefined
      const section = [1, 1, ...encoded(initial), ...encoded(pages)]
      const head = [5, ...encoded(section.length), ...section]
      const rest = module.subarray(start + size)
      const bytes = new Uint8Array(offset + head.length + rest.length)
      bytes.set(module.subarray(0, offset))
      bytes.set(head, offset)
      bytes.set(rest, offset + head.length)
      return { bytes, initial }
    }
    offset = start + size
  }
  return undefined
}
