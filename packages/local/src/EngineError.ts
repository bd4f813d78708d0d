/**
 * What the engine refuses to do, and why.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The request does not fit the model or contradicts itself: a token that does not exist, a sequence that is too long,
 * tensors whose shapes do not match, a setting out of range.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidRequest
  extends Schema.TaggedError<InvalidRequest>("@effect-tinker/local/EngineError/InvalidRequest")(
    "InvalidRequest",
    { description: Schema.String }
  )
{
  override get message(): string {
    return this.description
  }
}

/**
 * No model of that name.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnknownModel extends Schema.TaggedError<UnknownModel>("@effect-tinker/local/EngineError/UnknownModel")(
  "UnknownModel",
  { name: Schema.String, known: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `unknown model ${JSON.stringify(this.name)}; this backend has ${this.known.join(", ")}`
  }
}

/**
 * The service knows this, the embedded engine does not.
 *
 * @since 0.1.0
 * @category errors
 */
export class Unsupported extends Schema.TaggedError<Unsupported>("@effect-tinker/local/EngineError/Unsupported")(
  "Unsupported",
  { description: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

/**
 * The files of a model are missing, damaged, of a kind the engine does not know, or too large for this machine.
 *
 * @since 0.1.0
 * @category errors
 */
export class ModelUnavailable
  extends Schema.TaggedError<ModelUnavailable>("@effect-tinker/local/EngineError/ModelUnavailable")(
    "ModelUnavailable",
    { model: Schema.String, description: Schema.String }
  )
{
  override get message(): string {
    return `${this.model}: ${this.description}`
  }
}

/**
 * The numbers left the range of floats, usually after steps that were too large. Nothing was changed by the request.
 *
 * @since 0.1.0
 * @category errors
 */
export class NotFinite extends Schema.TaggedError<NotFinite>("@effect-tinker/local/EngineError/NotFinite")(
  "NotFinite",
  { description: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

/**
 * Everything the engine fails with.
 *
 * @since 0.1.0
 * @category errors
 */
export type EngineError = InvalidRequest | UnknownModel | Unsupported | ModelUnavailable | NotFinite

/**
 * The same as a schema.
 *
 * @since 0.1.0
 * @category schemas
 */
export const EngineError: Schema.Union<
  [typeof InvalidRequest, typeof UnknownModel, typeof Unsupported, typeof ModelUnavailable, typeof NotFinite]
> = Schema.Union(InvalidRequest, UnknownModel, Unsupported, ModelUnavailable, NotFinite)
