/**
 * An incremental tar reader. It accepts regular files and directories only, and checks every header before its body
 * is passed on, so a consumer never sees a member it must not write.
 *
 * @since 0.1.0
 */

type RefusalReason =
  | "absolute-path"
  | "escaping-path"
  | "unsafe-name"
  | "link"
  | "special-file"
  | "duplicate"
  | "too-many-entries"
  | "too-large"
  | "truncated"
  | "malformed"
  | "unsupported"

/** @internal */
export interface Refusal {
  readonly reason: RefusalReason
  readonly description: string
  readonly entry?: string | undefined
}

/** @internal */
export type TarEvent =
  | { readonly _tag: "Directory"; readonly path: ReadonlyArray<string> }
  | { readonly _tag: "File"; readonly path: ReadonlyArray<string>; readonly size: number }
  | { readonly _tag: "Data"; readonly bytes: Uint8Array }
  | { readonly _tag: "FileEnd" }

/** @internal */
export interface Limits {
  readonly maxEntries: number
  readonly maxTotalBytes: number
}

interface TarReader {
  /** Appends the events of these bytes to `out`; what it returns is why the archive is refused. */
  readonly push: (bytes: Uint8Array, out: Array<TarEvent>) => Refusal | undefined
  /** Call it when the input has ended. */
  readonly end: () => Refusal | undefined
}

const block = 512
/** Names and extended headers are small; a larger one is an attempt to fill the memory. */
const maxMetaBytes = 64 * 1024
const maxNameLength = 1024
const maxDepth = 32

const latin = new TextDecoder("latin1")
const utf8 = new TextDecoder("utf-8", { fatal: true })

const text = (bytes: Uint8Array): string | undefined => {
  const end = bytes.indexOf(0)
  try {
    return utf8.decode(end === -1 ? bytes : bytes.subarray(0, end))
  } catch {
    return undefined
  }
}

const octal = (bytes: Uint8Array): number | undefined => {
  const first = bytes[0] ?? 0
  if (first >= 0x80) {
    // GNU's base-256 form; the bit after the marker is a sign, and no length is negative
    if ((first & 0x40) !== 0) return undefined
    let value = first & 0x3f
    for (let i = 1; i < bytes.length; i++) {
      value = value * 256 + (bytes[i] ?? 0)
      if (value > Number.MAX_SAFE_INTEGER) return undefined
    }
    return value
  }
  const digits = latin.decode(bytes).replace(/[\0 ].*$/s, (rest) => /^[\0 ]*$/.test(rest) ? "" : rest)
  if (digits === "") return 0
  const trimmed = digits.trim()
  return /^[0-7]+$/.test(trimmed) ? parseInt(trimmed, 8) : undefined
}

const isZero = (bytes: Uint8Array): boolean => {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) return false
  return true
}

const checksumMatches = (header: Uint8Array): boolean => {
  let sum = 0
  for (let i = 0; i < block; i++) sum += i >= 148 && i < 156 ? 32 : header[i] ?? 0
  return octal(header.subarray(148, 156)) === sum
}

/**
 * The segments of a member's name, or why it is refused. A name that would need resolving to be judged (`..`, drive
 * letters, backslashes) is refused outright, even where it would resolve to a place inside.
 *
 * @internal
 */
export const safePath = (name: string): ReadonlyArray<string> | Refusal => {
  const refuse = (reason: RefusalReason, description: string): Refusal => ({ reason, description, entry: name })
  if (name.startsWith("/") || name.startsWith("\\") || /^[A-Za-z]:/.test(name)) {
    return refuse("absolute-path", "a member has an absolute path")
  }
  if (name.length > maxNameLength) return refuse("unsafe-name", "a member's name is too long")
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i)
    if (code < 32 || code === 127) return refuse("unsafe-name", "a member's name has control characters")
  }
  if (name.includes("\\")) return refuse("unsafe-name", "a member's name has a backslash")
  const segments = name.split("/").filter((segment) => segment !== "" && segment !== ".")
  if (segments.includes("..")) return refuse("escaping-path", "a member's path leaves the target directory")
  if (segments.length > maxDepth) return refuse("unsafe-name", "a member is nested too deeply")
  return segments
}

/** @internal */
export const isRefusal = (value: object | undefined): value is Refusal => value !== undefined && "reason" in value

const parsePax = (bytes: Uint8Array): ReadonlyMap<string, string> | undefined => {
  const records = new Map<string, string>()
  let offset = 0
  while (offset < bytes.length) {
    const space = bytes.indexOf(32, offset)
    if (space === -1) return undefined
    const digits = latin.decode(bytes.subarray(offset, space))
    const length = /^[1-9]\d{0,5}$/.test(digits) ? Number(digits) : 0
    const end = offset + length
    if (end <= space + 1 || end > bytes.length || bytes[end - 1] !== 10) return undefined
    const record = text(bytes.subarray(space + 1, end - 1))
    const equals = record?.indexOf("=") ?? -1
    if (record === undefined || equals < 1) return undefined
    records.set(record.slice(0, equals), record.slice(equals + 1))
    offset = end
  }
  return records
}

type Mode = "header" | "file" | "meta" | "padding" | "ended"

