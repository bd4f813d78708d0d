/**
 * Frozen weights plus adapter, multiplied out and laid out for the kernels. Passes run on the merged weights, so an
 * adapter costs nothing where no gradient is asked for.
 */
import { at } from "./floats.js"
import type { Lora } from "./lora.js"
import type { Work } from "./work.js"
import type { Workspace } from "./workspace.js"

/** Weights as the kernels want them, kept outside the workspace so that many models can take turns in it. @internal */
export interface Packed {
  readonly forward: Float32Array
  /** The transposes, needed for gradients only. */
  readonly backward: Float32Array | undefined
}

/** Makes the packed weights of an adapter, or of the frozen model alone; they stay loaded in the workspace. @internal */
export function* merge(
  workspace: Workspace,
  adapter: { readonly lora: Lora; readonly values: Float32Array } | undefined,
  gradients: boolean
): Work<Packed> {
  const { backwardWeights, base, forwardWeights, kernels, memory, packed: merged, shape } = workspace
  workspace.resident = undefined
  for (const matrix of shape.matrices) {
    const { columns, offset, rows } = matrix
    memory.set(base.weights.subarray(offset, offset + rows * columns), merged)
    const factors = adapter?.lora.factors.find((candidate) => candidate.matrix === matrix)
    if (adapter !== undefined && factors !== undefined) {
      const { lora: { scale, settings: { rank } }, values } = adapter
      for (let i = 0; i < rows * rank; i++) memory[workspace.lora.a + i] = scale * at(values, factors.a + i)
      memory.set(values.subarray(factors.b, factors.b + rank * columns), workspace.lora.b)
      const { a, b, packed } = workspace.lora
      kernels.pack(b, columns, 1, rank, columns, packed)
      kernels.gemm(a, rank, 1, packed, rank * 8, merged, columns, rows, columns, rank, 1)
    }
    kernels.pack(merged, columns, 1, rows, columns, forwardWeights + offset)
    if (gradients) kernels.pack(merged, 1, columns, columns, rows, backwardWeights + offset)
    yield
  }
  const made: Packed = {
    forward: memory.slice(forwardWeights, forwardWeights + shape.size),
    backward: gradients ? memory.slice(backwardWeights, backwardWeights + shape.size) : undefined
  }
  workspace.resident = made
  return made
}

/** Puts packed weights into the workspace unless they are there already. @internal */
export const load = (workspace: Workspace, packed: Packed): void => {
  if (workspace.resident === packed) return
  workspace.memory.set(packed.forward, workspace.forwardWeights)
  if (packed.backward !== undefined) workspace.memory.set(packed.backward, workspace.backwardWeights)
  workspace.resident = packed
}
