/**
 * Byte-pair encoding of one word: merge the neighbouring pair of the best rank, leftmost first, until none is left.
 */
import type { PairTable } from "./pairTable.js"
import { noMerge } from "./pairTable.js"

/** Above this many tokens a heap is faster than looking through all pairs for every merge. */
const heapAbove = 64

/** Positions in the heap's keys take the lower bits. */
const positions = 2 ** 31

/**
 * Merges in place and returns how many tokens are left at the front of `ids`.
 *
 * @internal
 */
export const mergeWord = (ids: Int32Array, length: number, pairs: PairTable): number =>
  length <= heapAbove ? mergeShort(ids, length, pairs) : mergeLong(ids, length, pairs)

const shortRanks = new Int32Array(heapAbove + 1)

const mergeShort = (ids: Int32Array, length: number, pairs: PairTable): number => {
  const ranks = shortRanks
  let last = length - 1
  for (let i = 0; i < last; i++) ranks[i] = pairs.rank(ids[i] ?? 0, ids[i + 1] ?? 0)
  while (last > 0) {
    let best = noMerge
    let at = -1
    for (let i = 0; i < last; i++) {
      const rank = ranks[i] ?? noMerge
      if (rank < best) {
        best = rank
        at = i
      }
    }
    if (at < 0) break
    pairs.rank(ids[at] ?? 0, ids[at + 1] ?? 0)
    ids[at] = pairs.merged
    for (let i = at + 1; i < last; i++) {
      ids[i] = ids[i + 1] ?? 0
      ranks[i] = ranks[i + 1] ?? noMerge
    }
    last--
    if (at > 0) ranks[at - 1] = pairs.rank(ids[at - 1] ?? 0, ids[at] ?? 0)
    if (at < last) ranks[at] = pairs.rank(ids[at] ?? 0, ids[at + 1] ?? 0)
  }
  return last + 1
}

const mergeLong = (ids: Int32Array, length: number, pairs: PairTable): number => {
  // a linked list over positions; a merged right neighbour has id −1
  const next = new Int32Array(length)
  const previous = new Int32Array(length)
  const heap = new Float64Array(length * 3)
  let size = 0
  const push = (rank: number, position: number): void => {
    const key = rank * positions + position
    let child = size++
    while (child > 0) {
      const parent = (child - 1) >> 1
      const above = heap[parent] ?? 0
      if (above <= key) break
      heap[child] = above
      child = parent
    }
    heap[child] = key
  }
  const pop = (): number => {
    const top = heap[0] ?? 0
    const key = heap[--size] ?? 0
    let parent = 0
    for (;;) {
      let child = parent * 2 + 1
      if (child >= size) break
      if (child + 1 < size && (heap[child + 1] ?? 0) < (heap[child] ?? 0)) child++
      const below = heap[child] ?? 0
      if (below >= key) break
      heap[parent] = below
      parent = child
    }
    heap[parent] = key
    return top
  }
  const offer = (left: number): void => {
    const right = next[left] ?? length
    if (left < 0 || right >= length) return
    const rank = pairs.rank(ids[left] ?? 0, ids[right] ?? 0)
    if (rank !== noMerge) push(rank, left)
  }
  for (let i = 0; i < length; i++) {
    next[i] = i + 1
    previous[i] = i - 1
  }
  for (let i = 0; i < length - 1; i++) offer(i)
  while (size > 0) {
    const key = pop()
    const rank = Math.floor(key / positions)
    const left = key - rank * positions
    const right = next[left] ?? length
    // an entry is still true exactly when the pair standing here has its rank
    if ((ids[left] ?? -1) < 0 || right >= length) continue
    if (pairs.rank(ids[left] ?? 0, ids[right] ?? 0) !== rank) continue
    ids[left] = pairs.merged
    ids[right] = -1
    const after = next[right] ?? length
    next[left] = after
    if (after < length) previous[after] = left
    const before = previous[left] ?? -1
    if (before >= 0) offer(before)
    offer(left)
  }
  let out = 0
  for (let i = 0; i < length; i = next[i] ?? length) ids[out++] = ids[i] ?? 0
  return out
}
