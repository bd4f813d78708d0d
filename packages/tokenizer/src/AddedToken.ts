/**
 * A token that is matched in text as a whole, before the vocabulary is asked: control tokens and other fixed spellings.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const flag = (key: string) => Schema.optionalWith(Schema.Boolean, { default: () => false }).pipe(Schema.fromKey(key))

/**
 * An entry of `added_tokens` in a `tokenizer.json`.
 *
 * @since 0.1.0
 * @category models
 */
export class AddedToken extends Schema.Class<AddedToken>("@effect-tinker/tokenizer/AddedToken")({
  id: Schema.NonNegativeInt,
  content: Schema.String,
  /** Control tokens are special: `skipSpecialTokens` leaves them out of decoded text. */
  special: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  /** Whether it is looked for in the normalized text; without it, exactly the tokens that are not special are. */
  normalized: Schema.optional(Schema.Boolean),
  /** Whether it swallows the whitespace before it. */
  lstrip: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  /** Whether it swallows the whitespace after it. */
  rstrip: Schema.optionalWith(Schema.Boolean, { default: () => false }),
  /** Whether it only counts between word boundaries. */
  singleWord: flag("single_word")
}) {
  /** {@link AddedToken.normalized} with its default applied. */
  get isNormalized(): boolean {
    return this.normalized ?? !this.special
  }
}
