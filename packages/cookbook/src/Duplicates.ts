/**
 * Texts that are the same, or nearly: exactly, by a hash of their words, and nearly, by MinHash with bands (LSH).
 *
 * Both hold numbers, not texts: 8 bytes for each different text, and about 230 for each in the index of near duplicates, whatever
 * its length. Hashes have 53 bits: among a million texts, two that differ are taken for the same with a probability of 0.0001.
 *
 * @since 0.2.0
 */
import { makeFast } from "./internal/random.js"

// =============================================================================
// exact
// =============================================================================

/**
 * A hash of a text without regard to white space: 53 bits, as a number.
 *
 * @since 0.2.0
 * @category combinators
 */
export const hashOf = (text: string): number => {
  let a = 0x9e3779b9
  let b = 0x85ebca6b
  let space = true
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    const isSpace = code === 32 || (code >= 9 && code <= 13) || code === 160
    if (isSpace && space) continue
    space = isSpace
    const unit = isSpace ? 32 : code
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x5bd1e995)
    b ^= b >>> 15
  }
  // as if there was always a space at the end
  if (!space) {
    a = Math.imul(a ^ 32, 0x01000193)
    b = Math.imul(b ^ 32, 0x5bd1e995)
    b ^= b >>> 15
  }
  a ^= a >>> 16
  b = Math.imul(b ^ (b >>> 13), 0xc2b2ae35)
  return (a >>> 0) * 0x200000 + ((b ^ (b >>> 16)) >>> 11)
}

/**
 * Texts that were there before, exactly but for white space.
 *
 * @since 0.2.0
 * @category models
 */
export interface Exact {
  /** The number under which the same text was added first; adds it where there is none. */
  readonly add: (text: string, number: number) => number | undefined
  /** The number under which a text was added. */
  readonly find: (text: string) => number | undefined
}

/**
 * An index of texts as they are.
 *
 * @since 0.2.0
 * @category constructors
 */
export const exact = (): Exact => {
  const known = new Map<number, number>()
  return {
    find: (text) => known.get(hashOf(text)),
    add: (text, number) => {
      const hash = hashOf(text)
      const first = known.get(hash)
      if (first === undefined) known.set(hash, number)
      return first
    }
  }
}

// =============================================================================
// near
// =============================================================================

const bands = 16
const rowsOfBand = 4
const permutations = bands * rowsOfBand

/** Words in a row that are looked at together. */
const shingle = 3

/** More of a text adds nothing to what is known of it, and would take its time. */
const maxShingles = 20_000

const multipliers = (() => {
  const below = makeFast(20_240_607)
  return Uint32Array.from(
    { length: 2 * permutations },
    (_, i) => i < permutations ? below(0x80000000) * 2 + 1 : below(0x100000000)
  )
})()

const isWord = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 48 && code <= 57) ||
  (code > 127 && code !== 160 && (code < 0x2000 || code > 0x206f))

/** Scripts that write no spaces: a character is a word. */
const isAlone = (code: number): boolean => code >= 0x2e80 && code <= 0xd7ff

/** Hashes of the words of a text, in lower case and without punctuation. */
const wordsOf = (text: string): ReadonlyArray<number> => {
  const words: Array<number> = []
  const lower = text.toLowerCase()
  let word = 0
  let open = false
  const close = () => {
    if (open) words.push(word)
    open = false
  }
  for (let i = 0; i < lower.length && words.length < maxShingles; i++) {
    const code = lower.charCodeAt(i)
    if (!isWord(code)) close()
    else {
      if (!open || isAlone(code)) {
        close()
        word = 0x811c9dc5
        open = true
      }
      word = Math.imul(word ^ code, 0x01000193)
    }
  }
  close()
  return words
}

/** The smallest hash of a text's shingles by each permutation. */
const signature = (text: string): Uint32Array => {
  const words = wordsOf(text)
  const least = new Uint32Array(permutations).fill(0xffffffff)
  const last = Math.max(1, words.length - shingle + 1)
  for (let at = 0; at < last; at++) {
    let hash = 0x9e3779b9
    for (let i = at; i < Math.min(at + shingle, words.length); i++) {
      hash = Math.imul(hash ^ (words[i] ?? 0), 0x85ebca6b)
      hash ^= hash >>> 13
    }
    for (let i = 0; i < permutations; i++) {
      const mixed = (Math.imul(hash, multipliers[i] ?? 1) + (multipliers[permutations + i] ?? 0)) >>> 0
      if (mixed < (least[i] ?? 0)) least[i] = mixed
    }
  }
  return least
}

