/**
 * Functions of one or two values, element by element, with broadcasting.
 *
 * @since 0.1.0
 */
import type { Operand, Shape } from "./tape.js"
import { columnsOf, invalid, make, rowsOf, sameShape, showShape, sizeOf, toValue } from "./tape.js"
import type { Value } from "./tape.js"

/**
 * @param f the function
 * @param df its derivative, from the argument and the result
 * @internal
 */
const unary = (f: (x: number) => number, df: (x: number, y: number) => number) => (operand: Operand): Value => {
  const self = toValue(operand)
  const xs = self.values
  const ys = new Float64Array(xs.length)
  for (let i = 0; i < xs.length; i++) ys[i] = f(xs[i] ?? 0)
  return make(ys, self.shape, [self], (gradient) => {
    const out = new Float64Array(xs.length)
    for (let i = 0; i < xs.length; i++) {
      const g = gradient[i] ?? 0
      // 0 · ∞ must not turn masked positions into NaN.
      out[i] = g === 0 ? 0 : g * df(xs[i] ?? 0, ys[i] ?? 0)
    }
    return [out]
  })
}

const broadcastAxis = (method: string, a: Shape, b: Shape, m: number, n: number): number => {
  if (m === n || n === 1) return m
  if (m === 1) return n
  throw invalid(method, `shapes ${showShape(a)} and ${showShape(b)} do not broadcast`)
}

const broadcastShape = (method: string, a: Shape, b: Shape): Shape => {
  if (sameShape(a, b)) return a
  if (b.length === 0) return a
  if (a.length === 0) return b
  const rows = broadcastAxis(method, a, b, rowsOf(a), rowsOf(b))
  const columns = broadcastAxis(method, a, b, columnsOf(a), columnsOf(b))
  return a.length === 2 || b.length === 2 ? [rows, columns] : [columns]
}

/** Where the elements of an operand lie when it is read in the layout of the result. */
const indexer = (operand: Shape, result: Shape): (i: number) => number => {
  if (sizeOf(operand) === 1) return () => 0
  if (sizeOf(operand) === sizeOf(result)) return (i) => i
  const columns = columnsOf(result)
  // Anything else repeats along exactly one axis: a row for every row, or a column for every column.
  return columnsOf(operand) === 1 ? (i) => Math.floor(i / columns) : (i) => i % columns
}

/**
 * @param f the function
 * @param dx its derivative by the first argument
 * @param dy its derivative by the second
 * @internal
 */
const binary = (
  method: string,
  f: (x: number, y: number) => number,
  dx: (x: number, y: number) => number,
  dy: (x: number, y: number) => number
) =>
(left: Operand, right: Operand): Value => {
  const a = toValue(left)
  const b = toValue(right)
  const shape = broadcastShape(method, a.shape, b.shape)
  const size = sizeOf(shape)
  const ia = indexer(a.shape, shape)
  const ib = indexer(b.shape, shape)
  const xs = a.values
  const ys = b.values
  const zs = new Float64Array(size)
  for (let i = 0; i < size; i++) zs[i] = f(xs[ia(i)] ?? 0, ys[ib(i)] ?? 0)
  const pull = (gradient: Float64Array, own: Value, at: (i: number) => number, d: typeof dx) => {
    if (!own.tracked) return undefined
    const out = new Float64Array(own.values.length)
    for (let i = 0; i < size; i++) {
      const g = gradient[i] ?? 0
      if (g === 0) continue
      const k = at(i)
      out[k] = (out[k] ?? 0) + g * d(xs[ia(i)] ?? 0, ys[ib(i)] ?? 0)
    }
    return out
  }
  return make(zs, shape, [a, b], (gradient) => [pull(gradient, a, ia, dx), pull(gradient, b, ib, dy)])
}

const none = () => 0

/** Comparisons: 1 where they hold, 0 elsewhere; no gradient flows through a step. */
const compare = (method: string, holds: (x: number, y: number) => boolean) => {
  const op = binary(method, (x, y) => holds(x, y) ? 1 : 0, none, none)
  return (left: Operand, right: Operand): Value => op(detach(left), detach(right))
}

/** @internal */
export const detach = (operand: Operand): Value => {
  const self = toValue(operand)
  return self.tracked ? make(self.values, self.shape, [], () => []) : self
}

