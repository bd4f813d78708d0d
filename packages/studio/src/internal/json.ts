/**
 * Looking into JSON that others wrote: whatever is not of the wanted kind is `undefined`.
 */

/** @internal */
export type JsonObject = { readonly [key: string]: unknown }

/** @internal */
export const isObject = (u: unknown): u is JsonObject => typeof u === "object" && u !== null && !Array.isArray(u)

/** Python writes them bare, our journals as strings. */
const bare = /([:,[]\s*)(NaN|-?Infinity)(?=\s*[,}\]])/g

const words = new Map([["NaN", NaN], ["Infinity", Infinity], ["-Infinity", -Infinity]])

/** JSON, also with Python's bare NaN and Infinity; `undefined` where it is neither. @internal */
export const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    try {
      return JSON.parse(text.replace(bare, "$1\"$2\""))
    } catch {
      return undefined
    }
  }
}

/** @internal */
export const numberOf = (u: unknown): number | undefined =>
  typeof u === "number" ? u : typeof u === "string" ? words.get(u) : undefined

/** @internal */
export const textOf = (u: unknown): string | undefined => typeof u === "string" ? u : undefined

/** @internal */
export const arrayOf = (u: unknown): ReadonlyArray<unknown> => Array.isArray(u) ? u : []

/** @internal */
export const objectOf = (u: unknown): JsonObject => isObject(u) ? u : {}

/** The fields that are numbers. @internal */
export const numbersOf = (u: unknown): Array<readonly [string, number]> => {
  const found: Array<readonly [string, number]> = []
  if (!isObject(u)) return found
  for (const name of Object.keys(u)) {
    const value = numberOf(u[name])
    if (value !== undefined) found.push([name, value])
  }
  return found
}
