/**
 * What the model never sees while it is trained: a tenth of the world's content, chosen by hash before anything is
 * generated.
 *
 * The rule: lower-case the item, take the smaller of it and its reverse (so that reversing a word does not change its
 * side), hash it with FNV-1a and a final mix, and hold it out if the hash is divisible by ten. Words, names, cities and
 * the other values, codes and tool names are items by themselves; operands are items as a pair (`12,34`, smaller first)
 * when at least one of them has two digits, because the one-digit facts are what everything else is built from.
 */

const reversed = (text: string): string => Array.from(text).reverse().join("")

const canonical = (item: string): string => {
  const lower = item.toLowerCase()
  const back = reversed(lower)
  return lower < back ? lower : back
}

const hash = (text: string): number => {
  let h = 0x811c9dc5
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** Which part of the world is drawn from. */
export type Side = "train" | "held-out"

/** One in this many items is held out. */
export const share = 10

export const sideOf = (item: string): Side => hash(canonical(item)) % share === 0 ? "held-out" : "train"

/** The item that stands for a pair of operands; `undefined` for a one-digit fact, which both sides share. */
export const pairItem = (a: number, b: number): string | undefined => {
  const [low, high] = Math.abs(a) <= Math.abs(b) ? [Math.abs(a), Math.abs(b)] : [Math.abs(b), Math.abs(a)]
  return high < 10 ? undefined : `${low},${high}`
}

/** Whether a pair of operands may be used on a side. */
export const pairAllowed = (side: Side, a: number, b: number): boolean => {
  const item = pairItem(a, b)
  return item === undefined || sideOf(item) === side
}
