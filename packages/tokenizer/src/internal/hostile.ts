/**
 * What a tokenizer file may not do to the process that loads it.
 *
 * Files come from strangers: an id decides how large tables are, and a regular expression how long a text takes. Both are
 * looked at before anything is built from them.
 */
import * as Predicate from "effect/Predicate"

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

interface Group {
  /** Whether a quantifier or a choice inside it can match the same text in several ways. */
  isOpen: boolean
}

const longestPattern = 20_000

/**
 * Why matching a pattern could take longer than anybody waits: a repeated group that itself repeats or chooses tries
 * exponentially many ways on a text it does not match. Patterns of real tokenizers repeat single characters and classes.
 *
 * @internal
 */
export const patternProblem = (pattern: string): string | undefined => {
  if (pattern.length > longestPattern) return `the pattern has more than ${longestPattern} characters`
  const groups: Array<Group> = [{ isOpen: false }]
  const open = (): void => {
    const top = groups.at(-1)
    if (top !== undefined) top.isOpen = true
  }
  let last: Group | undefined
  for (let i = 0; i < pattern.length; i++) {
    const char = pattern.charAt(i)
    if (char === "\\") {
      // \p{…} and the like are one class
      const braces = /^\\[pPxuk]\{[^}]*\}/.exec(pattern.slice(i, i + 80))
      i += braces === null ? 1 : braces[0].length - 1
      last = undefined
    } else if (char === "[") {
      let depth = 1
      for (i++; i < pattern.length && depth > 0; i++) {
        if (pattern.charAt(i) === "\\") i++
        else if (pattern.charAt(i) === "[") depth++
        else if (pattern.charAt(i) === "]") depth--
      }
      i--
      last = undefined
    } else if (char === "(") {
      groups.push({ isOpen: false })
      last = undefined
      // the question mark of (?: is no quantifier
      if (pattern.charAt(i + 1) === "?") i++
    } else if (char === ")") {
      last = groups.pop()
      // what a group may do, the group around it may do
      if (last?.isOpen === true) open()
      if (groups.length === 0) return "the pattern closes a group that it did not open"
    } else if (char === "|") {
      open()
      last = undefined
    } else {
      const [written, lower, comma, upper] = /^(?:[*+?]|\{(\d*)(,?)(\d*)\})/.exec(pattern.slice(i, i + 24)) ?? []
      if (written === undefined) {
        last = undefined
        continue
      }
      const most = written === "?"
        ? 1
        : comma === undefined
        ? Infinity
        : comma === ""
        ? Number(lower)
        : Number(upper || Infinity)
      if (most > 1 && last?.isOpen === true) {
        return `the pattern repeats a group that repeats or chooses, at ${i}: it can take forever on a text it does not match`
      }
      if (most > 1) open()
      i += written.length - 1
      // a quantifier after this one makes it lazy or possessive
      if (/[?+]/.test(pattern.charAt(i + 1))) i++
      last = undefined
    }
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
