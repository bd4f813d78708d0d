/**
 * Reverse-mode differentiation over numbers, vectors and matrices: enough to write a loss over per-token logprobs.
 *
 * Everything is a plain function of {@link Value}s in float64. Operands broadcast as in NumPy: a scalar with anything, a
 * vector of length `n` with every row of an `[m, n]` matrix, an `[m, 1]` column with every column. Arrays and numbers are
 * accepted wherever a value is, as constants.
 *
 * Shapes that do not fit throw `InvalidInput`; inside a custom loss that becomes the failure of the operation.
 *
 * @example
 * ```ts
 * import { Autodiff } from "effect-tinker"
 *
 * const logprobs = Autodiff.variable([-0.5, -1.25, -2])
 * const loss = logprobs.pipe(Autodiff.sub([-0.5, -1, -2.5]), Autodiff.square, Autodiff.sum)
 * const [gradient] = Autodiff.gradients(loss, [logprobs])
 * ```
 *
 * @since 0.1.0
 */
import { dual } from "effect/Function"
import * as Axes from "./internal/autodiff/axes.js"
import * as Elementwise from "./internal/autodiff/elementwise.js"
import * as Tape from "./internal/autodiff/tape.js"
import * as TensorData from "./TensorData.js"

// -----------------------------------------------------------------------------
// What is computed element by element: arithmetic, comparisons, and functions of one number.
// -----------------------------------------------------------------------------

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

// -----------------------------------------------------------------------------
// What is computed over all elements, or along an axis.
// -----------------------------------------------------------------------------

/**
 * An axis: 0 for rows (or the only one of a vector), 1 for columns, -1 for the last.
 *
 * @since 0.1.0
 * @category models
 */
export type Axis = Axes.Axis

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
export const sum: AlongAxis = alongAxis(Axes.sum)

/**
 * Mean over everything, or along an axis.
 *
 * @since 0.1.0
 * @category combinators
 */
export const mean: AlongAxis = alongAxis(Axes.mean)

/**
 * Largest element of everything, or along an axis; ties share the gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const max: AlongAxis = alongAxis(Axes.max)

/**
 * Smallest element of everything, or along an axis; ties share the gradient.
 *
 * @since 0.1.0
 * @category combinators
 */
export const min: AlongAxis = alongAxis(Axes.min)

/**
 * `log(sum(exp(x)))` without overflow, over everything or along an axis.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logSumExp: AlongAxis = alongAxis(Axes.logSumExp)

/**
 * Softmax along an axis, by default the last.
 *
 * @since 0.1.0
 * @category combinators
 */
export const softmax: AlongAxis = alongAxis(Axes.softmax)

/**
 * Logarithm of the softmax along an axis, by default the last.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logSoftmax: AlongAxis = alongAxis(Axes.logSoftmax)

/**
 * Running sum along an axis, by default the last.
 *
 * @since 0.1.0
 * @category combinators
 */
export const cumsum: AlongAxis = alongAxis(Axes.cumsum)

// -----------------------------------------------------------------------------
// The same elements elsewhere: joined, cut, picked, in another shape.
// -----------------------------------------------------------------------------

/**
 * Joins vectors end to end, or matrices along an axis (by default the first).
 *
 * @since 0.1.0
 * @category combinators
 */
export const concat = (operands: ReadonlyArray<Operand>, options?: { readonly axis?: Axis | undefined }): Value =>
  Axes.concat(operands, options?.axis ?? 0)

/**
 * Scalars become a vector, vectors of one length the rows of a matrix.
 *
 * @since 0.1.0
 * @category combinators
 */
export const stack: (operands: ReadonlyArray<Operand>) => Value = Axes.stack

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
    Axes.slice(self, start, end, options?.axis ?? 0)
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
} = dual(2, Axes.at)

/**
 * The same elements in another shape, row by row.
 *
 * @since 0.1.0
 * @category combinators
 */
export const reshape: {
  (shape: Shape): (self: Operand) => Value
  (self: Operand, shape: Shape): Value
} = dual(2, Axes.reshape)

/**
 * Rows become columns.
 *
 * @since 0.1.0
 * @category combinators
 */
export const transpose: (self: Operand) => Value = Axes.transpose

// -----------------------------------------------------------------------------
// Values and gradients.
// -----------------------------------------------------------------------------

/**
 * No axes, one, or two (rows, columns).
 *
 * @since 0.1.0
 * @category models
 */
export type Shape = Tape.Shape

/**
 * A scalar, vector or matrix of float64 that knows how it was computed. `values` is row-major and must not be written to.
 *
 * @since 0.1.0
 * @category models
 */
export type Value = Tape.Value

/**
 * Argument of every function: a value, or numbers (nested: a matrix) that become a constant.
 *
 * @since 0.1.0
 * @category models
 */
export type Operand = Tape.Operand

/**
 * Whether something is a {@link Value}.
 *
 * @since 0.1.0
 * @category guards
 */
export const isValue: (u: unknown) => u is Value = Tape.isValue

/**
 * A value to differentiate by.
 *
 * @since 0.1.0
 * @category constructors
 */
export const variable = (input: Exclude<Operand, Value>, shape?: Shape): Value => shaped(input, shape, true)

/**
 * A value no gradient flows to.
 *
 * @since 0.1.0
 * @category constructors
 */
export const constant = (input: Exclude<Operand, Value>, shape?: Shape): Value => shaped(input, shape, false)

/**
 * The numbers of a tensor as a constant, e.g. of a datum's `lossFnInputs`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromTensor = (tensor: TensorData.TensorData): Value =>
  constant(TensorData.toArray(tensor), shapeOf(tensor))

const shapeOf = ({ shape }: TensorData.TensorData): Shape => {
  const [rows, columns, ...rest] = shape
  if (rest.length > 0) throw Tape.invalid("fromTensor", `a tensor of ${shape.length} dimensions has too many`)
  return rows === undefined ? [] : columns === undefined ? [rows] : [rows, columns]
}

/**
 * The numbers of a tensor as a value to differentiate by.
 *
 * @since 0.1.0
 * @category constructors
 */
export const variableFromTensor = (tensor: TensorData.TensorData): Value =>
  variable(TensorData.toArray(tensor), shapeOf(tensor))

const shaped = (input: Exclude<Operand, Value>, shape: Shape | undefined, tracked: boolean): Value => {
  const leaf = Tape.leaf(input, tracked)
  if (shape === undefined) return leaf
  return new Tape.Value(Axes.reshape(leaf, shape).values, shape, tracked, [], undefined)
}

/**
 * The number in a value of one element.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toNumber = (self: Value): number => {
  if (self.values.length !== 1) {
    throw Tape.invalid("toNumber", `needs a scalar, got shape ${Tape.showShape(self.shape)}`)
  }
  return self.values[0] ?? 0
}

/**
 * The gradients of a scalar by the given variables, each in the layout of its variable; zeros where the scalar does not
 * depend on it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const gradients = (loss: Value, variables: ReadonlyArray<Value>): ReadonlyArray<Float64Array> => {
  const byLeaf = Tape.backward(loss)
  return variables.map((variable) => byLeaf.get(variable) ?? new Float64Array(variable.values.length))
}
