/**
 * How Python prints values: chat templates are written against it, and a differing space is a differing prompt.
 */
import * as Predicate from "effect/Predicate"

/**
 * A value inside the template engine.
 *
 * @internal
 */
export interface RuntimeValue {
  readonly type: string
  readonly value: unknown
}

const isRuntimeValue = (u: unknown): u is RuntimeValue =>
  Predicate.hasProperty(u, "type") && Predicate.isString(u.type) && Predicate.hasProperty(u, "value")

const items = (value: unknown): ReadonlyArray<RuntimeValue> => Array.isArray(value) ? value.filter(isRuntimeValue) : []

const entries = (value: unknown): Array<readonly [string, RuntimeValue]> =>
  value instanceof Map
    ? Array.from(value).flatMap(([key, value]) => isRuntimeValue(value) ? [[String(key), value] as const] : [])
    : []

/** `repr(float)`: the exponent starts earlier than in JavaScript and has two digits. */
const float = (value: number): string => {
  if (Number.isNaN(value)) return "nan"
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf"
  if (Object.is(value, -0)) return "-0.0"
  const [digits = "", power = "0"] = value.toExponential().split("e")
  const exponent = Number(power)
  if (exponent < -4 || exponent >= 16) {
    return `${digits}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`
  }
  if (Number.isInteger(value)) return `${value}.0`
  // JavaScript writes this range without an exponent down to 1e-6
  return String(value)
}

const quote = (text: string): string => {
  const mark = text.includes("'") && !text.includes("\"") ? "\"" : "'"
  let out = ""
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0
    if (char === mark || char === "\\") out += `\\${char}`
    else if (char === "\n") out += "\\n"
    else if (char === "\r") out += "\\r"
    else if (char === "\t") out += "\\t"
    else if (code < 32 || (code >= 127 && code < 161)) out += `\\x${code.toString(16).padStart(2, "0")}`
    else out += char
  }
  return `${mark}${out}${mark}`
}

const repr = (value: RuntimeValue): string => value.type === "StringValue" ? quote(String(value.value)) : str(value)

/**
 * `str(value)`; undefined prints nothing, as Jinja has it.
 *
 * @internal
 */
export const str = (value: RuntimeValue): string => {
  switch (value.type) {
    case "UndefinedValue":
      return ""
    case "NullValue":
      return "None"
    case "BooleanValue":
      return value.value === true ? "True" : "False"
    case "FloatValue":
      return float(Number(value.value))
    case "ArrayValue":
      return `[${items(value.value).map(repr).join(", ")}]`
    case "TupleValue": {
      const parts = items(value.value).map(repr)
      return parts.length === 1 ? `(${parts[0]},)` : `(${parts.join(", ")})`
    }
    case "ObjectValue":
    case "KeywordArgumentsValue":
      return `{${entries(value.value).map(([key, value]) => `${quote(key)}: ${repr(value)}`).join(", ")}}`
    default:
      return String(value.value)
  }
}

/** @internal */
export interface JsonOptions {
  readonly indent: number | undefined
  readonly ensureAscii: boolean
  readonly sortKeys: boolean
  readonly separators: readonly [item: string, key: string] | undefined
}

/**
 * `json.dumps`, by default without escaping other scripts, as transformers sets its filter up.
 *
 * @internal
 */
export const json = (value: RuntimeValue, options: JsonOptions, depth = 0): string => {
  const [itemSeparator, keySeparator] = options.separators ?? [options.indent === undefined ? ", " : ",", ": "]
  const block = (open: string, parts: ReadonlyArray<string>, close: string): string => {
    if (parts.length === 0) return open + close
    if (options.indent === undefined) return open + parts.join(itemSeparator) + close
    const outer = "\n" + " ".repeat(options.indent * depth)
    const inner = outer + " ".repeat(options.indent)
    return open + inner + parts.join(itemSeparator + inner) + outer + close
  }
  const string = (text: string): string => {
    const quoted = JSON.stringify(text)
    return options.ensureAscii
      ? quoted.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
      : quoted
  }
  switch (value.type) {
    case "UndefinedValue":
      throw new Error("Object of type Undefined is not JSON serializable")
    case "NullValue":
      return "null"
    case "BooleanValue":
      return String(value.value)
    case "IntegerValue":
      return String(value.value)
    case "FloatValue":
      return float(Number(value.value))
    case "ArrayValue":
    case "TupleValue":
      return block("[", items(value.value).map((item) => json(item, options, depth + 1)), "]")
    case "ObjectValue": {
      const list = entries(value.value)
      if (options.sortKeys) list.sort(([left], [right]) => left < right ? -1 : left > right ? 1 : 0)
      return block("{", list.map(([key, item]) => string(key) + keySeparator + json(item, options, depth + 1)), "}")
    }
    case "StringValue":
      return string(String(value.value))
    default:
      throw new Error(`a ${value.type} cannot be written as JSON`)
  }
}

const whitespace = /[\p{White_Space}\u001c-\u001f]/u

/**
 * `str.strip`, `lstrip` and `rstrip`.
 *
 * @internal
 */
export const strip = (text: string, side: "both" | "left" | "right", chars: string | undefined): string => {
  const list = Array.from(text)
  const set = chars === undefined ? undefined : new Set(chars)
  const drops = (char: string | undefined) =>
    char !== undefined && (set === undefined ? whitespace.test(char) : set.has(char))
  let start = 0
  let end = list.length
  if (side !== "right") { while (start < end && drops(list[start])) start++ }
  if (side !== "left") { while (end > start && drops(list[end - 1])) end-- }
  return list.slice(start, end).join("")
}

const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
const months = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December"
]

/** @internal */
export const strftime = (date: Date, format: string): string => {
  const two = (n: number) => String(n).padStart(2, "0")
  const day = days[date.getDay()] ?? ""
  const month = months[date.getMonth()] ?? ""
  return format.replace(/%(-?[A-Za-z%])/g, (_, directive: string) => {
    switch (directive) {
      case "%":
        return "%"
      case "Y":
        return String(date.getFullYear())
      case "y":
        return two(date.getFullYear() % 100)
      case "m":
        return two(date.getMonth() + 1)
      case "d":
        return two(date.getDate())
      case "-d":
        return String(date.getDate())
      case "-m":
        return String(date.getMonth() + 1)
      case "B":
        return month
      case "b":
        return month.slice(0, 3)
      case "A":
        return day
      case "a":
        return day.slice(0, 3)
      case "H":
        return two(date.getHours())
      case "I":
        return two(date.getHours() % 12 === 0 ? 12 : date.getHours() % 12)
      case "M":
        return two(date.getMinutes())
      case "S":
        return two(date.getSeconds())
      case "p":
        return date.getHours() < 12 ? "AM" : "PM"
      default:
        throw new Error(`strftime_now does not know %${directive}`)
    }
  })
}
