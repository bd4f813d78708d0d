/**
 * Arithmetic on arrays as long as an adapter, in pieces between which a thread can do something else.
 */
import { squares } from "./adamw.js"
import type { Native } from "./native.js"
import { add, at } from "./numbers.js"
import type { Work } from "./space.js"

// Numbers handled between two pauses: less than a millisecond.
const stride = 1 << 15

/** Runs a loop over many numbers in pieces. @internal */
export function* inPieces(length: number, body: (from: number, to: number) => void): Work<void> {
  for (let from = 0; from < length; from += stride) {
    body(from, Math.min(length, from + stride))
    yield
  }
}

const addPiece: Native["add"] = (target, source, from, to) => {
  for (let i = from; i < to; i++) add(target, i, at(source, i))
}

/** `target` += `source`. @internal */
export type AddInto = (target: Float32Array, source: Float32Array) => Work<void>

/** With the same bits whether there are native kernels or not. @internal */
export const makeAddInto = (native: Native | undefined): AddInto => {
  const { add } = native ?? { add: addPiece }
  return (target, source) => inPieces(source.length, (from, to) => add(target, source, from, to))
}

/** The norm of a gradient. @internal */
export function* norm(gradient: Float32Array): Work<number> {
  let sum = 0
  yield* inPieces(gradient.length, (from, to) => sum += squares(gradient, from, to))
  return Math.sqrt(sum)
}
