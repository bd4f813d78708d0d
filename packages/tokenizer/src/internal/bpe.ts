/**
 * Byte-level byte-pair encoding on integers: text → words (regular expressions) → bytes → merged tokens, with the tokens
 * of frequent words remembered.
 */
import type { IntBuffer } from "./bytes.js"
import { spell } from "./bytes.js"
import { mergeWord } from "./merge.js"
import type { PairTable } from "./pairTable.js"

/**
 * One step of cutting text into words.
 *
 * @internal
 */
export interface Stage {
  /** A global Unicode regular expression. */
  readonly pattern: RegExp
  /** Whether text between matches is a word too, or is dropped. */
  readonly keepGaps: boolean
}

/** @internal */
export interface Parts {
  readonly stages: ReadonlyArray<Stage>
  /** The token of each single byte. */
  readonly byteIds: Int32Array
  readonly pairs: PairTable
  /** Spelled token → id: when present, a word which is a token is not looked into. */
  readonly wholeWords: ReadonlyMap<string, number> | undefined
}

/** Words kept per generation; two generations are alive. */
const cacheSize = 50_000
/** Longer words are rarely seen twice. */
const cacheWords = 128

/** @internal */
export class Bpe {
  private readonly sticky: ReadonlyArray<RegExp>
  private readonly encoder = new TextEncoder()
  private bytes = new Uint8Array(1024)
  private ids = new Int32Array(1024)
  private recent = new Map<string, number | Int32Array>()
  private older = new Map<string, number | Int32Array>()

  constructor(private readonly parts: Parts) {
    this.sticky = parts.stages.map(({ pattern }) => new RegExp(pattern.source, pattern.flags.replace("g", "y")))
  }

  /**
   * Encodes words of `text` starting at `from` until `until` is reached or passed, and returns where it stopped, so that a
   * caller may pause in between.
   */
  encode(text: string, from: number, until: number, out: IntBuffer): number {
    if (this.parts.stages.length > 0) return this.cut(text, 0, from, until, out)
    this.word(text, out)
    return text.length
  }

  private cut(text: string, index: number, from: number, until: number, out: IntBuffer): number {
    const stage = this.parts.stages[index]
    const sticky = this.sticky[index]
    if (stage === undefined || sticky === undefined) {
      this.word(text, out)
      return text.length
    }
    const last = index === this.parts.stages.length - 1
    let at = from
    while (at < until) {
      sticky.lastIndex = at
      if (sticky.test(text) && sticky.lastIndex > at) {
        const end = sticky.lastIndex
        const piece = at === 0 && end === text.length ? text : text.slice(at, end)
        if (last) this.word(piece, out)
        else this.cut(piece, index + 1, 0, piece.length, out)
        at = end
      } else {
        const end = nextMatch(stage.pattern, text, at)
        if (stage.keepGaps) {
          const piece = at === 0 && end === text.length ? text : text.slice(at, end)
          if (last) this.word(piece, out)
          else this.cut(piece, index + 1, 0, piece.length, out)
        }
        at = end
      }
    }
    return at
  }

  private word(text: string, out: IntBuffer): void {
    let found = this.recent.get(text)
    if (found === undefined) {
      found = this.older.get(text)
      if (found === undefined) found = this.compute(text)
      if (text.length <= cacheWords) this.remember(text, found)
    }
    if (typeof found === "number") out.push(found)
    else out.append(found)
  }

  private remember(text: string, ids: number | Int32Array): void {
    if (this.recent.size >= cacheSize) {
      this.older = this.recent
      this.recent = new Map()
    }
    // a slice keeps the whole text it was cut from alive; this one keeps only itself
    this.recent.set(text.length > 12 ? (" " + text).slice(1) : text, ids)
  }

  private compute(text: string): number | Int32Array {
    if (text.length * 3 > this.bytes.length) {
      this.bytes = new Uint8Array(text.length * 3)
      this.ids = new Int32Array(text.length * 3)
    }
    const length = this.encoder.encodeInto(text, this.bytes).written
    const whole = this.parts.wholeWords?.get(spell(this.bytes, 0, length))
    if (whole !== undefined) return whole
    const { byteIds } = this.parts
    for (let i = 0; i < length; i++) this.ids[i] = byteIds[this.bytes[i] ?? 0] ?? 0
    const count = mergeWord(this.ids, length, this.parts.pairs)
    return count === 1 ? this.ids[0] ?? 0 : this.ids.slice(0, count)
  }
}

/** Where the next non-empty match begins, or the end of the text. */
const nextMatch = (pattern: RegExp, text: string, from: number): number => {
  pattern.lastIndex = from
  for (;;) {
    const match = pattern.exec(text)
    if (match === null) return text.length
    if (match[0] !== "" && match.index > from) return match.index
    if (match[0] === "") pattern.lastIndex++
  }
}
