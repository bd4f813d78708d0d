/**
 * The same elements elsewhere: joined, cut, picked, in another shape.
 *
 * @since 0.1.0
 */
import { dual } from "effect/Function"
import * as Layout from "../internal/autodiff/layout.js"
import type { Operand, Shape, Value } from "../internal/autodiff/tape.js"
import * as Tape from "../internal/autodiff/tape.js"
import type { Axis } from "./Reductions.js"

/**
 * Joins vectors end to end, or matrices along an axis (by default the first).
 *
 * @since 0.1.0
 * @category combinators
 */
export const concat = (operands: ReadonlyArray<Operand>, options?: { readonly axis?: Axis | undefined }): Value =>
  Layout.concat(operands, options?.axis ?? 0)

/**
 * Scalars become a vector, vectors of one length the rows of a matrix.
 *
 * @since 0.1.0
 * @category combinators
 */
export const stack: (operands: ReadonlyArray<Operand>) => Value = Layout.stack

/**
 * The elements from `start` up to, not including, `end` along an axis (by default the first); negative counts from the
 * end, as in `Array.slice`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const slice: {
  (start: number, end?: number, options?: { readonly axis?: Axis | undefined }): (self: Operand) => Value
  (self: Value, start: number, end?: number, options?: { readonly axis?: Axis | undefined }): Value
} = dual(
  (args) => Tape.isValue(args[0]),
  (self: Operand, start: number, end?: number, options?: { readonly axis?: Axis | undefined }) =>
    Layout.slice(self, start, end, options?.axis ?? 0)
)

/**
 * Element of a vector as a scalar, or row of a matrix as a vector; negative counts from the end.
 *
 * @since 0.1.0
 * @category combinators
 */
export const at: {
  (index: number): (self: Operand) => Value
  (self: Operand, index: number): Value
} = dual(2, Layout.at)

/**
 * The same elements in another shape, row by row.
 *
 * @since 0.1.0
 * @category combinators
 */
export const reshape: {
  (shape: Shape): (self: Operand) => Value
  (self: Operand, shape: Shape): Value
} = dual(2, Layout.reshape)

/**
 * Rows become columns.
 *
 * @since 0.1.0
 * @category combinators
 */
export const transpose: (self: Operand) => Value = Layout.transpose
