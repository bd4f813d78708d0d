/**
 * Functions along an axis: reductions, joining, slicing and transposing.
 *
 * @since 0.1.0
 */
import type { Operand, Shape, Value } from "./tape.js"
import { columnsOf, invalid, make, rowsOf, sameShape, showShape, sizeOf, toValue } from "./tape.js"

// -----------------------------------------------------------------------------
// Functions that move elements without computing: joining, cutting, turning.
// -----------------------------------------------------------------------------

/** A result whose element `i` is element `from(i)` of the operand. */
const select = (self: Value, shape: Shape, from: (i: number) => number): Value => {
  const size = sizeOf(shape)
  const out = new Float64Array(size)
  for (let i = 0; i < size; i++) out[i] = self.values[from(i)] ?? 0
  return make(out, shape, [self], (gradient) => {
    const dx = new Float64Array(self.values.length)
    for (let i = 0; i < size; i++) dx[from(i)] = (dx[from(i)] ?? 0) + (gradient[i] ?? 0)
    return [dx]
  })
}

const resolveAxis = (method: string, shape: Shape, axis: Axis): 0 | 1 => {
  const resolved = axis === -1 ? shape.length - 1 : axis
  if (resolved >= shape.length || (resolved !== 0 && resolved !== 1)) {
    throw invalid(method, `a value of shape ${showShape(shape)} has no axis ${axis}`)
  }
  return resolved
}

/** @internal */
export const reshape = (operand: Operand, shape: Shape): Value => {
  const self = toValue(operand)
  if (sizeOf(shape) !== self.values.length) {
    throw invalid("reshape", `${self.values.length} elements do not fill shape ${showShape(shape)}`)
  }
  return make(self.values, shape, [self], (gradient) => [Float64Array.from(gradient)])
}

/** @internal */
export const transpose = (operand: Operand): Value => {
  const self = toValue(operand)
  const { shape } = self
  if (shape.length !== 2) throw invalid("transpose", `needs a matrix, got shape ${showShape(shape)}`)
  const [rows, columns] = shape
  return select(self, [columns, rows], (i) => (i % rows) * columns + Math.floor(i / rows))
}

/** @internal */
export const slice = (operand: Operand, start: number, end: number | undefined, axis: Axis): Value => {
  const self = toValue(operand)
  const resolved = resolveAxis("slice", self.shape, axis)
  const length = self.shape[resolved] ?? 0
  const clamp = (position: number) => Math.min(Math.max(position < 0 ? position + length : position, 0), length)
  const from = clamp(start)
  const size = Math.max(clamp(end ?? length) - from, 0)
  if (self.shape.length === 1) return select(self, [size], (i) => from + i)
  const columns = columnsOf(self.shape)
  return resolved === 0
    ? select(self, [size, columns], (i) => from * columns + i)
    : select(self, [rowsOf(self.shape), size], (i) => Math.floor(i / size) * columns + from + (i % size))
}

/**
 * Element `index` of a vector, as a scalar; row `index` of a matrix, as a vector.
 *
 * @internal
 */
export const at = (operand: Operand, index: number): Value => {
  const self = toValue(operand)
  const length = self.shape[0]
  const position = length === undefined || index >= 0 ? index : index + length
  if (length === undefined || position < 0 || position >= length || !Number.isInteger(position)) {
    throw invalid("at", `shape ${showShape(self.shape)} has no position ${index}`)
  }
  if (self.shape.length === 1) return select(self, [], () => position)
  const columns = columnsOf(self.shape)
  return select(self, [columns], (i) => position * columns + i)
}

