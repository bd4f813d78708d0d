/**
 * (left token, right token) → rank of their merge and the merged token: the inner loop of byte-pair encoding asks it once
 * per neighbouring pair. Open addressing over plain integers, because a `Map` would need a boxed key for every question.
 */

/** @internal */
export const noMerge = 0x7fffffff

/** @internal */
export class PairTable {
  private slots: Int32Array
  private mask: number
  private count = 0
  /** The merged token of the pair last found by {@link rank}. */
  merged = 0

  constructor(expected: number) {
    let size = 64
    while (size < expected * 2) size *= 2
    this.mask = size - 1
    this.slots = new Int32Array(size * 4).fill(-1)
  }

  set(left: number, right: number, rank: number, merged: number): void {
    if ((this.count + 1) * 2 > this.mask) this.grow()
    let slot = this.start(left, right)
    while ((this.slots[slot] ?? -1) >= 0) {
      // the first mention of a pair has the better rank
      if (this.slots[slot] === left && this.slots[slot + 1] === right) return
      slot = (slot + 4) & ((this.mask << 2) | 3)
    }
    this.slots[slot] = left
    this.slots[slot + 1] = right
    this.slots[slot + 2] = rank
    this.slots[slot + 3] = merged
    this.count++
  }

  rank(left: number, right: number): number {
    const slots = this.slots
    const wrap = (this.mask << 2) | 3
    let slot = this.start(left, right)
    for (;;) {
      const found = slots[slot] ?? -1
      if (found < 0) return noMerge
      if (found === left && slots[slot + 1] === right) {
        this.merged = slots[slot + 3] ?? 0
        return slots[slot + 2] ?? noMerge
      }
      slot = (slot + 4) & wrap
    }
  }

  private start(left: number, right: number): number {
    let hash = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)
    hash ^= hash >>> 15
    return (hash & this.mask) << 2
  }

  private grow(): void {
    const old = this.slots
    this.mask = this.mask * 2 + 1
    this.slots = new Int32Array((this.mask + 1) * 4).fill(-1)
    this.count = 0
    for (let i = 0; i < old.length; i += 4) {
      const left = old[i] ?? -1
      if (left >= 0) this.set(left, old[i + 1] ?? 0, old[i + 2] ?? 0, old[i + 3] ?? 0)
    }
  }
}
