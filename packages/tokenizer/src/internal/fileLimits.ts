/**
 * Limits that protect a process from the tokenizer file it loads.
 *
 * Files come from strangers: an id decides how large tables are, and a regular expression how long a text takes. Both are
 * looked at before anything is built from them.
 */
import * as Predicate from "effect/Predicate"
import { patternProblem } from "./patterns.js"

/**
 * The highest id a vocabulary of this many entries may use. Real ones leave gaps: for tokens to come, or up to the next
 * round number.
 */
const highestId = (entries: number): number => 2 * entries + 131_072

/**
 * The first id that is no id of a vocabulary of this size, in words.
 *
 * @internal
 */
export const idProblem = (ids: Iterable<unknown>, entries: number): string | undefined => {
  const limit = highestId(entries)
  for (const id of ids) {
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0) return `the id ${String(id)} is not a whole number`
    if (id > limit) return `the id ${id} is out of proportion to a vocabulary of ${entries} entries`
  }
  return undefined
}

const deepest = 64

/**
 * The first pattern below a part of a tokenizer that must not be run, or anything nested too deep to be one.
 *
 * @internal
 */
export const partProblem = (part: unknown, depth = 0): string | undefined => {
  if (typeof part !== "object" || part === null) return undefined
  if (depth > deepest) return `its parts are nested more than ${deepest} deep`
  for (const [key, value] of Object.entries(part)) {
    const problem = key === "Regex" && Predicate.isString(value) ? patternProblem(value) : partProblem(value, depth + 1)
    if (problem !== undefined) return problem
  }
  return undefined
}
