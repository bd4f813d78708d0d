/**
 * What is computed element by element: arithmetic, comparisons, and functions of one number.
 *
 * @since 0.1.0
 */
import { dual } from "effect/Function"
import * as Elementwise from "../internal/autodiff/elementwise.js"
import type { Operand, Value } from "../internal/autodiff/tape.js"

/**
 * A function of two operands, data-first or data-last.
 *
 * @since 0.1.0
 * @category models
 */
export interface Binary {
  (that: Operand): (self: Operand) => Value
  (self: Operand, that: Operand): Value
}

const binary = (op: (self: Operand, that: Operand) => Value): Binary =>
  dual<(that: Operand) => (self: Operand) => Value, (self: Operand, that: Operand) => Value>(2, op)

/**
 * Sum of two operands.
 *
 * @since 0.1.0
 * @category combinators
 */
export const add: Binary = binary(Elementwise.add)

/**
 * Difference of two operands.
 *
 * @since 0.1.0
 * @category combinators
 */
export const sub: Binary = binary(Elementwise.sub)

/**
 * Product of two operands, element by element.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mul: Binary = binary(Elementwise.mul)

/**
 * Quotient of two operands.
 *
 * @since 0.1.0
 * @category combinators
 */
export const div: Binary = binary(Elementwise.div)

/**
 * Power; the exponent is differentiated too, for positive bases.
 *
 * @since 0.1.0
 * @category combinators
 */
export const pow: Binary = binary(Elementwise.pow)

/**
 * The smaller of two operands, element by element; ties share the gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const minimum: Binary = binary(Elementwise.minimum)

/**
 * The larger of two operands, element by element; ties share the gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const maximum: Binary = binary(Elementwise.maximum)

/**
 * 1 where greater, else 0; no gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const gt: Binary = binary(Elementwise.gt)

/**
 * 1 where greater or equal, else 0; no gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const gte: Binary = binary(Elementwise.gte)

/**
 * 1 where less, else 0; no gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const lt: Binary = binary(Elementwise.lt)

/**
 * 1 where less or equal, else 0; no gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const lte: Binary = binary(Elementwise.lte)

/**
 * 1 where equal, else 0; no gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const eq: Binary = binary(Elementwise.eq)

/**
 * Negation.
 *
 * @since 0.1.0
 * @category combinators
 */
export const neg: (self: Operand) => Value = Elementwise.neg

/**
 * Exponential.
 *
 * @since 0.1.0
 * @category combinators
 */
export const exp: (self: Operand) => Value = Elementwise.exp

/**
 * `exp(x) - 1`, exact for small `x`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const expm1: (self: Operand) => Value = Elementwise.expm1

/**
 * Natural logarithm.
 *
 * @since 0.1.0
 * @category combinators
 */
export const log: (self: Operand) => Value = Elementwise.log

/**
 * `log(1 + x)`, exact for small `x`.
 *
 * @since 0.1.0
 * @category combinators
 */
export const log1p: (self: Operand) => Value = Elementwise.log1p

/**
 * Square root.
 *
 * @since 0.1.0
 * @category combinators
 */
export const sqrt: (self: Operand) => Value = Elementwise.sqrt

/**
 * Square.
 *
 * @since 0.1.0
 * @category combinators
 */
export const square: (self: Operand) => Value = Elementwise.square

/**
 * Absolute value; derivative 0 at 0.
 *
 * @since 0.1.0
 * @category combinators
 */
export const abs: (self: Operand) => Value = Elementwise.abs

/**
 * Hyperbolic tangent.
 *
 * @since 0.1.0
 * @category combinators
 */
export const tanh: (self: Operand) => Value = Elementwise.tanh

/**
 * `max(x, 0)`; derivative 0 at 0.
 *
 * @since 0.1.0
 * @category combinators
 */
export const relu: (self: Operand) => Value = Elementwise.relu

/**
 * Logistic function.
 *
 * @since 0.1.0
 * @category combinators
 */
export const sigmoid: (self: Operand) => Value = Elementwise.sigmoid

/**
 * `log(1 + exp(x))` without overflow.
 *
 * @since 0.1.0
 * @category combinators
 */
export const softplus: (self: Operand) => Value = Elementwise.softplus

/**
 * `log(sigmoid(x))` without underflow.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logSigmoid: (self: Operand) => Value = Elementwise.logSigmoid

/**
 * The same numbers, but no gradient flows back through them.
 *
 * @since 0.1.0
 * @category combinators
 */
export const detach: (self: Operand) => Value = Elementwise.detach

/**
 * Limits to `[low, high]`; the gradient passes inside and on the bounds, and stops outside.
 *
 * @since 0.1.0
 * @category combinators
 */
export const clip: {
  (low: number, high: number): (self: Operand) => Value
  (self: Operand, low: number, high: number): Value
} = dual(3, Elementwise.clip)

/**
 * `whenTrue` where the condition is not 0, else `whenFalse`; the gradient goes to the chosen side only.
 *
 * @since 0.1.0
 * @category combinators
 */
export const where: (condition: Operand, whenTrue: Operand, whenFalse: Operand) => Value = Elementwise.where
