/**
 * The two ways to turn text into ids and back: our byte-level core, and the library for everything else.
 */
import type { AddedToken } from "../AddedToken.js"
import type { ParseSpecial } from "../Tokenizer.js"
import { AddedTokens } from "./addedTokens.js"
import type { Bpe } from "./bpe.js"
import { IntBuffer } from "./bytes.js"
import type { ByteTable } from "./byteTable.js"
import type { Library } from "./library.js"

/** @internal */
export interface Engine {
  /** Encodes in steps; the caller may pause wherever it yields. */
  readonly encode: (
    text: string,
    addSpecialTokens: boolean,
    parseSpecial: ParseSpecial
  ) => Generator<undefined, Int32Array>
  readonly decode: (ids: Iterable<number>, skip: boolean) => string
  readonly decoder: (skip: boolean) => IncrementalDecoder
  readonly tokenBytes: (id: number) => Uint8Array | undefined
  readonly has: (id: number) => boolean
}

/** @internal */
export interface IncrementalDecoder {
  readonly push: (ids: Iterable<number>) => string
  readonly end: () => string
}

/** Characters encoded between two pauses. */
const stepSize = 32_768

/** @internal */
export interface Affixes {
  readonly before: ReadonlyArray<number>
  readonly after: ReadonlyArray<number>
}

/** @internal */
export const core = (options: {
  readonly bpe: Bpe
  readonly table: ByteTable
  readonly added: ReadonlyArray<AddedToken>
  readonly normalize: ((text: string) => string) | null
  readonly affixes: Affixes
}): Engine => {
  const { affixes, bpe, normalize, table } = options
  const special = new Set(options.added.filter((token) => token.special).map((token) => token.id))
  const splitters = (tokens: ReadonlyArray<AddedToken>) => {
    // looked for before and after normalization
    const early = tokens.filter((token) => normalize === null || !token.isNormalized)
    const late = tokens.filter((token) => normalize !== null && token.isNormalized)
    return {
      early: new AddedTokens(early.map((token) => [token.content, token])),
      late: new AddedTokens(late.map((token) => [normalize === null ? token.content : normalize(token.content), token]))
    }
  }
  const split = {
    all: splitters(options.added),
    ordinary: splitters(options.added.filter((token) => !token.special)),
    none: splitters([])
  }
  return {
    *encode(text, addSpecialTokens, parseSpecial) {
      const { early, late } = split[parseSpecial]
      const pieces: Array<string | number> = []
      const push = (token: AddedToken): void => {
        pieces.push(token.id)
      }
      const plain = (part: string): void => {
        pieces.push(part)
      }
      early.split(text, normalize === null ? plain : (part) => late.split(normalize(part), plain, push), push)
      const out = new IntBuffer((text.length >> 2) + 8)
      if (addSpecialTokens) affixes.before.forEach((id) => out.push(id))
      let spent = 0
      for (const piece of pieces) {
        if (typeof piece === "number") {
          out.push(piece)
          continue
        }
        for (let at = 0; at < piece.length;) {
          const until = Math.min(piece.length, at + stepSize - spent)
          const end = bpe.encode(piece, at, until, out)
          spent += end - at
          at = end
          if (spent >= stepSize) {
            spent = 0
            yield
          }
        }
      }
      if (addSpecialTokens) affixes.after.forEach((id) => out.push(id))
      return out.toArray()
    },
    decode: (ids, skip) =>
      new TextDecoder("utf-8", { ignoreBOM: true }).decode(table.concat(ids, skip ? special : undefined)),
    decoder: (skip) => {
      const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
      return {
        push: (ids) => decoder.decode(table.concat(ids, skip ? special : undefined), { stream: true }),
        end: () => decoder.decode()
      }
    },
    tokenBytes: (id) => table.get(id),
    has: (id) => table.has(id)
  }
}

/** @internal */
export const library = (options: {
  readonly library: Library
  readonly added: ReadonlyArray<AddedToken>
  readonly affixes: Affixes
}): Engine => {
  const { affixes, library } = options
  const splitters = {
    ordinary: new AddedTokens(options.added.filter((token) => !token.special).map((token) => [token.content, token])),
    none: new AddedTokens([])
  }
  // the stages one by one, because `encode` always looks for every added token
  const stages = (text: string, addSpecialTokens: boolean, splitter: AddedTokens): Int32Array => {
    const out = new IntBuffer((text.length >> 2) + 8)
    if (addSpecialTokens) affixes.before.forEach((id) => out.push(id))
    let section = 0
    splitter.split(text, (part) => {
      const normalized = library.normalizer === null ? part : library.normalizer(part)
      const words = library.pre_tokenizer === null
        ? [normalized]
        : library.pre_tokenizer(normalized, { section_index: section })
      section++
      for (const token of library.model(words)) {
        const id = library.model.tokens_to_ids.get(token) ?? library.model.unk_token_id
        if (id !== undefined) out.push(id)
      }
    }, (token) => {
      section++
      out.push(token.id)
    })
    if (addSpecialTokens) affixes.after.forEach((id) => out.push(id))
    return out.toArray()
  }
  const decode = (ids: Iterable<number>, skip: boolean): string => {
    const known = Array.from(ids).filter((id) => library.id_to_token(id) !== undefined)
    // the library refuses an empty list, and by default "cleans up" spaces the model wrote
    return known.length === 0
      ? ""
      : library.decode(known, { skip_special_tokens: skip, clean_up_tokenization_spaces: false })
  }
  return {
    *encode(text, addSpecialTokens, parseSpecial) {
      yield
      if (parseSpecial !== "all") return stages(text, addSpecialTokens, splitters[parseSpecial])
      const { ids } = library.encode(text, { add_special_tokens: addSpecialTokens })
      return Int32Array.from(ids.filter((id) => id !== undefined))
    },
    decode,
    decoder: (skip) => {
      // what tokens say may depend on their neighbours: decode a window and give out what the last token added
      let window: Array<number> = []
      let shown = ""
      let settled = 0
      const step = (id: number): string => {
        window.push(id)
        const text = decode(window, skip)
        if (text.length <= shown.length || text.endsWith("\ufffd")) return ""
        const fresh = text.slice(shown.length)
        const next = window.length - settled
        window = window.slice(settled)
        settled = next
        shown = decode(window, skip)
        return fresh
      }
      return {
        push: (ids) => {
          let text = ""
          for (const id of ids) text += step(id)
          return text
        },
        end: () => {
          const rest = decode(window, skip).slice(shown.length)
          window = []
          shown = ""
          settled = 0
          return rest
        }
      }
    },
    tokenBytes: () => undefined,
    has: (id) => library.id_to_token(id) !== undefined
  }
}

/** @internal */
export const run = (steps: Generator<undefined, Int32Array>): Int32Array => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