/** @internal */
export const makeReader = (limits: Limits): TarReader => {
  const header = new Uint8Array(block)
  let filled = 0
  let mode: Mode = "header"
  let remaining = 0
  let padding = 0
  let meta = { kind: "", bytes: new Uint8Array(0), filled: 0 }
  let metaInARow = 0
  let pax: ReadonlyMap<string, string> = new Map()
  let longName: string | undefined
  let entries = 0
  let total = 0
  const files = new Set<string>()
  const directories = new Set<string>()

  const body = (size: number, next: "file" | "meta"): void => {
    remaining = size
    padding = (block - (size % block)) % block
    mode = size === 0 ? "header" : next
  }

  const onHeader = (out: Array<TarEvent>): Refusal | undefined => {
    if (isZero(header)) {
      mode = "ended"
      return metaInARow === 0
        ? undefined
        : { reason: "truncated", description: "the archive ends after the extended header of a member" }
    }
    if (!checksumMatches(header)) return { reason: "malformed", description: "a header's checksum is wrong" }
    const isPosix = latin.decode(header.subarray(257, 263)) === "ustar\0"
    const short = text(header.subarray(0, 100))
    const prefix = isPosix ? text(header.subarray(345, 500)) : ""
    const declared = octal(header.subarray(124, 136))
    const kind = String.fromCharCode(header[156] ?? 0)
    if (short === undefined || prefix === undefined || declared === undefined) {
      return { reason: "malformed", description: "a header cannot be read" }
    }
    if (kind === "x" || kind === "L" || kind === "g") {
      if (declared > maxMetaBytes) return { reason: "too-large", description: "an extended header is too large" }
      if (declared === 0 || ++metaInARow > 4) {
        return { reason: "malformed", description: "an extended header is misused" }
      }
      meta = { kind, bytes: new Uint8Array(declared), filled: 0 }
      body(declared, "meta")
      return undefined
    }
    metaInARow = 0
    const paxSize = pax.get("size")
    const size = paxSize === undefined ? declared : /^\d{1,15}$/.test(paxSize) ? Number(paxSize) : undefined
    const entry = pax.get("path") ?? longName ?? (prefix === "" ? short : `${prefix}/${short}`)
    const sparse = [...pax.keys()].some((key) => key.startsWith("GNU.sparse"))
    pax = new Map()
    longName = undefined
    if (++entries > limits.maxEntries) {
      return {
        reason: "too-many-entries",
        description: `the archive has more than ${limits.maxEntries} members`,
        entry
      }
    }
    if (size === undefined) return { reason: "malformed", description: "a member's length cannot be read", entry }
    if (kind === "1" || kind === "2" || kind === "K") {
      return { reason: "link", description: "a member is a link", entry }
    }
    if (kind === "3" || kind === "4" || kind === "6") {
      return { reason: "special-file", description: "a member is a device or a pipe", entry }
    }
    if (sparse || !["0", "\0", "5", "7"].includes(kind)) {
      return { reason: "unsupported", description: `a member has the unsupported type ${JSON.stringify(kind)}`, entry }
    }
    // The directory that everything lies in, as some writers name it: there is nothing to make.
    if (kind === "5" && size === 0 && /^[./]*$/.test(entry) && !entry.includes("..")) return undefined
    const path = safePath(entry)
    if (isRefusal(path)) return path
    const key = path.join("/")
    for (let depth = 1; depth < path.length; depth++) {
      const parent = path.slice(0, depth).join("/")
      if (files.has(parent)) return { reason: "duplicate", description: "a file is also used as a directory", entry }
      directories.add(parent)
    }
    if (files.has(key)) return { reason: "duplicate", description: "a name occurs twice", entry }
    // Old archives mark a directory by its trailing slash alone.
    if (kind === "5" || entry.endsWith("/")) {
      if (size !== 0) return { reason: "malformed", description: "a directory has contents", entry }
      directories.add(key)
      if (path.length > 0) out.push({ _tag: "Directory", path })
      return undefined
    }
    if (path.length === 0) return { reason: "unsafe-name", description: "a file has no name", entry }
    if (directories.has(key)) return { reason: "duplicate", description: "a directory is also a file", entry }
    files.add(key)
    total += size
    if (total > limits.maxTotalBytes) {
      return { reason: "too-large", description: `the archive's files exceed ${limits.maxTotalBytes} bytes`, entry }
    }
    out.push({ _tag: "File", path, size })
    if (size === 0) out.push({ _tag: "FileEnd" })
    body(size, "file")
    return undefined
  }

  const onMeta = (): Refusal | undefined => {
    if (meta.kind === "L") {
      longName = text(meta.bytes)
      return longName === undefined || longName === ""
        ? { reason: "malformed", description: "a long name cannot be read" }
        : undefined
    }
    const records = parsePax(meta.bytes)
    if (records === undefined) return { reason: "malformed", description: "an extended header cannot be read" }
    // A global header describes the whole archive; nothing in it is needed here.
    if (meta.kind === "x") pax = records
    return undefined
  }

  return {
    push: (bytes, out) => {
      let offset = 0
      while (offset < bytes.length && mode !== "ended") {
        const wanted = mode === "header" ? block - filled : remaining
        const part = bytes.subarray(offset, offset + wanted)
        offset += part.length
        let refusal: Refusal | undefined
        if (mode === "header") {
          header.set(part, filled)
          filled += part.length
          if (filled < block) break
          filled = 0
          refusal = onHeader(out)
        } else {
          remaining -= part.length
          if (mode === "file") out.push({ _tag: "Data", bytes: part })
          else if (mode === "meta") {
            meta.bytes.set(part, meta.filled)
            meta.filled += part.length
          }
          if (remaining > 0) break
          if (mode === "file") out.push({ _tag: "FileEnd" })
          else if (mode === "meta") refusal = onMeta()
          remaining = mode === "padding" ? 0 : padding
          mode = remaining === 0 ? "header" : "padding"
        }
        if (refusal !== undefined) return refusal
      }
      return undefined
    },
    end: () =>
      mode === "ended"
        ? undefined
        : { reason: "truncated", description: entries === 0 ? "the archive is empty" : "the archive ends too early" }
  }
}
