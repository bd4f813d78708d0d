/**
 * Texts of tokens, one by one.
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"

/** A token that ends inside a character is empty; the one that completes the character has all of it. @internal */
export const texts = (tokenizer: Tokenizer.Tokenizer, ids: ReadonlyArray<number>): ReadonlyArray<string> => {
  const decoding = tokenizer.decoder({ skipSpecialTokens: false })
  return ids.map((id, i) => decoding.push([id]) + (i === ids.length - 1 ? decoding.end() : ""))
}
