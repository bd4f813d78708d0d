/** What a batch weighs on the wire, and how it is cut into requests. */
import type { Datum } from "../../Datum.js"
import type { Chunk, ModelInput } from "../../ModelInput.js"
import type { TensorData } from "../../TensorData.js"

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

/**
 * Estimated size of an example in protobuf: its payloads, without the framing.
 *
 * @internal
 */
export const datumBytes = (datum: Datum): number => {
  let total = inputBytes(datum.modelInput, 4)
  for (const key in datum.lossFnInputs) {
    const tensor = datum.lossFnInputs[key]
    if (tensor !== undefined) total += tensorBytes(tensor)
  }
  return total
}

/** @internal */
export interface Limits {
  /** Examples per request. Defaults to 1024. */
  readonly maxCount?: number | undefined
  /** Estimated bytes per request; a larger example goes alone. Defaults to 5,000,000. */
  readonly maxBytes?: number | undefined
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
    const size = datumBytes(datum)
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
