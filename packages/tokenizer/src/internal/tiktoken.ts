/**
 * Vocabularies written as lines of `base64(token) rank`: tokens are merged in the order of the merged token's rank.
 */
import * as Either from "effect/Either"
import * as Encoding from "effect/Encoding"
import type { Parts } from "./bpe.js"
import { spell } from "./bytes.js"
import { idProblem } from "./fileLimits.js"
import * as Library from "./library.js"
import { PairTable } from "./pairTable.js"

/** @internal */
export interface Ranks {
  /** Indexed by rank. */
  readonly tokens: ReadonlyArray<Uint8Array | undefined>
  readonly size: number
}

/** @internal */
export const parseRanks = (text: string): Either.Either<Ranks, string> => {
  const lines = text.split("\n").length
  const tokens: Array<Uint8Array | undefined> = []
  let size = 0
  let line = 0
  for (let start = 0; start < text.length;) {
    let end = text.indexOf("\n", start)
    if (end < 0) end = text.length
    const entry = text.slice(start, end).trim()
    start = end + 1
    line++
    if (entry === "") continue
    const space = entry.indexOf(" ")
    const rank = Number(entry.slice(space + 1))
    const token = Encoding.decodeBase64(entry.slice(0, Math.max(0, space)))
    if (space <= 0 || !Number.isInteger(rank) || rank < 0 || Either.isLeft(token) || token.right.length === 0) {
      return Either.left(`line ${line} is not "base64 rank"`)
    }
    const problem = idProblem([rank], lines)
    if (problem !== undefined) return Either.left(`line ${line}: ${problem}`)
    while (tokens.length < rank) tokens.push(undefined)
    tokens[rank] = token.right
    size++
  }
  return size === 0 ? Either.left("it has no ranks") : Either.right({ tokens, size })
}

/** @internal */
export const partsOf = (ranks: Ranks, pattern: string): Either.Either<Parts, string> => {
  const compiled = Library.compilePattern({ Regex: pattern })
  if (compiled === null) return Either.left("the pattern does not compile")
  const ids = new Map<string, number>()
  ranks.tokens.forEach((token, rank) => {
    if (token !== undefined) ids.set(spell(token, 0, token.length), rank)
  })
  const byteIds = new Int32Array(256)
  for (let byte = 0; byte < 256; byte++) {
    const id = ids.get(spell(Uint8Array.of(byte), 0, 1))
    if (id === undefined) return Either.left(`the byte ${byte} has no rank`)
    byteIds[byte] = id
  }
  const pairs = new PairTable(ranks.size * 3)
  for (const [token, rank] of ids) {
    for (let cut = 1; cut < token.length; cut++) {
      const left = ids.get(token.slice(0, cut))
      if (left === undefined) continue
      const right = ids.get(token.slice(cut))
      if (right !== undefined) pairs.set(left, right, rank, rank)
    }
  }
  return Either.right({ stages: [{ pattern: compiled, keepGaps: true }], byteIds, pairs, wholeWords: ids })
}
