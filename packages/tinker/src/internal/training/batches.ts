/** The size of a batch on the wire, and how it is split into requests. */
import type { Datum } from "../../Datum.js"
import type { Chunk, ModelInput } from "../../ModelInput.js"
import type { TensorData } from "../../TensorData.js"
import type { Output } from "../../wire/ForwardBackward.js"
import type { PassForm } from "../transport/serverFacts.js"

// -----------------------------------------------------------------------------
// Combines the results of a batch's requests into one.
// -----------------------------------------------------------------------------

const average = (values: ReadonlyArray<number>, weights: ReadonlyArray<number>): number => {
  let total = 0
  let sum = 0
  for (let i = 0; i < values.length; i++) {
    const weight = weights[i] ?? 0
    total += weight
    sum += weight * (values[i] ?? 0)
  }
  // requests that all came back without a record count alike
  return total === 0 ? average(values, values.map(() => 1)) : sum / total
}

const MASK = 2n ** 64n - 1n
const P1 = 11400714785074694791n
const P2 = 14029467366897019727n
const P5 = 2870177450012600261n
const INT_MODULUS = 2n ** 61n - 1n

/** Integers of the values, or undefined when one has none. */
const integers = (values: ReadonlyArray<number>): Array<bigint> | undefined =>
  values.every((value) => Number.isFinite(value)) ? values.map((value) => BigInt(Math.trunc(value))) : undefined

const hashInt = (value: bigint): bigint => {
  const magnitude = (value < 0n ? -value : value) % INT_MODULUS
  const hash = value < 0n ? -magnitude : magnitude
  return hash === -1n ? -2n : hash
}

/**
 * The hash CPython gives to a tuple of integers, so that a metric has the same value from either SDK.
 *
 * @internal
 */
export const hashTuple = (items: ReadonlyArray<bigint>): bigint => {
  let acc = P5
  for (const item of items) {
    acc = (acc + (hashInt(item) & MASK) * P2) & MASK
    acc = ((acc << 31n) | (acc >> 33n)) & MASK
    acc = (acc * P1) & MASK
  }
  acc = (acc + (BigInt(items.length) ^ (P5 ^ 3527539n))) & MASK
  return acc === MASK ? 1546275796n : BigInt.asIntN(64, acc)
}

const ascending = (a: bigint, b: bigint): number => a < b ? -1 : a > b ? 1 : 0

type Reduce = (values: ReadonlyArray<number>, weights: ReadonlyArray<number>) => number

/** How a metric is combined, by what follows the colon of its name. */
const reductions: ReadonlyMap<string, Reduce> = new Map<string, Reduce>([
  ["mean", average],
  ["sum", (values) => values.reduce((sum, value) => sum + value, 0)],
  ["min", (values) => Math.min(...values)],
  ["max", (values) => Math.max(...values)],
  ["slack", (values, weights) => Math.max(...values) - average(values, weights)],
  ["hash_unordered", (values) => {
    const sorted = integers(values)?.sort(ascending)
    return sorted === undefined ? NaN : Number(hashTuple(sorted))
  }],
  ["hash2", (values) => {
    const whole = integers(values)
    return whole === undefined ? NaN : Number(whole.reduce((sum, value) => (sum + value) & MASK, 0n))
  }]
])

const metrics = (outputs: ReadonlyArray<Output>): Record<string, number> => {
  const weights = outputs.map((output) => output.lossFnOutputs.length)
  const combined: Array<[string, number]> = []
  for (const key of Object.keys(outputs[0]?.metrics ?? {})) {
    const values: Array<number> = []
    for (const output of outputs) {
      const value = Object.hasOwn(output.metrics, key) ? output.metrics[key] : undefined
      if (value !== undefined) values.push(value)
    }
    if (values.length < outputs.length) continue
    const colon = key.lastIndexOf(":")
    const suffix = colon < 0 ? "" : key.slice(colon + 1)
    const reduce = reductions.get(suffix)
    if (reduce !== undefined) combined.push([key, reduce(values, weights)])
    else if (suffix === "unique") {
      values.forEach((value, i) => combined.push([i === 0 ? key : `${key}_${i}`, value]))
    }
  }
  return Object.fromEntries(combined)
}

