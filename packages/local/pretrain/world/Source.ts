/**
 * Everything random about a conversation: draws from one side of the world, repeatable from a seed.
 */
import { PCGRandom } from "effect/Utils"
import type { Side } from "./HeldOut.js"
import { pairAllowed, pairItem, sideOf } from "./HeldOut.js"
import * as Lexicon from "./Lexicon.js"

export class Source {
  readonly #random: PCGRandom
  /** Every item drawn so far: what a test holds the text against. */
  readonly items = new Set<string>()
  /** Every tool name drawn so far. The words they are made of are no items: a name is held out as a whole. */
  readonly toolNames = new Set<string>()

  /** How often a made-up word stands where a member of an open class is asked for. */
  readonly #madeUp: number

  constructor(readonly seed: number, readonly side: Side, madeUp = side === "train" ? 0.15 : 0.4) {
    this.#random = new PCGRandom(seed)
    this.#madeUp = madeUp
  }

  /** An integer from `low` to `high`, both included. */
  int(low: number, high: number): number {
    return low + this.#random.integer(high - low + 1)
  }

  chance(probability: number): boolean {
    return this.#random.number() < probability
  }

  pick<A>(values: ReadonlyArray<A>): A {
    const value = values[this.int(0, values.length - 1)]
    if (value === undefined) throw new RangeError("nothing to pick from")
    return value
  }

  shuffle<A>(values: ReadonlyArray<A>): Array<A> {
    const result = Array.from(values)
    for (let i = result.length - 1; i > 0; i--) {
      const j = this.int(0, i)
      ;[result[i], result[j]] = [result[j] as A, result[i] as A]
    }
    return result
  }

  /** `count` different values of `draw`. */
  distinct(count: number, draw: () => string): Array<string> {
    const values = new Set<string>()
    while (values.size < count) values.add(draw())
    return Array.from(values)
  }

  /** The first value of `draw` whose item is on this side. */
  #own(draw: () => string, drawn = this.items): string {
    for (;;) {
      const value = draw()
      if (sideOf(value) !== this.side) continue
      drawn.add(value)
      return value
    }
  }

  /**
   * A member of an open class, or a made-up word in its place: what stands in a sentence need not be known, and the few
   * members a class has held out must not run out.
   */
  of(list: ReadonlyArray<string>): string {
    return this.#madeUp > 0 && this.chance(this.#madeUp) ? this.word(7) : this.#own(() => this.pick(list))
  }

  /** A made-up word of 3 to 8 letters. */
  word(longest = 8): string {
    return this.#own(() => {
      for (;;) {
        let text = this.pick(Lexicon.onsets) + this.pick(Lexicon.vowels)
        if (this.chance(0.75)) text += this.pick(Lexicon.onsets) + this.pick(Lexicon.vowels)
        if (this.chance(0.55)) text += this.pick(Lexicon.codas)
        if (text.length < 4 || text.length > longest) continue
        if (this.side === "train" || !Lexicon.familiar.has(text)) return text
      }
    })
  }

  /** A word somebody might use: made up, or one of the lists. */
  anyWord(): string {
    if (this.chance(0.6)) return this.word()
    return this.of(this.pick([Lexicon.foods, Lexicon.animals, Lexicon.colors, Lexicon.things, Lexicon.jobs]))
  }

  name(): string {
    return this.chance(0.5) ? this.of(Lexicon.names) : capitalize(this.word(7))
  }

  city(): string {
    return this.chance(0.6) ? this.of(Lexicon.cities) : capitalize(this.word(8))
  }

  /** An identifier such as `B4821`, `73-118` or `55120`. */
  code(): string {
    return this.#own(() => {
      const digits = (count: number) => Array.from({ length: count }, () => this.int(0, 9)).join("")
      const letter = () => String.fromCharCode(65 + this.int(0, 25))
      switch (this.int(0, 3)) {
        case 0:
          return letter() + digits(this.int(3, 4))
        case 1:
          return `${letter()}${letter()}-${digits(this.int(2, 4))}`
        case 2:
          return digits(this.int(4, 6))
        default:
          return `${digits(2)}-${digits(3)}`
      }
    })
  }

  /** Two operands whose pair is on this side. */
  pair(low: number, high: number, lowB = low, highB = high): readonly [number, number] {
    for (;;) {
      const a = this.int(low, high)
      const b = this.int(lowB, highB)
      if (!this.allows(a, b)) continue
      return [a, b]
    }
  }

  /** Whether a pair of operands is on this side; remembers it if so. */
  allows(a: number, b: number): boolean {
    if (!pairAllowed(this.side, a, b)) return false
    const item = pairItem(a, b)
    if (item !== undefined) this.items.add(item)
    return true
  }

  /** A tool name made by `draw` that is on this side. */
  toolName(draw: () => string): string {
    return this.#own(draw, this.toolNames)
  }
}

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
