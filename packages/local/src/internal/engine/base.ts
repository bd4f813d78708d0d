/**
 * The frozen part of a model: embeddings, weight matrices, rotation tables and the bigram prior.
 */
import * as LocalTokenizer from "../../LocalTokenizer.js"
import { paragraphs } from "./corpus.js"
import { add, at } from "./floats.js"
import { fillRandom, makeRandom } from "./random.js"
import type { Shape } from "./shape.js"
import type { Work } from "./work.js"

/** @internal */
export interface Base {
  readonly shape: Shape
  /** One row of `width` floats per token. */
  readonly embedding: Float32Array
  /** All matrices, where the shape says. */
  readonly weights: Float32Array
}

// Of a context seen c times, this many observations come from the frequencies of single tokens.
const smoothing = 12
// Every byte counts as seen this often, so that no text is out of reach.
const floor = 0.3

/** By rows: log p(next | previous) over the corpus, documents separated by the end token. @internal */
export const bigramPrior = (vocabulary: number): Float32Array => {
  const end = LocalTokenizer.specialTokens["<|endoftext|>"]
  const single = new Float32Array(vocabulary).fill(floor)
  const pairs = new Float32Array(vocabulary * vocabulary)
  const contexts = new Float32Array(vocabulary)
  let total = floor * vocabulary
  for (const paragraph of paragraphs) {
    let previous: number = end
    for (const token of [...LocalTokenizer.encode(paragraph), end]) {
      add(pairs, previous * vocabulary + token, 1)
      add(contexts, previous, 1)
      add(single, token, 1)
      total++
      previous = token
    }
  }
  for (let previous = 0; previous < vocabulary; previous++) {
    const seen = at(contexts, previous) + smoothing
    for (let next = 0; next < vocabulary; next++) {
      const index = previous * vocabulary + next
      pairs[index] = Math.log((at(pairs, index) + smoothing * at(single, next) / total) / seen)
    }
  }
  return pairs
}

/** Makes the frozen weights of a model; always the same ones. @internal */
export function* makeBase(shape: Shape): Work<Base> {
  const { layers, vocabularySize, width } = shape.model
  const random = makeRandom(0x71e4, width)
  const embedding = new Float32Array(vocabularySize * width)
  fillRandom(embedding, 1, random)
  yield
  const weights = new Float32Array(shape.size)
  for (const matrix of shape.matrices) {
    // What is added to the residual stream is scaled by depth; a quiet head lets the prior speak first.
    const quiet = matrix.name === "unembed"
      ? 0.3
      : /attn\.out|mlp\.down/.test(matrix.name)
      ? 1 / Math.sqrt(2 * layers)
      : 1
    fillRandom(
      weights.subarray(matrix.offset, matrix.offset + matrix.rows * matrix.columns),
      quiet / Math.sqrt(matrix.rows),
      random
    )
    yield
  }
  return { shape, embedding, weights }
}

/** The angles by which pair i of a head is rotated at position p, at `p * headSize / 2 + i`. @internal */
export const rotations = (shape: Shape, of: (angle: number) => number): Float32Array => {
  const half = shape.headSize / 2
  const table = new Float32Array(shape.model.contextLength * half)
  for (let pair = 0; pair < half; pair++) {
    const speed = Math.pow(10000, -pair / half)
    for (let index = pair, position = 0; index < table.length; index += half, position++) {
      table[index] = of(position * speed)
    }
  }
  return table
}