/**
 * A text that was there before, and how like it is: the share of the shingles of both that both have, estimated.
 *
 * @since 0.2.0
 * @category models
 */
export interface Like {
  readonly number: number
  readonly likeness: number
}

/**
 * Texts that were there before, nearly.
 *
 * @since 0.2.0
 * @category models
 */
export interface Near {
  /** The text added before that is most like this one, if any is like enough; adds it where there is none. */
  readonly add: (text: string, number: number) => Like | undefined
  readonly find: (text: string) => Like | undefined
}

/** A table of numbers by a hash, with open addressing; the number of an entry is one more than what it stands for. */
const makeTable = () => {
  let slots = new Uint32Array(1 << 10)
  let hashes = new Uint32Array(1 << 10)
  let size = 0
  const place = (hash: number, inSlots: Uint32Array, inHashes: Uint32Array): number => {
    const mask = inSlots.length - 1
    let at = hash & mask
    while (inSlots[at] !== 0 && inHashes[at] !== hash) at = (at + 1) & mask
    return at
  }
  return {
    get: (hash: number): number => slots[place(hash, slots, hashes)] ?? 0,
    set: (hash: number, entry: number) => {
      if (2 * ++size > slots.length) {
        const [larger, largerHashes] = [new Uint32Array(2 * slots.length), new Uint32Array(2 * slots.length)]
        for (let i = 0; i < slots.length; i++) {
          const kept = slots[i] ?? 0
          if (kept === 0) continue
          const hashed = hashes[i] ?? 0
          const at = place(hashed, larger, largerHashes)
          larger[at] = kept
          largerHashes[at] = hashed
        }
        slots = larger
        hashes = largerHashes
      }
      const at = place(hash, slots, hashes)
      slots[at] = entry
      hashes[at] = hash
    }
  }
}

/**
 * An index of texts by what they are like. A text is found where at least the given share of its groups of three words is that of
 * another one. Of texts that are like each other only the first is in the index.
 *
 * @since 0.2.0
 * @category constructors
 */
export const near = (options?: {
  /** From 0.5 to 1. Defaults to 0.8. */
  readonly likeness?: number | undefined
}): Near => {
  const wanted = Math.min(1, Math.max(0.5, options?.likeness ?? 0.8))
  const tables = Array.from({ length: bands }, makeTable)
  // 16 bits of each of the smallest hashes are enough to compare by
  let signatures = new Uint16Array(permutations * 1024)
  let numbers = new Float64Array(1024)
  let size = 0
  const bandHash = (of: Uint32Array, band: number): number => {
    let hash = 0x811c9dc5 ^ band
    for (let i = 0; i < rowsOfBand; i++) {
      hash = Math.imul(hash ^ (of[band * rowsOfBand + i] ?? 0), 0x85ebca6b)
      hash ^= hash >>> 15
    }
    return hash >>> 0
  }
  const likenessTo = (entry: number, of: Uint32Array): number => {
    let same = 0
    const from = (entry - 1) * permutations
    for (let i = 0; i < permutations; i++) if (signatures[from + i] === ((of[i] ?? 0) & 0xffff)) same++
    return same / permutations
  }
  const best = (of: Uint32Array): Like | undefined => {
    let found: Like | undefined
    let last = 0
    for (let band = 0; band < bands; band++) {
      const entry = tables[band]?.get(bandHash(of, band)) ?? 0
      if (entry === 0 || entry === last) continue
      last = entry
      const likeness = likenessTo(entry, of)
      if (likeness >= wanted && (found === undefined || likeness > found.likeness)) {
        found = { number: numbers[entry - 1] ?? 0, likeness }
      }
    }
    return found
  }
  const insert = (of: Uint32Array, number: number) => {
    if (size === numbers.length) {
      const [more, moreNumbers] = [new Uint16Array(2 * signatures.length), new Float64Array(2 * size)]
      more.set(signatures)
      moreNumbers.set(numbers)
      signatures = more
      numbers = moreNumbers
    }
    for (let i = 0; i < permutations; i++) signatures[size * permutations + i] = (of[i] ?? 0) & 0xffff
    numbers[size++] = number
    for (let band = 0; band < bands; band++) {
      const table = tables[band]
      const hash = bandHash(of, band)
      if (table?.get(hash) === 0) table.set(hash, size)
    }
  }
  return {
    find: (text) => best(signature(text)),
    add: (text, number) => {
      const of = signature(text)
      const found = best(of)
      if (found === undefined) insert(of, number)
      return found
    }
  }
}
