/**
 * Which adapters a model in training gets.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { optional, strict, withDefault } from "./internal/wire/json.js"

/**
 * A LoRA adapter: its rank and the layers it covers.
 *
 * @since 0.1.0
 * @category schemas
 */
export class LoraConfig extends Schema.Class<LoraConfig>("effect-tinker/LoraConfig")({
  /** Rank of the update; the service takes powers of two. */
  rank: Schema.Int.pipe(Schema.positive()),
  /** Seed of the initial weights. The service picks one when absent. */
  seed: optional(Schema.Int, "seed"),
  /** Adapt the unembedding layer. Defaults to `true`. */
  trainUnembed: withDefault(Schema.Boolean, "train_unembed", () => true),
  /** Adapt the MLP layers. Defaults to `true`. */
  trainMlp: withDefault(Schema.Boolean, "train_mlp", () => true),
  /** Adapt the attention layers. Defaults to `true`. */
  trainAttn: withDefault(Schema.Boolean, "train_attn", () => true)
}, strict) {}
