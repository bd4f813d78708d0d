/**
 * Values that remember how they were computed, and the reverse pass over them.
 *
 * There is no tape object: a value points at its parents, the reverse pass keeps its gradients in a separate map, so
 * graphs can share parts, be differentiated twice and never leak into each other.
 *
 * @since 0.1.0
 */
import * as Pipeable from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import * as TinkerError from "../../TinkerError.js"

const TypeId = "~effect-tinker/Autodiff"

/** @internal */
export type Shape = readonly [] | readonly [length: number] | readonly [rows: number, columns: number]

/** One gradient per parent, each in the parent's own layout; `undefined` where nothing flows. */
type Pullback = (gradient: Float64Array) => ReadonlyArray<Float64Array | undefined>

/** @internal */
export class Value extends Pipeable.Class() {
  readonly [TypeId] = TypeId
  constructor(
    readonly values: Float64Array,
    readonly shape: Shape,
    /** Whether a gradient can flow to or through this value. */
    readonly tracked: boolean,
    readonly parents: ReadonlyArray<Value>,
    readonly pullback: Pullback | undefined
  ) {
    super()
  }
}

/** @internal */
export type Operand =
  | Value
  | number
  | Float64Array
  | Float32Array
  | Int32Array
  | ReadonlyArray<number>
  | ReadonlyArray<ReadonlyArray<number>>

/** @internal */
export const isValue = (u: unknown): u is Value => Predicate.hasProperty(u, TypeId)

/** @internal */
export const invalid = (method: string, description: string): TinkerError.InvalidInput =>
  new TinkerError.InvalidInput({ module: "Autodiff", method, description })

/** @internal */
export const sizeOf = (shape: Shape): number => (shape[0] ?? 1) * (shape[1] ?? 1)

/** @internal */
export const rowsOf = (shape: Shape): number => shape.length === 2 ? shape[0] : 1

/** @internal */
export const columnsOf = (shape: Shape): number => shape.length === 2 ? shape[1] : shape.length === 1 ? shape[0] : 1

/** @internal */
export const showShape = (shape: Shape): string => `[${shape.join(", ")}]`

/** @internal */
export const sameShape = (a: Shape, b: Shape): boolean => a.length === b.length && a[0] === b[0] && a[1] === b[1]

const isRows = (
  input: ReadonlyArray<number> | ReadonlyArray<ReadonlyArray<number>>
): input is ReadonlyArray<ReadonlyArray<number>> => Array.isArray(input[0])

const isNumbers = (
  input: Exclude<Operand, Value | number>
): input is ReadonlyArray<number> | ReadonlyArray<ReadonlyArray<number>> => Array.isArray(input)

/** @internal */
export const leaf = (input: Exclude<Operand, Value>, tracked: boolean): Value => {
  if (typeof input === "number") return new Value(Float64Array.of(input), [], tracked, [], undefined)
  if (isNumbers(input) && isRows(input)) {
    const columns = input[0]?.length ?? 0
    const values = new Float64Array(input.length * columns)
    input.forEach((row, r) => {
      if (row.length !== columns) throw invalid("make", `row ${r} has ${row.length} numbers, row 0 has ${columns}`)
      values.set(row, r * columns)
    })
    return new Value(values, [input.length, columns], tracked, [], undefined)
  }
  return new Value(Float64Array.from(input), [input.length], tracked, [], undefined)
}

/** @internal */
export const toValue = (operand: Operand): Value => isValue(operand) ? operand : leaf(operand, false)

/** @internal */
export const make = (
  values: Float64Array,
  shape: Shape,
  parents: ReadonlyArray<Value>,
  pullback: Pullback
): Value =>
  // Constants stay leaves, so that whole branches without a variable cost nothing in the reverse pass.
  parents.some((parent) => parent.tracked)
    ? new Value(values, shape, true, parents, pullback)
    : new Value(values, shape, false, [], undefined)

/** Parents before children, without recursion: a loss over thousands of datums is thousands of levels deep. */
const topological = (root: Value): ReadonlyArray<Value> => {
  const order: Array<Value> = []
  const seen = new Set<Value>([root])
  const stack: Array<{ readonly value: Value; next: number }> = [{ value: root, next: 0 }]
  for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
    const parent = frame.value.parents[frame.next++]
    if (parent === undefined) {
      order.push(frame.value)
      stack.pop()
    } else if (parent.tracked && !seen.has(parent)) {
      seen.add(parent)
      stack.push({ value: parent, next: 0 })
    }
  }
  return order
}

/**
 * Gradients of a scalar with respect to every leaf it depends on.
 *
 * @internal
 */
export const backward = (loss: Value): ReadonlyMap<Value, Float64Array> => {
  if (loss.values.length !== 1) {
    throw invalid("gradients", `only a scalar can be differentiated, got shape ${showShape(loss.shape)}`)
  }
  const gradients = new Map<Value, Float64Array>()
  if (!loss.tracked) return gradients
  gradients.set(loss, Float64Array.of(1))
  const order = topological(loss)
  for (let i = order.length - 1; i >= 0; i--) {
    const value = order[i]
    const gradient = value === undefined ? undefined : gradients.get(value)
    if (value === undefined || gradient === undefined || value.pullback === undefined) continue
    value.pullback(gradient).forEach((contribution, p) => {
      const parent = value.parents[p]
      if (contribution === undefined || parent === undefined || !parent.tracked) return
      const sum = gradients.get(parent)
      if (sum === undefined) gradients.set(parent, contribution)
      else for (let k = 0; k < sum.length; k++) sum[k] = (sum[k] ?? 0) + (contribution[k] ?? 0)
    })
    gradients.delete(value)
  }
  return gradients
}
