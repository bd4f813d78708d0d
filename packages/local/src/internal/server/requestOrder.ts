/**
 * The order of one model's requests. Each has a number; they run 1, 2, 3, … however they arrive, and a missing number holds
 * back those after it.
 */

/**
 * Requests of one model by their numbers.
 *
 * @internal
 */
export interface RequestOrder<A> {
  /** Operation accepted under a number. */
  readonly find: (seq: number) => A | undefined
  /** Whether the number was skipped: later ones have run. */
  readonly missed: (seq: number) => boolean
  /** Accepts a request; returns those whose turn has come, in order. */
  readonly accept: (seq: number, value: A) => ReadonlyArray<A>
  /** Releases the number of a refused request, so that later ones do not wait for it. */
  readonly refuse: (seq: number) => ReadonlyArray<A>
  /** The number for a request that has none. */
  readonly free: () => number
  /** The number the others wait for, if any do. */
  readonly gap: () => number | undefined
}

// A request is repeated soon or never: this many that have had their turn are remembered.
const remembered = 10_000

/** @internal */
export const make = <A>(): RequestOrder<A> => {
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
    // not counted in `last`: until something follows, the number may be used again
    refuse: (seq) => {
      if (!accepted.has(seq) && seq < next + remembered) refused.add(seq)
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
