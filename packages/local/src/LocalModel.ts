/**
 * The models the embedded backend can train. They are small decoder-only transformers with frozen random weights and
 * the letter statistics of a page of English: enough to learn a task in seconds, not enough to know anything.
 *
 * @since 0.1.0
 */
import * as LocalTokenizer from "./LocalTokenizer.js"

/**
 * A model by its measurements.
 *
 * @since 0.1.0
 * @category models
 */
export interface LocalModel {
  /** The name clients ask for. */
  readonly name: string
  /** The longest sequence, prompt and completion together, in tokens. */
  readonly contextLength: number
  readonly vocabularySize: number
  /** Width of the residual stream. */
  readonly width: number
  readonly layers: number
  readonly heads: number
  /** Width of the hidden layer of each block. */
  readonly hidden: number
}

/**
 * The smallest model: for tests and for a first try of a training loop.
 *
 * @since 0.1.0
 * @category models
 */
export const tiny: LocalModel = {
  name: "local/tiny",
  contextLength: 1024,
  vocabularySize: LocalTokenizer.vocabularySize,
  width: 64,
  layers: 2,
  heads: 2,
  hidden: 256
}

/**
 * The larger model, about three times slower than `tiny`: learns faster and remembers more.
 *
 * @since 0.1.0
 * @category models
 */
export const small: LocalModel = {
  name: "local/small",
  contextLength: 1024,
  vocabularySize: LocalTokenizer.vocabularySize,
  width: 96,
  layers: 3,
  heads: 3,
  hidden: 384
}

/**
 * All models, smallest first.
 *
 * @since 0.1.0
 * @category models
 */
export const all: ReadonlyArray<LocalModel> = [tiny, small]

/**
 * The number of frozen weights.
 *
 * @since 0.1.0
 * @category combinators
 */
export const parameterCount = (model: LocalModel): number =>
  2 * model.vocabularySize * model.width +
  model.layers * (4 * model.width * model.width + 2 * model.width * model.hidden)
