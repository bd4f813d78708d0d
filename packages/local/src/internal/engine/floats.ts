/**
 * Element access inside numeric loops. Every position is computed from checked shapes, so it is always in bounds; the
 * nullish default costs nothing once compiled and keeps indexed access honest.
 */

/** @internal */
export const at = (values: Float32Array | Float64Array | Int32Array, index: number): number => values[index] ?? 0

/** @internal */
export const add = (values: Float32Array | Float64Array, index: number, amount: number): void => {
  values[index] = (values[index] ?? 0) + amount
}

/** Rounded up to whole panels of eight, the unit of the kernels. @internal */
export const ceil8 = (count: number): number => (count + 7) & ~7
