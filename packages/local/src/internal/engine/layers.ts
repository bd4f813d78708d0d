/**
 * The pieces of a block that work on one row at a time: normalisation and rotation, forwards and backwards.
 */
import { at } from "./floats.js"
import type { Workspace } from "./workspace.js"

const epsilon = 1e-5

/** Rows of `source` divided by their root mean square; the divisors' inverses go to `scales`. @internal */
export const normalise = (
  memory: Float32Array,
  source: number,
  target: number,
  scales: number,
  width: number,
  from: number,
  to: number
): void => {
  for (let row = from; row < to; row++) {
    const start = source + row * width
    let sum = 0
    for (let i = 0; i < width; i++) {
      const value = at(memory, start + i)
      sum += value * value
    }
    const scale = 1 / Math.sqrt(sum / width + epsilon)
    memory[scales + row] = scale
    const out = target + row * width
    for (let i = 0; i < width; i++) memory[out + i] = at(memory, start + i) * scale
  }
}

/** Adds to `target` the gradient of the normalisation, given that of its result and the result itself. @internal */
export const normaliseBackward = (
  memory: Float32Array,
  gradient: number,
  normed: number,
  scales: number,
  target: number,
  width: number,
  from: number,
  to: number
): void => {
  for (let row = from; row < to; row++) {
    const base = row * width
    let dot = 0
    for (let i = 0; i < width; i++) dot += at(memory, gradient + base + i) * at(memory, normed + base + i)
    dot /= width
    const scale = at(memory, scales + row)
    for (let i = 0; i < width; i++) {
      const index = target + base + i
      memory[index] = at(memory, index) +
        scale * (at(memory, gradient + base + i) - at(memory, normed + base + i) * dot)
    }
  }
}

/**
 * Rotates the query and key parts of one row of `qkv` by its position; `direction` -1 undoes it, which is also what
 * the gradient needs.
 *
 * @internal
 */
export const rotate = (workspace: Workspace, row: number, position: number, direction: 1 | -1): void => {
  const { base: { cosine, sine }, memory, shape } = workspace
  const half = shape.headSize / 2
  const table = position * half
  // Queries and keys are next to each other, so their heads form one run.
  for (let head = 0; head < 2 * shape.model.heads; head++) {
    const start = row + head * shape.headSize
    for (let i = 0; i < half; i++) {
      const c = at(cosine, table + i)
      const s = at(sine, table + i) * direction
      const left = at(memory, start + i)
      const right = at(memory, start + half + i)
      memory[start + i] = left * c - right * s
      memory[start + half + i] = left * s + right * c
    }
  }
}
