/**
 * What is computed over all elements, or along an axis.
 *
 * @since 0.1.0
 */
import { dual } from "effect/Function"
import * as Reduce from "../internal/autodiff/reduce.js"
import type { Operand, Value } from "../internal/autodiff/tape.js"
import * as Tape from "../internal/autodiff/tape.js"

/**
 * An axis: 0 for rows (or the only one of a vector), 1 for columns, -1 for the last.
 *
 * @since 0.1.0
 * @category models
 */
export type Axis = Reduce.Axis

/**
 * A function along an axis, data-first or data-last.
 *
 * @since 0.1.0
 * @category models
 */
export interface AlongAxis {
  (options: { readonly axis: Axis }): (self: Operand) => Value
  (self: Operand, options?: { readonly axis?: Axis | undefined }): Value
}

const isOperand = (u: unknown): boolean =>
  typeof u === "number" || Array.isArray(u) || ArrayBuffer.isView(u) || Tape.isValue(u)

const alongAxis = (op: (self: Operand, axis?: Axis) => Value): AlongAxis =>
  dual<
    (options: { readonly axis: Axis }) => (self: Operand) => Value,
    (self: Operand, options?: { readonly axis?: Axis | undefined }) => Value
  >((args) => isOperand(args[0]), (self, options) => op(self, options?.axis))

/**
 * Sum over everything, or along an axis.
 *
 * @since 0.1.0
 * @category combinators
 */
export const sum: AlongAxis = alongAxis(Reduce.sum)

/**
 * Mean over everything, or along an axis.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mean: AlongAxis = alongAxis(Reduce.mean)

/**
 * Largest element of everything, or along an axis; ties share the gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const max: AlongAxis = alongAxis(Reduce.max)

/**
 * Smallest element of everything, or along an axis; ties share the gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const min: AlongAxis = alongAxis(Reduce.min)

/**
 * `log(sum(exp(x)))` without overflow, over everything or along an axis.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logSumExp: AlongAxis = alongAxis(Reduce.logSumExp)

/**
 * Softmax along an axis, by default the last.
 *
 * @since 0.1.0
 * @category combinators
 */
export const softmax: AlongAxis = alongAxis(Reduce.softmax)

/**
 * Logarithm of the softmax along an axis, by default the last.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logSoftmax: AlongAxis = alongAxis(Reduce.logSoftmax)

/**
 * Running sum along an axis, by default the last.
 *
 * @since 0.1.0
 * @category combinators
 */
export const cumsum: AlongAxis = alongAxis(Reduce.cumsum)
