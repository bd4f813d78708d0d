/**
 * A tar archive of some files, in the old format every tool reads.
 */

const block = 512
const utf8 = new TextEncoder()

const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`

const header = (name: string, size: number, seconds: number): Uint8Array => {
  const bytes = new Uint8Array(block)
  const put = (at: number, text: string) => bytes.set(utf8.encode(text), at)
  put(0, name)
  put(100, octal(0o644, 8))
  put(108, octal(0, 8))
  put(116, octal(0, 8))
  put(124, octal(size, 12))
  put(136, octal(seconds, 12))
  // the checksum counts its own field as spaces
  put(148, "        ")
  put(156, "0")
  put(257, "ustar\0")
  put(263, "00")
  put(148, `${bytes.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `)
  return bytes
}

/** @internal */
export const tar = (files: ReadonlyMap<string, Uint8Array>, millis: number): Uint8Array => {
  const padded = (size: number) => Math.ceil(size / block) * block
  let total = 2 * block
  for (const content of files.values()) total += block + padded(content.length)
  const archive = new Uint8Array(total)
  let at = 0
  for (const [name, content] of files) {
    archive.set(header(name, content.length, Math.floor(millis / 1000)), at)
    archive.set(content, at + block)
    at += block + padded(content.length)
  }
  return archive
}
