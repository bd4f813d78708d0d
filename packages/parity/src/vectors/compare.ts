/**
 * Two values, one from each side: the same, or where they first differ.
 */
import { DateTime, Redacted } from "effect"
import { TensorData } from "effect-tinker"

const isRecord = (u: unknown): u is Record<string, unknown> => typeof u === "object" && u !== null && !Array.isArray(u)

const show = (u: unknown): string => (JSON.stringify(u) ?? "nothing").slice(0, 120)

const instant = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})?$/

/** Milliseconds of an ISO instant, in UTC when it names no zone. */
const millis = (u: unknown): number | undefined => {
  const match = typeof u === "string" ? instant.exec(u) : null
  return match === null ? undefined : Date.parse(`${match[0]}${match[2] === undefined ? "Z" : ""}`)
}

/** Numbers JSON cannot hold are text in the corpus. */
const special = new Map<unknown, number>([["NaN", NaN], ["Infinity", Infinity], ["-Infinity", -Infinity]])

const difference = (path: string, expected: unknown, actual: unknown): string =>
  `${path || "value"}: ${show(expected)} there, ${show(actual)} here`

/**
 * JSON by value and by presence of every key. Instants are the same when they are so to the millisecond, which is as
 * far as a JavaScript date goes.
 */
export const compareJson = (expected: unknown, actual: unknown, path = ""): string | undefined => {
  if (Array.isArray(expected) && Array.isArray(actual)) {
    if (expected.length !== actual.length) return difference(`${path}.length`, expected.length, actual.length)
    for (let i = 0; i < expected.length; i++) {
      const found = compareJson(expected[i], actual[i], `${path}[${i}]`)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (isRecord(expected) && isRecord(actual)) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      if (!Object.hasOwn(expected, key)) return `${path}.${key}: not there, ${show(actual[key])} here`
      if (!Object.hasOwn(actual, key)) return `${path}.${key}: ${show(expected[key])} there, not here`
      const found = compareJson(expected[key], actual[key], `${path}.${key}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (expected === actual) return undefined
  const at = millis(expected)
  return at !== undefined && at === millis(actual) ? undefined : difference(path, expected, actual)
}

const snake = (key: string): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Whether the keys of a value are our names of fields, rather than data. */
const isNoun = (u: object): boolean => Object.getPrototypeOf(u) !== Object.prototype

/**
 * A decoded value of ours beside the Python value in JSON: our camelCase names for its names, instants for its texts,
 * typed arrays for its lists, absent for its nulls. `type` tags say nothing and are left out.
 */
export const compareValue = (expected: unknown, actual: unknown, path = ""): string | undefined => {
  if (Redacted.isRedacted(actual)) return compareValue(expected, Redacted.value(actual), path)
  if (DateTime.isDateTime(actual)) {
    const at = DateTime.toEpochMillis(actual)
    return at === millis(expected) ? undefined : difference(path, expected, DateTime.formatIso(actual))
  }
  if (TensorData.isTensorData(actual)) {
    const numbers = (values: ArrayLike<number | bigint> | undefined) =>
      values === undefined ? undefined : Array.from(values, Number)
    return compareValue(expected, {
      data: numbers(actual.data),
      dtype: actual.dtype,
      shape: actual.shape,
      sparse_crow_indices: numbers(actual.crowIndices),
      sparse_col_indices: numbers(actual.colIndices)
    }, path)
  }
  if (Array.isArray(expected) && (Array.isArray(actual) || ArrayBuffer.isView(actual))) {
    const list = Array.isArray(actual) ? actual : Array.from(actual as Int32Array | Float32Array)
    if (expected.length !== list.length) return difference(`${path}.length`, expected.length, list.length)
    for (let i = 0; i < expected.length; i++) {
      const found = compareValue(expected[i], list[i], `${path}[${i}]`)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (isRecord(expected) && isRecord(actual)) {
    const named = isNoun(actual)
    const ours = new Map(
      Object.entries(actual).flatMap(([key, value]) =>
        value === undefined ? [] : [[named ? snake(key) : key, value] as const]
      )
    )
    for (const key of new Set([...Object.keys(expected), ...ours.keys()])) {
      if (key === "type" && named) continue
      const found = compareValue(expected[key] ?? undefined, ours.get(key) ?? undefined, `${path}.${key}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  return Object.is(special.get(expected) ?? expected ?? undefined, actual ?? undefined) || expected === actual
    ? undefined
    : difference(path, expected, actual)
}