/**
 * Records in the order of the requests; metrics by the reduction their name ends with, those of no known reduction or
 * not in every result left out.
 *
 * @internal
 */
export const combine = (outputs: ReadonlyArray<Output>): Output => ({
  lossFnOutputType: outputs[0]?.lossFnOutputType ?? "",
  lossFnOutputs: outputs.length === 1 ? outputs[0]?.lossFnOutputs ?? [] : outputs.flatMap((o) => o.lossFnOutputs),
  metrics: metrics(outputs)
})

// -----------------------------------------------------------------------------
// Splitting.
// -----------------------------------------------------------------------------

/** Bytes of a chunk, given what a token takes. */
const chunkBytes = (chunk: Chunk, perToken: number): number => {
  switch (chunk.type) {
    case "encoded_text":
      return chunk.tokens.length * perToken
    case "image":
      return chunk.data.length
    case "dmel":
      return chunk.dmel.length
    case "image_asset_pointer":
      return chunk.location.length
  }
}

const inputBytes = (input: ModelInput, perToken: number): number => {
  let total = 0
  for (const chunk of input.chunks) total += chunkBytes(chunk, perToken)
  return total
}

/**
 * Estimated size of a prompt in JSON, where a token takes about ten characters.
 *
 * @internal
 */
export const promptBytes = (input: ModelInput): number => inputBytes(input, 10)

const tensorBytes = (tensor: TensorData): number =>
  tensor.data.length * (tensor.dtype === "float32" ? 4 : 8) +
  8 * ((tensor.crowIndices?.length ?? 0) + (tensor.colIndices?.length ?? 0))

/** In JSON tensors go dense, and a number takes about ten characters. */
const tensorJsonBytes = (tensor: TensorData): number => 10 * tensor.shape.reduce((size, length) => size * length, 1)

/**
 * Estimated size of an example on the wire: its payloads, without the framing.
 *
 * @internal
 */
export const datumBytes = (datum: Datum, form: PassForm = "protobuf"): number => {
  let total = inputBytes(datum.modelInput, form === "json" ? 10 : 4)
  for (const key in datum.lossFnInputs) {
    const tensor = datum.lossFnInputs[key]
    if (tensor !== undefined) total += form === "json" ? tensorJsonBytes(tensor) : tensorBytes(tensor)
  }
  return total
}

interface Limits {
  /** Examples per request. Defaults to 1024. */
  readonly maxCount?: number | undefined
  /** Estimated bytes per request; a larger example goes alone. Defaults to 5,000,000. */
  readonly maxBytes?: number | undefined
  /** Defaults to protobuf. */
  readonly form?: PassForm | undefined
}

/** @internal */
export interface Batch {
  readonly data: ReadonlyArray<Datum>
  readonly bytes: number
}

/**
 * The data in order, in as few requests as the limits allow.
 *
 * @internal
 */
export const split = (data: ReadonlyArray<Datum>, limits?: Limits): ReadonlyArray<Batch> => {
  const maxCount = Math.max(1, limits?.maxCount ?? 1024)
  const maxBytes = limits?.maxBytes ?? 5_000_000
  const batches: Array<Batch> = []
  let current: Array<Datum> = []
  let bytes = 0
  for (const datum of data) {
    const size = datumBytes(datum, limits?.form)
    if (current.length >= maxCount || (current.length > 0 && bytes + size > maxBytes)) {
      batches.push({ data: current, bytes })
      current = []
      bytes = 0
    }
    current.push(datum)
    bytes += size
  }
  if (current.length > 0) batches.push({ data: current, bytes })
  return batches
}
