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
import * as Layout from "./internal/autodiff/layout.js"
import * as Tape from "./internal/autodiff/tape.js"
import * as TensorData from "./TensorData.js"

/**
 * @since 0.1.0
 */
export * from "./Autodiff/Elementwise.js"

/**
 * @since 0.1.0
 */
export * from "./Autodiff/Layout.js"

/**
 * @since 0.1.0
 */
export * from "./Autodiff/Reductions.js"

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
 * What every function accepts: a value, or numbers (nested: a matrix) that become a constant.
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
  return new Tape.Value(Layout.reshape(leaf, shape).values, shape, tracked, [], undefined)
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
