/**
 * Text for terminals: widths in columns, nothing that moves the cursor, sizes and times for people.
 *
 * @since 0.1.0
 */

/** Ranges of code points that take two columns: East Asian wide and full-width forms, and pictographs. */
const wide: ReadonlyArray<readonly [from: number, to: number]> = [
  [0x1100, 0x115f],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd]
]

const combining = /^[\p{Mn}\p{Me}\p{Cf}]$/u

const charWidth = (char: string): number => {
  const code = char.codePointAt(0) ?? 0
  if (code < 0x300) return 1
  if (combining.test(char)) return 0
  return wide.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}

/** @internal */
export const width = (text: string): number => {
  let total = 0
  for (const char of text) total += charWidth(char)
  return total
}

/**
 * Text of a server is data, not instructions to the terminal: control characters become visible marks.
 *
 * @internal
 */
export const printable = (text: string): string =>
  text.replace(
    /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu,
    (char) => char === "\t" || char === "\n" || char === "\r" ? " " : "\ufffd"
  )

/**
 * The same for text of several lines, which keeps them.
 *
 * @internal
 */
export const printableLines = (text: string): string =>
  text.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, (char) => char === "\t" || char === "\n" ? char : "\ufffd")

/**
 * JSON with every control character escaped, also those that JSON itself allows.
 *
 * @internal
 */
export const json = (value: unknown, indent?: number): string =>
  JSON.stringify(value, undefined, indent).replace(
    /[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

/** Patterns of credentials: keys of Tinker and of the Hugging Face Hub, JSON web tokens, bearer headers. */
const secrets = /\b(?:tml-|hf_)[\w-]{6,}|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*|\b(Bearer\s+)[\w.~+/-]{8,}=*/gi

/**
 * A message without the secrets that a server may have echoed.
 *
 * @internal
 */
export const withoutSecrets = (text: string): string =>
  text.replace(secrets, (found, bearer: string | undefined) => `${bearer ?? found.slice(0, 3)}***`)

/**
 * A message that may have come from a server, in one line: no control characters, and no secret that was echoed.
 *
 * @internal
 */
export const safe = (text: string): string => printable(withoutSecrets(text))

/**
 * The same for text of several lines, which keeps them.
 *
 * @internal
 */
export const safeLines = (text: string): string => printableLines(withoutSecrets(text))

/** @internal */
export const truncate = (text: string, columns: number): string => {
  if (width(text) <= columns) return text
  let out = ""
  let used = 0
  for (const char of text) {
    const next = charWidth(char)
    if (used + next > columns - 1) break
    out += char
    used += next
  }
  return columns <= 0 ? "" : `${out}…`
}

/**
 * Words in lines of at most so many columns, but for words that are longer.
 *
 * @internal
 */
export const wrap = (value: string, columns: number, indent: string): string => {
  const [start = ""] = /^ */.exec(value) ?? []
  const [first = "", ...words] = value.slice(start.length).split(" ")
  const lines: Array<string> = []
  let line = `${start}${first}`
  for (const word of words) {
    if (width(`${line} ${word}`) > columns) {
      lines.push(line)
      line = word
    } else line = `${line} ${word}`
  }
  return [...lines, line].join(`\n${indent}`)
}

/**
 * Lines of at most so many columns: broken between words, and within words that are longer.
 *
 * @internal
 */
export const breakInto = (value: string, columns: number): ReadonlyArray<string> =>
  wrap(value, columns, "").split("\n").flatMap((line) => {
    const lines: Array<string> = []
    let current = ""
    for (const char of line) {
      if (current !== "" && width(current) + charWidth(char) > columns) {
        lines.push(current)
        current = ""
      }
      current += char
    }
    return [...lines, current]
  })

/** @internal */
export const pad = (text: string, columns: number, align: "left" | "right" = "left"): string => {
  const space = " ".repeat(Math.max(0, columns - width(text)))
  return align === "left" ? `${text}${space}` : `${space}${text}`
}

const units = ["B", "KB", "MB", "GB", "TB", "PB", "EB"]

/** @internal */
export const size = (bytes: number | undefined): string => {
  if (bytes === undefined || bytes < 0) return "-"
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

/** @internal */
export const count = (n: number, noun: string): string => `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`

/** @internal */
export const duration = (milliseconds: number): string => {
  const seconds = Math.round(Math.abs(milliseconds) / 1000)
  if (seconds < 60) return plural(seconds, "second")
  if (seconds < 3600) return plural(Math.floor(seconds / 60), "minute")
  if (seconds < 86_400) return plural(Math.floor(seconds / 3600), "hour")
  if (seconds < 14 * 86_400) return plural(Math.floor(seconds / 86_400), "day")
  return plural(Math.floor(seconds / (7 * 86_400)), "week")
}

/**
 * A time relative to now, as a date when that is clearer.
 *
 * @internal
 */
export const ago = (time: number | undefined, now: number): string => {
  if (time === undefined || Number.isNaN(time)) return "-"
  const distance = now - time
  if (Math.abs(distance) < 60_000) return distance >= 0 ? "just now" : "in less than a minute"
  if (Math.abs(distance) > 30 * 86_400_000) return new Date(time).toISOString().slice(0, 10)
  return distance > 0 ? `${duration(distance)} ago` : `in ${duration(distance)}`
}

/** @internal */
export const yesNo = (value: boolean | undefined): string => value === undefined ? "-" : value ? "yes" : "no"
