/**
 * Arguments of tool calls, which are JSON text: taken apart and written as Python writes them, with numbers as they are
 * (`1.0` stays `1.0`) and fields in their order.
 */
import { jsonProblem } from "./format.js"

/**
 * The strings, marks and words of JSON text.
 *
 * @internal
 */
export const lexemes = (json: string): ReadonlyArray<string> =>
  json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g) ?? []

const join = (parts: ReadonlyArray<string>): string =>
  parts.map((part) =>
    part === "," || part === ":" ? `${part} ` : part.startsWith("\"") ? JSON.stringify(JSON.parse(part)) : part
  ).join("")

/**
 * JSON text as `json.dumps(…, ensure_ascii=False)` would write it; other text as it is.
 *
 * @internal
 */
export const pythonJson = (text: string): string => jsonProblem(text) === undefined ? join(lexemes(text)) : text

/** @internal */
export interface Field {
  readonly name: string
  /** The text itself of a string; none of anything else. */
  readonly text: string | undefined
  readonly json: string
}

/**
 * The fields of an object in their order; `undefined` when the text is no JSON object.
 *
 * @internal
 */
export const fields = (source: string): ReadonlyArray<Field> | undefined => {
  if (jsonProblem(source) !== undefined) return undefined
  const [open, ...parts] = lexemes(source)
  if (open !== "{") return undefined
  const found: Array<Field> = []
  let depth = 1
  let from = 0
  parts.forEach((part, i) => {
    if (part === "{" || part === "[") depth++
    else if (part === "}" || part === "]") depth--
    if (depth > 1 || (depth === 1 && part !== ",")) return
    if (i > from) {
      // the name and its colon come first
      const value = parts.slice(from + 2, i)
      const [only = ""] = value
      found.push({
        name: String(JSON.parse(parts[from] ?? "")),
        text: only.startsWith("\"") ? String(JSON.parse(only)) : undefined,
        json: join(value)
      })
    }
    from = i + 1
  })
  return found
}

/**
 * JSON text without spaces and with its keys in order, numbers as they are written; other text as it is.
 *
 * @internal
 */
export const compactSortedJson = (source: string): string => {
  if (jsonProblem(source) !== undefined) return source
  const parts = lexemes(source)
  let at = 0
  const list = (close: string, read: () => string): ReadonlyArray<string> => {
    const items: Array<string> = []
    while (parts[at] !== close) {
      items.push(read())
      if (parts[at] === ",") at++
    }
    at++
    return items
  }
  const value = (): string => {
    const part = parts[at++] ?? ""
    if (part === "[") return `[${list("]", value).join(",")}]`
    if (part === "{") {
      const member = (): string => {
        const key = JSON.stringify(JSON.parse(parts[at] ?? ""))
        at += 2
        return `${key}:${value()}`
      }
      return `{${[...list("}", member)].sort((left, right) => left < right ? -1 : 1).join(",")}}`
    }
    return part.startsWith("\"") ? JSON.stringify(JSON.parse(part)) : part
  }
  return value()
}
