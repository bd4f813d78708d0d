/**
 * Checks on what comes from outside: tokens that exist, tensors that have the shape they claim, numbers that are
 * numbers. One loop per array.
 */
import * as Either from "effect/Either"
import { InvalidRequest } from "../../EngineError.js"
import type { Tensor } from "../../LocalAdapter.js"

/** @internal */
export type Checked<A> = Either.Either<A, InvalidRequest>

/** @internal */
export const invalid = (description: string): Either.Either<never, InvalidRequest> =>
  Either.left(new InvalidRequest({ description }))

/** @internal */
export const elementCount = (shape: ReadonlyArray<number>): number => shape.reduce((product, size) => product * size, 1)

/** Values as 32-bit token ids within the vocabulary, or at least `lowest`. @internal */
export const checkTokens = (
  values: Tensor["data"],
  vocabulary: number,
  what: string,
  lowest = 0
): Checked<Int32Array> => {
  const tokens = new Int32Array(values.length)
  for (let i = 0; i < values.length; i++) {
    const token = Number(values[i])
    if (!Number.isInteger(token) || token < lowest || token >= vocabulary) {
      return invalid(
        `${what}: token ${token} at position ${i} is outside the vocabulary of ${vocabulary}; ` +
          "the local models read bytes and a few special tokens, use their own tokenizer"
      )
    }
    tokens[i] = token
  }
  return Either.right(tokens)
}

/** Values as finite floats. @internal */
export const checkFloats = (values: Tensor["data"], what: string): Checked<Float32Array> => {
  const floats = new Float32Array(values.length)
  for (let i = 0; i < values.length; i++) {
    const value = Number(values[i])
    if (!Number.isFinite(value)) return invalid(`${what}: the value at position ${i} is ${value}`)
    floats[i] = value
  }
  return Either.right(floats)
}

/** That a tensor holds as many values as its shape says. @internal */
export const checkShape = (tensor: Tensor, what: string): Checked<Tensor> =>
  tensor.shape.every((size) => Number.isInteger(size) && size >= 0) &&
    elementCount(tensor.shape) === tensor.data.length
    ? Either.right(tensor)
    : invalid(`${what}: ${tensor.data.length} values do not fill the shape [${tensor.shape.join(", ")}]`)
