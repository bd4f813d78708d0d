/**
 * Refusals of the engine, and their reasons.
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
export class EngineUnsupported
  extends Schema.TaggedError<EngineUnsupported>("@effect-tinker/local/EngineError/EngineUnsupported")(
    "EngineUnsupported",
    { description: Schema.String }
  )
{
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
 * A worker thread ended in the middle of the request: it crashed, ran out of memory or was terminated. Nothing was
 * changed by the request, and the thread starts again with the next one.
 *
 * @since 0.1.0
 * @category errors
 */
export class ThreadLost extends Schema.TaggedError<ThreadLost>("@effect-tinker/local/EngineError/ThreadLost")(
  "ThreadLost",
  { model: Schema.String, cause: Schema.Defect }
) {
  override get message(): string {
    return `a worker thread of the engine ended while it computed with ${this.model} (${
      String(this.cause)
    }); nothing was changed, and the request can be sent again: the thread restarts. If it happens again, use fewer` +
      " threads, shorter sequences or a smaller activationBytes"
  }
}

/**
 * Everything the engine fails with.
 *
 * @since 0.1.0
 * @category errors
 */
export type EngineError = InvalidRequest | UnknownModel | EngineUnsupported | ModelUnavailable | NotFinite | ThreadLost

/**
 * The same as a schema.
 *
 * @since 0.1.0
 * @category schemas
 */
export const EngineError: Schema.Union<
  [
    typeof InvalidRequest,
    typeof UnknownModel,
    typeof EngineUnsupported,
    typeof ModelUnavailable,
    typeof NotFinite,
    typeof ThreadLost
  ]
> = Schema.Union(InvalidRequest, UnknownModel, EngineUnsupported, ModelUnavailable, NotFinite, ThreadLost)
