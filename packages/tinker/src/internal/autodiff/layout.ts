/**
 * Functions that move elements without computing: joining, cutting, turning.
 *
 * @since 0.1.0
 */
import type { Axis } from "./reduce.js"
import type { Operand, Shape, Value } from "./tape.js"
import { columnsOf, invalid, make, rowsOf, sameShape, showShape, sizeOf, toValue } from "./tape.js"

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
