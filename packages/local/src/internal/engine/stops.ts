/**
 * When a sequence is over: a token from a set, or the bytes of a string at its end.
 */
import * as Either from "effect/Either"
import type { Params } from "../../LocalSampler.js"
import * as LocalTokenizer from "../../LocalTokenizer.js"
import { invalid } from "./tensors.js"
import type { Checked } from "./tensors.js"

/** @internal */
export interface Stops {
  readonly tokens: ReadonlySet<number>
  readonly strings: ReadonlyArray<Uint8Array>
  /** The length of the longest string in bytes. */
  readonly longest: number
}

const encoder = new TextEncoder()

/** @internal */
export const checkStops = (stop: Params["stop"]): Checked<Stops> => {
  const given: ReadonlyArray<string | number> = stop === undefined
    ? LocalTokenizer.endTokens
    : typeof stop === "string"
    ? [stop]
    : stop
  const tokens = new Set<number>()
  const strings: Array<Uint8Array> = []
  for (const item of given) {
    if (typeof item === "number") {
      if (!Number.isInteger(item)) return invalid(`stop: ${item} is not a token`)
      tokens.add(item)
    } else if (item === "") return invalid("stop: an empty string would stop everything")
    else strings.push(encoder.encode(item))
  }
  return Either.right({ tokens, strings, longest: strings.reduce((most, { length }) => Math.max(most, length), 0) })
}

/** Follows one sequence; `push` says whether the token ends it. @internal */
export const makeStopWatch = (stops: Stops): { readonly push: (token: number) => boolean } => {
  let tail: Array<number> = []
  const endsAt = (string: Uint8Array, end: number): boolean => {
    const start = end - string.length
    return start >= 0 && string.every((byte, index) => tail[start + index] === byte)
  }
  return {
    push: (token) => {
      if (stops.tokens.has(token)) return true
      if (stops.longest === 0) return false
      const before = tail.length
      tail.push(...LocalTokenizer.tokenBytes(token))
      for (let end = before + 1; end <= tail.length; end++) {
        if (stops.strings.some((string) => endsAt(string, end))) return true
      }
      if (tail.length > stops.longest) tail = tail.slice(-stops.longest)
      return false
    }
  }
}
