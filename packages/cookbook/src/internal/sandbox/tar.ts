/**
 * Archives as they go into a sandbox and come out of it. Nothing is ever unpacked to a disk here.
 *
 * @since 0.2.0
 */

const block = 512
const encoder = new TextEncoder()
const utf8 = new TextDecoder("utf-8")

const header = (name: Uint8Array, size: number, type: string): Uint8Array => {
  const bytes = new Uint8Array(block)
  const put = (offset: number, text: string) => bytes.set(encoder.encode(text), offset)
  bytes.set(name.subarray(0, 100))
  // Everything may be run: a file that comes from outside has no permissions of its own.
  put(100, "0000755\0")
  put(108, "0000000\0")
  put(116, "0000000\0")
  put(124, `${size.toString(8).padStart(11, "0")}\0`)
  put(136, "00000000000\0")
  put(148, " ".repeat(8))
  put(156, type)
  put(257, "ustar\0" + "00")
  const sum = bytes.reduce((all, byte) => all + byte, 0)
  put(148, `${sum.toString(8).padStart(6, "0")}\0 `)
  return bytes
}

const padded = (size: number): number => Math.ceil(size / block) * block

/** An archive without the blocks of zeros that end it, so that another one can follow. */
const open = (archive: Uint8Array): Uint8Array => {
  let end = padded(archive.length)
  const zero = (from: number) => {
    for (let i = from; i < from + block; i++) if ((archive[i] ?? 0) !== 0) return false
    return true
  }
  while (end > 0 && zero(end - block)) end -= block
  return archive.subarray(0, end)
}

/**
 * An archive of files, after the entries of another archive.
 *
 * @internal
 */
export const write = (files: Iterable<readonly [path: string, data: Uint8Array]>, after?: Uint8Array): Uint8Array => {
  const parts: Array<Uint8Array> = after === undefined ? [] : [open(after)]
  const entry = (name: Uint8Array, data: Uint8Array, type: string) =>
    parts.push(header(name, data.length, type), data, new Uint8Array(padded(data.length) - data.length))
  for (const [path, data] of files) {
    const name = encoder.encode(path)
    // Names that do not fit come in an entry of their own.
    if (name.length > 100) entry(encoder.encode("././@LongLink"), encoder.encode(`${path}\0`), "L")
    entry(name, data, "0")
  }
  parts.push(new Uint8Array(2 * block))
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let offset = 0
  for (const part of parts) {
    all.set(part, offset)
    offset += part.length
  }
  return all
}

const text = (bytes: Uint8Array): string => {
  const end = bytes.indexOf(0)
  return utf8.decode(end === -1 ? bytes : bytes.subarray(0, end))
}

/** The records of an extended header that matter: a name, and a size. */
const extended = (bytes: Uint8Array): { readonly path?: string; readonly size?: number } => {
  const found: { path?: string; size?: number } = {}
  let offset = 0
  while (offset < bytes.length) {
    const record = /^(\d{1,6}) ([^=]*)=/.exec(utf8.decode(bytes.subarray(offset, offset + 100)))
    const length = Number(record?.[1] ?? 0)
    if (record === null || length <= record[0].length) return found
    const value = utf8.decode(bytes.subarray(offset + record[0].length, offset + length - 1))
    if (record[2] === "path") found.path = value
    if (record[2] === "size") found.size = Number(value)
    offset += length
  }
  return found
}

/**
 * The regular files of an archive by path, and the bytes after its end: another archive, perhaps. Nothing where it is cut
 * short or is no archive. Links, devices and directories are left out.
 *
 * @internal
 */
export const read = (
  archive: Uint8Array
): { readonly files: ReadonlyMap<string, Uint8Array>; readonly rest: Uint8Array } | undefined => {
  const files = new Map<string, Uint8Array>()
  let offset = 0
  let next: { readonly path?: string; readonly size?: number } = {}
  while (offset + block <= archive.length) {
    const head = archive.subarray(offset, offset + block)
    offset += block
    if (head.every((byte) => byte === 0)) {
      while (offset + block <= archive.length && archive.subarray(offset, offset + block).every((byte) => byte === 0)) {
        offset += block
      }
      return { files, rest: archive.subarray(offset) }
    }
    if (text(head.subarray(257, 262)) !== "ustar") return undefined
    const digits = text(head.subarray(124, 136)).trim()
    const size = next.size ?? (/^[0-7]{1,12}$/.test(digits) ? parseInt(digits, 8) : NaN)
    if (!Number.isSafeInteger(size) || size < 0 || offset + size > archive.length) return undefined
    const data = archive.subarray(offset, offset + size)
    offset += padded(size)
    const type = String.fromCharCode(head[156] ?? 0)
    if (type === "L") next = { ...next, path: text(data) }
    else if (type === "x") next = { ...next, ...extended(data) }
    else {
      const prefix = text(head.subarray(257, 265)) === "ustar" ? text(head.subarray(345, 500)) : ""
      const name = text(head.subarray(0, 100))
      // GNU's headers have times where others have the beginning of a name.
      const gnu = head[263] === 0x20
      const path = next.path ?? (prefix !== "" && !gnu ? `${prefix}/${name}` : name)
      if (type === "0" || type === "\0") files.set(path, data)
      next = {}
    }
  }
  return undefined
}
