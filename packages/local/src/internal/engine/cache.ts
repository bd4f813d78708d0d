/**
 * The keys and values of sequences being continued, and of those that may be: a prompt that begins like an earlier one
 * takes over what it shares with it. Keys lie in panels of eight tokens and values in panels of eight columns, as the
 * matrix products read them, so that a token's results are the same bits whether it is read with a prompt or drawn.
 */
import { at, ceil8, intAt } from "./numbers.js"
import type { Space } from "./space.js"

/** Room for the tokens of one sequence in every layer. @internal */
export interface Region {
  readonly slot: number
  /** In tokens, a multiple of eight. */
  readonly capacity: number
}

/** A sequence whose keys and values are there. */
interface Entry {
  /** Whose they are: only requests of the same namespace take them over. */
  readonly namespace: number
  readonly region: Region
  tokens: Int32Array
  /** How many of the tokens are there. */
  length: number
  busy: boolean
  used: number
}

/** @internal */
export interface Cache {
  /** Room for a sequence; evicts idle ones where there is none. */
  readonly allocate: (tokens: number) => Region | undefined
  readonly free: (region: Region) => void
  /** Takes over what an earlier sequence shares with this prompt, at most `most` tokens; says how many. */
  readonly reuse: (namespace: number, prompt: Int32Array, region: Region, most: number) => number
  /** Lets others take over the first `length` tokens of a region in use; `tokens` names them. */
  readonly share: (namespace: number, region: Region, tokens: Int32Array, length: number) => void
  /** Gives a shared region back; it stays until its room is needed. */
  readonly release: (region: Region) => void
  /** Tokens taken over so far. */
  readonly reused: () => number
}

/** Where the keys and the values of a head begin. @internal */
export const keysAt = (space: Space, layer: number, region: Region, head: number): number => {
  const { architecture: { keyWidth, model: { headSize } }, layout: { cacheTokens }, sampling: { cache } } = space
  return cache + (layer * cacheTokens + region.slot) * 2 * keyWidth + head * region.capacity * headSize
}

/** @internal */
export const valuesAt = (space: Space, layer: number, region: Region, head: number): number =>
  keysAt(space, layer, region, head) + region.capacity * space.architecture.keyWidth

/** Writes the keys and values of one token of one layer; `row` is where its keys are, its values follow. @internal */
export const remember = (space: Space, layer: number, region: Region, index: number, row: number): void => {
  const { architecture: { keyWidth, model: { headSize, keyValueHeads } }, memory } = space
  for (let head = 0; head < keyValueHeads; head++) {
    const from = row + head * headSize
    const key = keysAt(space, layer, region, head) + (index >> 3) * headSize * 8 + (index & 7)
    for (let i = 0; i < headSize; i++) memory[key + i * 8] = at(memory, from + i)
    const value = valuesAt(space, layer, region, head) + index * 8
    for (let i = 0; i < headSize; i += 8) {
      memory.copyWithin(value + i * region.capacity, from + keyWidth + i, from + keyWidth + i + 8)
    }
  }
}

/** Copies tokens of one region to the beginning of another; `from` is a multiple of eight. @internal */
export const copyTokens = (space: Space, source: Region, from: number, length: number, target: Region): void => {
  const { architecture: { blocks, model: { headSize, keyValueHeads } }, memory } = space
  for (const layer of blocks.keys()) {
    for (let head = 0; head < keyValueHeads; head++) {
      const keys = keysAt(space, layer, source, head) + from * headSize
      memory.copyWithin(keysAt(space, layer, target, head), keys, keys + ceil8(length) * headSize)
      for (let i = 0; i < headSize; i += 8) {
        const values = valuesAt(space, layer, source, head) + i * source.capacity + from * 8
        memory.copyWithin(valuesAt(space, layer, target, head) + i * target.capacity, values, values + length * 8)
      }
    }
  }
}

const commonPrefix = (left: Int32Array, right: Int32Array, most: number): number => {
  let length = 0
  while (length < most && intAt(left, length) === intAt(right, length)) length++
  return length
}

/** @internal */
export const makeCache = (space: Space): Cache => {
  const total = space.layout.cacheTokens
  /** By position. */
  let taken: Array<Region> = []
  let entries: Array<Entry> = []
  let clock = 0
  let reused = 0
  const fit = (capacity: number): Region | undefined => {
    let slot = 0
    for (const [index, region] of taken.entries()) {
      if (region.slot - slot >= capacity) {
        const made = { slot, capacity }
        taken.splice(index, 0, made)
        return made
      }
      slot = region.slot + region.capacity
    }
    if (total - slot < capacity) return undefined
    const made = { slot, capacity }
    taken.push(made)
    return made
  }
  const free = (region: Region): void => {
    taken = taken.filter((other) => other !== region)
    entries = entries.filter((entry) => entry.region !== region)
  }
  return {
    allocate: (tokens) => {
      const capacity = ceil8(tokens)
      for (;;) {
        const made = fit(capacity)
        if (made !== undefined) return made
        const idle = entries.filter(({ busy }) => !busy)
        if (idle.length === 0) return undefined
        free(idle.reduce((oldest, entry) => entry.used < oldest.used ? entry : oldest).region)
      }
    },
    free,
    reuse: (namespace, prompt, region, most) => {
      let best: Entry | undefined
      let longest = 0
      for (const entry of entries) {
        if (entry.namespace !== namespace || entry.region === region) continue
        const common = commonPrefix(entry.tokens, prompt, Math.min(entry.length, prompt.length, most))
        if (common > longest) [best, longest] = [entry, common]
      }
      if (best === undefined) return 0
      best.used = ++clock
      copyTokens(space, best.region, 0, longest, region)
      reused += longest
      return longest
    },
    share: (namespace, region, tokens, length) => {
      const known = entries.find((entry) => entry.region === region)
      if (known !== undefined) {
        known.tokens = tokens
        known.length = length
      } else entries.push({ namespace, region, tokens, length, busy: true, used: ++clock })
    },
    release: (region) => {
      for (const entry of entries) if (entry.region === region) entry.busy = false
    },
    reused: () => reused
  }
}
