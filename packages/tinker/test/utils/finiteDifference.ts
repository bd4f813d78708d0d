import { Autodiff } from "../../src/index.js"

/** Reproducible numbers in [low, high). */
export const numbers = (seed: number, count: number, low: number, high: number): Float64Array => {
  let state = (seed * 2654435761 + 12345) >>> 0
  return Float64Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return low + (high - low) * (state / 4294967296)
  })
}

/**
 * Largest deviation of the reverse-mode gradients from five-point finite differences, relative to the largest gradient.
 */
export const gradientError = (
  f: (inputs: ReadonlyArray<Autodiff.Value>) => Autodiff.Value,
  inputs: ReadonlyArray<{ readonly values: Float64Array; readonly shape: Autodiff.Shape }>
): number => {
  const variables = inputs.map(({ shape, values }) => Autodiff.variable(values, shape))
  const exact = Autodiff.gradients(f(variables), variables)
  const h = 1e-3
  let deviation = 0
  let scale = 0
  inputs.forEach((input, which) => {
    for (let i = 0; i < input.values.length; i++) {
      const shifted = (delta: number) => {
        const moved = Float64Array.from(input.values)
        moved[i] = (moved[i] ?? 0) + delta
        return Autodiff.toNumber(
          f(inputs.map((other, k) => Autodiff.constant(k === which ? moved : other.values, other.shape)))
        )
      }
      const numeric = (8 * (shifted(h) - shifted(-h)) - (shifted(2 * h) - shifted(-2 * h))) / (12 * h)
      const gradient = exact[which]?.[i] ?? Number.NaN
      deviation = Math.max(deviation, Math.abs(gradient - numeric))
      if (Number.isNaN(gradient)) deviation = Number.NaN
      scale = Math.max(scale, Math.abs(numeric))
    }
  })
  return deviation / Math.max(scale, 1e-12)
}

export const table = (title: string, rows: ReadonlyArray<readonly [string, number]>): string =>
  [title, ...rows.map(([name, error]) => `  ${name.padEnd(34)} ${error.toExponential(1)}`)].join("\n")
