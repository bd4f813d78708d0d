/**
 * Element access inside numeric loops. Every position is computed from checked shapes, so it is always in bounds; the
 * nullish default costs nothing once compiled and keeps indexed access honest. One function per kind of array: a
 * function that sees several kinds is compiled for the general case, several times slower.
 */

/** @internal */
export const at = (values: Float32Array, index: number): number => values[index] ?? 0

/** @internal */
export const add = (values: Float32Array, index: number, amount: number): void => {
  values[index] = (values[index] ?? 0) + amount
}

/** @internal */
export const intAt = (values: Int32Array, index: number): number => values[index] ?? 0

/** Rounded up to whole panels of eight, the unit of the kernels. @internal */
export const ceil8 = (count: number): number => (count + 7) & ~7
