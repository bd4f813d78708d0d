/**
 * The order of one model's requests. Each carries its number; whatever the order of arrival, they run 1, 2, 3 and so on,
 * and a number that is missing holds back those behind it.
 */

/** @internal */
export interface Turns<A> {
  /** What was accepted under a number. */
  readonly find: (seq: number) => A | undefined
  /** Whether the number's turn is over without anything having been accepted under it. */
  readonly missed: (seq: number) => boolean
  /** Accepts a request; gives those whose turn has come, in order. */
  readonly accept: (seq: number, value: A) => ReadonlyArray<A>
  /** Notes that a number was used for a request that was turned away, so that later ones do not wait for it. */
  readonly refuse: (seq: number) => ReadonlyArray<A>
  /** The number for a request that has none. */
  readonly free: () => number
  /** The number the others wait for, if any do. */
  readonly gap: () => number | undefined
}

// A request is sent again soon or never: of those that had their turn, so many are remembered.
const remembered = 10_000

/** @internal */
export const makeTurns = <A>(): Turns<A> => {
  const accepted = new Map<number, A>()
  const refused = new Set<number>()
  let next = 1
  let last = 0

  const advance = (): ReadonlyArray<A> => {
    const ready: Array<A> = []
    while (next <= last) {
      const value = accepted.get(next)
      if (value !== undefined) ready.push(value)
      else if (!refused.has(next)) break
      accepted.delete(next - remembered)
      refused.delete(next - remembered)
      next++
    }
    return ready
  }

  return {
    find: (seq) => accepted.get(seq),
    missed: (seq) => seq < next && !accepted.has(seq),
    accept: (seq, value) => {
      accepted.set(seq, value)
      refused.delete(seq)
      last = Math.max(last, seq)
      return advance()
    },
    // not counted in `last`: while nothing follows it, the number may still be used again
    refuse: (seq) => {
      if (!accepted.has(seq)) refused.add(seq)
      return advance()
    },
    free: () => {
      let seq = Math.max(next, last + 1)
      while (refused.has(seq)) seq++
      return seq
    },
    gap: () => next <= last ? next : undefined
  }
}
