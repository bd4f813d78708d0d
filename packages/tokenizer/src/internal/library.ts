/**
 * The parts of `@huggingface/tokenizers` that are used. Its own declarations do not resolve from ES modules, so what is
 * leaned on is written down here; {@link Tokenizer.fromHuggingFace} compares results at load.
 */
import * as HuggingFace from "@huggingface/tokenizers"

/** @internal */
export interface Library {
  readonly normalizer: ((text: string) => string) | null
  readonly pre_tokenizer: {
    (text: string, options: { readonly section_index: number }): Array<string>
    /** The compiled regular expression of a `Split`. */
    readonly pattern?: RegExp | null | undefined
  } | null
  readonly model: {
    (words: Array<string>): Array<string>
    readonly tokens_to_ids: Map<string, number>
    readonly unk_token_id: number | undefined
  }
  readonly post_processor:
    | ((tokens: Array<string>, pair: null, addSpecialTokens: boolean) => { readonly tokens: Array<string> })
    | null
  readonly encode: (
    text: string,
    options: { readonly add_special_tokens: boolean }
  ) => { readonly ids: Array<number | undefined> }
  readonly decode: (
    ids: Array<number>,
    options: { readonly skip_special_tokens: boolean; readonly clean_up_tokenization_spaces: boolean }
  ) => string
  readonly id_to_token: (id: number) => string | undefined
  readonly token_to_id: (token: string) => number | undefined
}

const Constructor: new(tokenizerJson: object, tokenizerConfig: object) => Library = HuggingFace.Tokenizer

/** @internal */
export const make = (tokenizerJson: object, tokenizerConfig: object): Library =>
  // it wants every key to exist
  new Constructor({
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    added_tokens: [],
    ...tokenizerJson
  }, tokenizerConfig)

/**
 * Compiles a pattern written for Oniguruma (or, with `String`, a literal) to a JavaScript one.
 *
 * @internal
 */
export const compilePattern = (pattern: object): RegExp | null =>
  make({
    model: { type: "BPE", vocab: {}, merges: [] },
    pre_tokenizer: { type: "Split", pattern, behavior: "Isolated", invert: false }
  }, {}).pre_tokenizer?.pattern ?? null