/** @internal */
export const concat = (operands: ReadonlyArray<Operand>, axis: Axis): Value => {
  const parts = operands.map(toValue)
  const first = parts[0]
  if (first === undefined) throw invalid("concat", "nothing to join")
  const { shape } = first
  const resolved = resolveAxis("concat", shape, axis)
  for (const part of parts) {
    if (
      part.shape.length !== shape.length || (shape.length === 2 && part.shape[1 - resolved] !== shape[1 - resolved])
    ) {
      throw invalid("concat", `shapes ${showShape(shape)} and ${showShape(part.shape)} do not join on axis ${axis}`)
    }
  }
  const length = parts.reduce((n, part) => n + (part.shape[resolved] ?? 0), 0)
  const [rows, columns] = shape.length === 1
    ? [1, length]
    : resolved === 0
    ? [length, columnsOf(shape)]
    : [rowsOf(shape), length]
  // Joined on rows (or as vectors) the parts follow each other; joined on columns they alternate row by row.
  const interleaved = shape.length === 2 && resolved === 1
  const out = new Float64Array(rows * columns)
  const copies: Array<(each: (part: number, own: number, joined: number, size: number) => void) => void> = []
  let offset = 0
  parts.forEach((part, p) => {
    const from = offset
    const width = columnsOf(part.shape)
    copies.push((each) => {
      if (interleaved) { for (let r = 0; r < rows; r++) each(p, r * width, r * columns + from, width) }
      else each(p, 0, from, part.values.length)
    })
    offset += interleaved ? width : part.values.length
  })
  for (const copy of copies) {
    copy((p, own, joined, size) => out.set((parts[p] ?? first).values.subarray(own, own + size), joined))
  }
  return make(out, shape.length === 1 ? [length] : [rows, columns], parts, (gradient) => {
    const gradients = parts.map((part) => new Float64Array(part.values.length))
    for (const copy of copies) {
      copy((p, own, joined, size) => gradients[p]?.set(gradient.subarray(joined, joined + size), own))
    }
    return gradients
  })
}

/** @internal */
export const stack = (operands: ReadonlyArray<Operand>): Value => {
  const parts = operands.map(toValue)
  const first = parts[0]
  if (first === undefined) throw invalid("stack", "nothing to stack")
  if (first.shape.length === 2) throw invalid("stack", "matrices would need a third axis")
  for (const part of parts) {
    if (!sameShape(part.shape, first.shape)) {
      throw invalid("stack", `shapes ${showShape(first.shape)} and ${showShape(part.shape)} differ`)
    }
  }
  const size = first.values.length
  const out = new Float64Array(parts.length * size)
  parts.forEach((part, p) => out.set(part.values, p * size))
  return make(
    out,
    first.shape.length === 0 ? [parts.length] : [parts.length, size],
    parts,
    (gradient) => parts.map((_, p) => gradient.slice(p * size, (p + 1) * size))
  )
}

// -----------------------------------------------------------------------------
// Reductions over everything or along one axis, and the functions that work along an axis.
// -----------------------------------------------------------------------------

/** @internal */
export type Axis = 0 | 1 | -1

/** The elements of a value as lines: line `l` consists of the positions `start(l) + k · stride`, `k < length`. */
interface Lines {
  readonly count: number
  readonly length: number
  readonly stride: number
  readonly start: (line: number) => number
  /** Shape with the axis removed. */
  readonly reduced: Shape
}

const linesOf = (method: string, shape: Shape, axis: Axis | undefined): Lines => {
  if (axis === undefined) return { count: 1, length: sizeOf(shape), stride: 1, start: () => 0, reduced: [] }
  const resolved = axis === -1 ? shape.length - 1 : axis
  if (shape.length === 0 || resolved >= shape.length) {
    throw invalid(method, `a value of shape ${showShape(shape)} has no axis ${axis}`)
  }
  const rows = rowsOf(shape)
  const columns = columnsOf(shape)
  if (shape.length === 1) return { count: 1, length: columns, stride: 1, start: () => 0, reduced: [] }
  return resolved === 1
    ? { count: rows, length: columns, stride: 1, start: (line) => line * columns, reduced: [rows] }
    : { count: columns, length: rows, stride: columns, start: (line) => line, reduced: [columns] }
}

/**
 * A reduction of each line to one number, with the derivative of that number by each element.
 */
const reduction = (
  method: string,
  reduce: (values: Float64Array, start: number, stride: number, length: number) => number,
  derivative: (x: number, result: number, length: number, ties: number) => number
) =>
(operand: Operand, axis?: Axis): Value => {
  const self = toValue(operand)
  const lines = linesOf(method, self.shape, axis)
  const xs = self.values
  const out = new Float64Array(lines.count)
  for (let l = 0; l < lines.count; l++) out[l] = reduce(xs, lines.start(l), lines.stride, lines.length)
  return make(out, lines.reduced, [self], (gradient) => {
    const dx = new Float64Array(xs.length)
    for (let l = 0; l < lines.count; l++) {
      const g = gradient[l] ?? 0
      if (g === 0) continue
      const start = lines.start(l)
      const result = out[l] ?? 0
      let ties = 0
      for (let k = 0; k < lines.length; k++) if (xs[start + k * lines.stride] === result) ties++
      for (let k = 0; k < lines.length; k++) {
        const i = start + k * lines.stride
        dx[i] = g * derivative(xs[i] ?? 0, result, lines.length, ties)
      }
    }
    return [dx]
  })
}

