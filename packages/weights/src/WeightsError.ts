/**
 * Why weights cannot be read, combined or written.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A file is not what its name promises: damaged, cut off, or in a format we do not read.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidFile extends Schema.TaggedError<InvalidFile>("@effect-tinker/weights/InvalidFile")("InvalidFile", {
  path: Schema.String,
  description: Schema.String
}) {
  override get message(): string {
    return `${this.path}: ${this.description}`
  }
}

/**
 * The adapter does not fit the base model: a tensor it changes is missing there, or has another shape.
 *
 * @since 0.1.0
 * @category errors
 */
export class AdapterMismatch extends Schema.TaggedError<AdapterMismatch>("@effect-tinker/weights/AdapterMismatch")(
  "AdapterMismatch",
  { tensor: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return `${this.tensor}: ${this.description}. Is this the base model the adapter was trained on?`
  }
}

/**
 * The model, or what is asked of it, is not supported. The description says what to do instead.
 *
 * @since 0.1.0
 * @category errors
 */
export class Unsupported extends Schema.TaggedError<Unsupported>("@effect-tinker/weights/Unsupported")("Unsupported", {
  description: Schema.String
}) {
  override get message(): string {
    return this.description
  }
}

/**
 * The output path is taken.
 *
 * @since 0.1.0
 * @category errors
 */
export class OutputExists extends Schema.TaggedError<OutputExists>("@effect-tinker/weights/OutputExists")(
  "OutputExists",
  { path: Schema.String }
) {
  override get message(): string {
    return `${this.path} already exists; choose another output or remove it first`
  }
}

/**
 * The base model is not on this machine.
 *
 * @since 0.1.0
 * @category errors
 */
export class ModelNotFound extends Schema.TaggedError<ModelNotFound>("@effect-tinker/weights/ModelNotFound")(
  "ModelNotFound",
  { model: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return `${this.model}: ${this.description}`
  }
}

/**
 * Every error of this package.
 *
 * @since 0.1.0
 * @category errors
 */
export type WeightsError = InvalidFile | AdapterMismatch | Unsupported | OutputExists | ModelNotFound
