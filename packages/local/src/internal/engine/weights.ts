/**
 * The frozen part of a model, written into its memory: random matrices or those of a checkpoint, rotation tables, and for the random
 * models the bigram prior.
 */
import * as Effect from "effect/Effect"
import type { ModelUnavailable } from "../../EngineError.js"
import type { LocalModel, Rotation } from "../../LocalModel.js"
import * as LocalTokenizer from "../../LocalTokenizer.js"
import type { Architecture, Part, Projection } from "./architecture.js"
import { paragraphs } from "./corpus.js"
import type { FilePrecision, Store } from "./frozen.js"
import { narrow, quantizeRow, widenInto } from "./frozen.js"
import type { Native } from "./native.js"
import { add, at, fillRandom, makeRandom } from "./numbers.js"
import type { TokenBytes } from "./sampling.js"
import type { Slices } from "./slices.js"
import type { Layout, RotationTable, Work } from "./space.js"

// Of a context seen c times, this many observations come from the frequencies of single tokens.
const smoothing = 12
// Every byte counts as seen this often, so that no text is out of reach.
const floor = 0.3

/** By rows: log p(next | previous) over the corpus, documents separated by the end token. */
const bigramPrior = (vocabulary: number): Float32Array => {
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

/** How fast each pair of a head turns, in radians per position. */
const frequencies = ({ divisors, theta }: Rotation, rotated: number): ReadonlyArray<number> =>
  Array.from({ length: rotated / 2 }, (_, pair) => Math.pow(theta, -2 * pair / rotated) / (divisors?.[pair] ?? 1))

/** Writes the angles by which pair i of the rotated part of a head is rotated at position p, at `p * pairs + i`. */
function* writeRotation(
  { contextLength, headSize }: LocalModel,
  rotation: Rotation,
  table: RotationTable,
  memory: Float32Array
): Work<void> {
  const rotated = rotation.dimensions ?? headSize
  const half = rotated / 2
  const scale = rotation.scale ?? 1
  for (const [pair, speed] of frequencies(rotation, rotated).entries()) {
    for (let position = 0; position < contextLength; position++) {
      memory[table.cosine + position * half + pair] = scale * Math.cos(position * speed)
      memory[table.sine + position * half + pair] = scale * Math.sin(position * speed)
    }
    yield
  }
}

/** Values as a file has them. */
type Values = Float32Array | Uint16Array

/** Where matrices are written to: into the memory, or into a store outside of it. */
interface Target {
  /** Values of a part's matrix, given by rows of outputs, from position `offset` of the matrix. */
  readonly part: (projection: Projection, part: Part, values: Values, offset: number) => void
  /** Rows of the embedding table. */
  readonly embedding: (values: Values, offset: number) => void
}

/** Writes values by rows of outputs into panels of eight outputs, which begin at `start`. */
const writePanels = <A extends Values>(
  panels: A,
  start: number,
  inputs: number,
  firstOutput: number,
  values: A,
  offset: number
): void => {
  let output = firstOutput + Math.floor(offset / inputs)
  let input = offset % inputs
  let to = start + (output >> 3) * inputs * 8 + (output & 7) + input * 8
  for (let i = 0; i < values.length; i++) {
    panels[to] = values[i] ?? 0
    to += 8
    if (++input === inputs) {
      input = 0
      output++
      to = start + (output >> 3) * inputs * 8 + (output & 7)
    }
  }
}

const floatsOf = (precision: FilePrecision, values: Values): Float32Array => {
  if (values instanceof Float32Array) return values
  const floats = new Float32Array(values.length)
  widenInto(precision, values, 0, floats, 0, values.length)
  return floats
}

const insideTarget = (
  { embedding, model }: Architecture,
  layout: Layout,
  memory: Float32Array
): Target => {
  const precision = model.weights?.precision ?? "f32"
  return {
    part: ({ inputs, offset: start }, { shift }, values, offset) =>
      writePanels(memory, layout.weights + start, inputs, shift, floatsOf(precision, values), offset),
    embedding: (values, offset) => memory.set(floatsOf(precision, values), layout.weights + (embedding ?? 0) + offset)
  }
}

/** Writes pieces of a part's matrix as numbers of eight bits; a row is written when all of it has come. */
const makeQuantizer = (filePrecision: FilePrecision) => {
  let row = new Float32Array(0)
  let filled = 0
  return (matrix: Int8Array, inputs: number, firstOutput: number, values: Values, offset: number): void => {
    const floats = floatsOf(filePrecision, values)
    if (row.length !== inputs) row = new Float32Array(inputs)
    filled = offset % inputs
    for (let from = 0; from < floats.length;) {
      const count = Math.min(inputs - filled, floats.length - from)
      row.set(floats.subarray(from, from + count), filled)
      from += count
      filled += count
      if (filled < inputs) return
      quantizeRow(matrix, inputs, firstOutput + (offset + from) / inputs - 1, row)
      filled = 0
    }
  }
}

const outsideTarget = (store: Store, native: Native | undefined): Target => {
  const { filePrecision } = store
  const stored = (values: Values): Values => values instanceof Float32Array ? narrow(filePrecision, values) : values
  const quantize = makeQuantizer(filePrecision)
  return {
    part: ({ index, inputs }, { shift }, values, offset) => {
      const panels = store.projections[index]
      if (panels instanceof Int8Array) return quantize(panels, inputs, shift, values, offset)
      const narrowed = stored(values)
      if (panels instanceof Uint16Array && narrowed instanceof Uint16Array) {
        const whole = offset % inputs === 0 && narrowed.length % inputs === 0
        if (native !== undefined && whole) {
          const first = shift + offset / inputs
          native.panels(panels, narrowed, inputs, first, first + narrowed.length / inputs)
        } else writePanels(panels, 0, inputs, shift, narrowed, offset)
      } else if (panels instanceof Float32Array && narrowed instanceof Float32Array) {
        writePanels(panels, 0, inputs, shift, narrowed, offset)
      }
    },
    embedding: (values, offset) => store.embedding?.set(stored(values), offset)
  }
}

/** Random weights; always the same ones for the same measures. */
function* writeRandom(
  architecture: Architecture,
  layout: Layout,
  memory: Float32Array,
  target: Target
): Work<void> {
  const { embedding, gains, model: { layers, vocabularySize, width }, projections } = architecture
  const random = makeRandom(0x71e4, width)
  if (embedding !== undefined) {
    const values = new Float32Array(vocabularySize * width)
    fillRandom(values, 1, random)
    target.embedding(values, 0)
    yield
  }
  for (const projection of projections) {
    for (const part of projection.parts) {
      // What is added to the residual stream is scaled by depth; a quiet head lets the prior speak first.
      const quiet = part.name === "lm_head" ? 0.3 : /o_proj|down_proj/.test(part.name) ? 1 / Math.sqrt(2 * layers) : 1
      const values = new Float32Array(part.inputs * part.outputs)
      fillRandom(values, quiet / Math.sqrt(part.inputs), random)
      target.part(projection, part, values, 0)
      yield
    }
  }
  for (const { length, name, offset } of gains) {
    memory.fill(name.endsWith(".bias") ? 0 : 1, layout.weights + offset, layout.weights + offset + length)
  }
}

/** Writes the weights of a model into its memory, and its store where it has one, in slices of time. @internal */
export const writeWeights = Effect.fnUntraced(function*(
  architecture: Architecture,
  layout: Layout,
  memory: Float32Array,
  store: Store | undefined,
  native: Native | undefined,
  run: Slices["run"]
): Effect.fn.Return<void, ModelUnavailable> {
  const { embedding, gains, model, projections } = architecture
  const [rotation, localRotation] = layout.rotations
  yield* run(() => writeRotation(model, model.rotation, rotation, memory))
  const { local } = model
  if (local !== undefined) yield* run(() => writeRotation(model, local.rotation, localRotation, memory))
  const target = store === undefined ? insideTarget(architecture, layout, memory) : outsideTarget(store, native)
  if (model.weights === undefined) {
    yield* run(function*() {
      yield* writeRandom(architecture, layout, memory, target)
      if (model.family === "local") memory.set(bigramPrior(model.vocabularySize), layout.prior)
    })
    return
  }
  const { precision, read } = model.weights
  for (const projection of projections) {
    for (const part of projection.parts) {
      const tensor = part.name === "lm_head" && model.tiedEmbeddings ? "model.embed_tokens" : part.name
      yield* read(`${tensor}.weight`, (values, offset) => target.part(projection, part, values, offset))
    }
  }
  for (const { name, offset } of gains) {
    yield* read(
      name,
      (values, from) => memory.set(floatsOf(precision, values), layout.weights + offset + from)
    )
  }
  if (embedding !== undefined) yield* read("model.embed_tokens.weight", target.embedding)
})

/** The bytes of every token of a model. @internal */
export const tokenBytesOf = ({ tokenizer, vocabularySize }: LocalModel): TokenBytes => {
  const encoder = new TextEncoder()
  const pieces = Array.from({ length: vocabularySize }, (_, token): Uint8Array => {
    if (tokenizer === undefined) return LocalTokenizer.tokenBytes(token)
    const exact = tokenizer.tokenBytes(token)
    return exact._tag === "Some" ? exact.value : encoder.encode(tokenizer.decode([token]))
  })
  const ends = new Int32Array(vocabularySize)
  let size = 0
  pieces.forEach((piece, token) => ends[token] = size += piece.length)
  const bytes = new Uint8Array(size)
  pieces.forEach((piece, token) => bytes.set(piece, intBefore(ends, token)))
  return { bytes, ends }
}

const intBefore = (ends: Int32Array, token: number): number => token === 0 ? 0 : ends[token - 1] ?? 0
