/**
 * The bytes of every token, side by side in one array: decoding is copying.
 */
import { IntBuffer } from "./bytes.js"

/** @internal */
export class ByteTable {
  private constructor(
    private readonly bytes: Uint8Array,
    private readonly offsets: Int32Array,
    private readonly present: Uint8Array
  ) {}

  /** One more than the highest id. */
  get size(): number {
    return this.present.length
  }

  static make(tokens: ReadonlyArray<Uint8Array | undefined>): ByteTable {
    let total = 0
    for (const token of tokens) total += token?.length ?? 0
    const bytes = new Uint8Array(total)
    const offsets = new Int32Array(tokens.length + 1)
    const present = new Uint8Array(tokens.length)
    let at = 0
    for (let id = 0; id < tokens.length; id++) {
      const token = tokens[id]
      if (token !== undefined) {
        bytes.set(token, at)
        at += token.length
        present[id] = 1
      }
      offsets[id + 1] = at
    }
    return new ByteTable(bytes, offsets, present)
  }

  has(id: number): boolean {
    return this.present[id] === 1
  }

  get(id: number): Uint8Array | undefined {
    return this.has(id) ? this.bytes.slice(this.offsets[id], this.offsets[id + 1]) : undefined
  }

  /** The concatenated bytes of the given tokens; ids without a token contribute nothing. */
  concat(ids: Iterable<number>, skip?: ReadonlySet<number> | undefined): Uint8Array {
    const kept = new IntBuffer(64)
    let total = 0
    for (const id of ids) {
      if (!this.has(id) || skip?.has(id) === true) continue
      kept.push(id)
      total += (this.offsets[id + 1] ?? 0) - (this.offsets[id] ?? 0)
    }
    const out = new Uint8Array(total)
    let at = 0
    for (const id of kept.toArray()) {
      const end = this.offsets[id + 1] ?? 0
      for (let i = this.offsets[id] ?? 0; i < end; i++) out[at++] = this.bytes[i] ?? 0
    }
    return out
  }
}