/** @internal */
export const add = binary("add", (x, y) => x + y, () => 1, () => 1)
/** @internal */
export const sub = binary("sub", (x, y) => x - y, () => 1, () => -1)
/** @internal */
export const mul = binary("mul", (x, y) => x * y, (_, y) => y, (x) => x)
/** @internal */
export const div = binary("div", (x, y) => x / y, (_, y) => 1 / y, (x, y) => -x / (y * y))
/** @internal */
export const pow = binary(
  "pow",
  (x, y) => Math.pow(x, y),
  (x, y) => y === 0 ? 0 : y * Math.pow(x, y - 1),
  (x, y) => x === 0 ? 0 : Math.pow(x, y) * Math.log(x)
)
// Ties share the gradient, so that min(a, b) + max(a, b) = a + b also holds for derivatives.
/** @internal */
export const minimum = binary(
  "minimum",
  Math.min,
  (x, y) => x < y ? 1 : x === y ? 0.5 : 0,
  (x, y) => y < x ? 1 : x === y ? 0.5 : 0
)
/** @internal */
export const maximum = binary(
  "maximum",
  Math.max,
  (x, y) => x > y ? 1 : x === y ? 0.5 : 0,
  (x, y) => y > x ? 1 : x === y ? 0.5 : 0
)
/** @internal */
export const gt = compare("gt", (x, y) => x > y)
/** @internal */
export const gte = compare("gte", (x, y) => x >= y)
/** @internal */
export const lt = compare("lt", (x, y) => x < y)
/** @internal */
export const lte = compare("lte", (x, y) => x <= y)
/** @internal */
export const eq = compare("eq", (x, y) => x === y)

/** @internal */
export const neg = unary((x) => -x, () => -1)
/** @internal */
export const exp = unary(Math.exp, (_, y) => y)
/** @internal */
export const expm1 = unary(Math.expm1, (_, y) => y + 1)
/** @internal */
export const log = unary(Math.log, (x) => 1 / x)
/** @internal */
export const log1p = unary(Math.log1p, (x) => 1 / (1 + x))
/** @internal */
export const sqrt = unary(Math.sqrt, (_, y) => 0.5 / y)
/** @internal */
export const square = unary((x) => x * x, (x) => 2 * x)
/** @internal */
export const abs = unary(Math.abs, Math.sign)
/** @internal */
export const tanh = unary(Math.tanh, (_, y) => 1 - y * y)
/** @internal */
export const relu = unary((x) => x > 0 ? x : 0, (x) => x > 0 ? 1 : 0)

const sigma = (x: number) => x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x))
/** @internal */
export const sigmoid = unary(sigma, (_, y) => y * (1 - y))
/** @internal */
export const softplus = unary((x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))), sigma)
/** @internal */
export const logSigmoid = unary((x) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))), (x) => sigma(-x))

/** @internal */
export const clip = (operand: Operand, low: number, high: number): Value => {
  if (!(low <= high)) throw invalid("clip", `the lower bound ${low} is above the upper bound ${high}`)
  return unary((x) => Math.min(Math.max(x, low), high), (x) => x >= low && x <= high ? 1 : 0)(operand)
}

/** @internal */
export const where = (condition: Operand, whenTrue: Operand, whenFalse: Operand): Value => {
  const c = toValue(condition)
  const a = toValue(whenTrue)
  const b = toValue(whenFalse)
  const shape = broadcastShape("where", c.shape, broadcastShape("where", a.shape, b.shape))
  const size = sizeOf(shape)
  const ic = indexer(c.shape, shape)
  const ia = indexer(a.shape, shape)
  const ib = indexer(b.shape, shape)
  const out = new Float64Array(size)
  for (let i = 0; i < size; i++) out[i] = c.values[ic(i)] !== 0 ? a.values[ia(i)] ?? 0 : b.values[ib(i)] ?? 0
  return make(out, shape, [a, b], (gradient) => {
    const da = new Float64Array(a.values.length)
    const db = new Float64Array(b.values.length)
    for (let i = 0; i < size; i++) {
      const chosen = c.values[ic(i)] !== 0
      const target = chosen ? da : db
      const k = chosen ? ia(i) : ib(i)
      target[k] = (target[k] ?? 0) + (gradient[i] ?? 0)
    }
    return [da, db]
  })
}