const total = (values: Float64Array, start: number, stride: number, length: number): number => {
  let sum = 0
  for (let k = 0; k < length; k++) sum += values[start + k * stride] ?? 0
  return sum
}

const extreme = (pick: (x: number, y: number) => number, empty: number) =>
(
  values: Float64Array,
  start: number,
  stride: number,
  length: number
): number => {
  let best = empty
  for (let k = 0; k < length; k++) best = pick(best, values[start + k * stride] ?? empty)
  return best
}

const highest = extreme(Math.max, -Infinity)

const logTotalExp = (values: Float64Array, start: number, stride: number, length: number): number => {
  const top = highest(values, start, stride, length)
  // All -∞ (or empty): the sum of nothing. A +∞ dominates everything.
  if (!Number.isFinite(top)) return top
  let sum = 0
  for (let k = 0; k < length; k++) sum += Math.exp((values[start + k * stride] ?? 0) - top)
  return top + Math.log(sum)
}

/** @internal */
export const sum = reduction("sum", total, () => 1)
/** @internal */
export const mean = reduction("mean", (xs, start, stride, n) => total(xs, start, stride, n) / n, (_, __, n) => 1 / n)
// Ties share the gradient.
/** @internal */
export const max = reduction("max", highest, (x, top, _, ties) => x === top ? 1 / ties : 0)
/** @internal */
export const min = reduction("min", extreme(Math.min, Infinity), (x, low, _, ties) => x === low ? 1 / ties : 0)
/** @internal */
export const logSumExp = reduction("logSumExp", logTotalExp, (x, result) => Math.exp(x - result))

/**
 * A function of each line to a line of the same length; `pull` writes the gradient of one line.
 */
const alongLines = (
  method: string,
  forward: (xs: Float64Array, ys: Float64Array, start: number, stride: number, length: number) => void,
  pull: (
    gradient: Float64Array,
    ys: Float64Array,
    dx: Float64Array,
    start: number,
    stride: number,
    length: number
  ) => void
) =>
(operand: Operand, axis: Axis = -1): Value => {
  const self = toValue(operand)
  const lines = linesOf(method, self.shape, axis)
  const ys = new Float64Array(self.values.length)
  for (let l = 0; l < lines.count; l++) forward(self.values, ys, lines.start(l), lines.stride, lines.length)
  return make(ys, self.shape, [self], (gradient) => {
    const dx = new Float64Array(ys.length)
    for (let l = 0; l < lines.count; l++) pull(gradient, ys, dx, lines.start(l), lines.stride, lines.length)
    return [dx]
  })
}

/** @internal */
export const softmax = alongLines(
  "softmax",
  (xs, ys, start, stride, length) => {
    const top = highest(xs, start, stride, length)
    let norm = 0
    for (let k = 0, i = start; k < length; k++, i += stride) norm += ys[i] = Math.exp((xs[i] ?? 0) - top)
    for (let k = 0, i = start; k < length; k++, i += stride) ys[i] = (ys[i] ?? 0) / norm
  },
  (gradient, ys, dx, start, stride, length) => {
    let dot = 0
    for (let k = 0, i = start; k < length; k++, i += stride) dot += (gradient[i] ?? 0) * (ys[i] ?? 0)
    for (let k = 0, i = start; k < length; k++, i += stride) dx[i] = (ys[i] ?? 0) * ((gradient[i] ?? 0) - dot)
  }
)

/** @internal */
export const logSoftmax = alongLines(
  "logSoftmax",
  (xs, ys, start, stride, length) => {
    const norm = logTotalExp(xs, start, stride, length)
    for (let k = 0, i = start; k < length; k++, i += stride) ys[i] = (xs[i] ?? 0) - norm
  },
  (gradient, ys, dx, start, stride, length) => {
    const sum = total(gradient, start, stride, length)
    for (let k = 0, i = start; k < length; k++, i += stride) dx[i] = (gradient[i] ?? 0) - Math.exp(ys[i] ?? 0) * sum
  }
)

/** @internal */
export const cumsum = alongLines(
  "cumsum",
  (xs, ys, start, stride, length) => {
    let sum = 0
    for (let k = 0, i = start; k < length; k++, i += stride) ys[i] = sum += xs[i] ?? 0
  },
  (gradient, _, dx, start, stride, length) => {
    let sum = 0
    for (let k = length - 1, i = start + k * stride; k >= 0; k--, i -= stride) dx[i] = sum += gradient[i] ?? 0
  }
)
