/**
 * Which matrices a model is made of, and where each one lies in a flat array of all of them.
 */
import type { LocalModel } from "../../LocalModel.js"

/** The parts of a model that a LoRA configuration switches on and off. @internal */
export type Group = "attn" | "mlp" | "unembed"

/** One weight matrix: `rows` inputs, `columns` outputs, stored by rows. @internal */
export interface Matrix {
  readonly name: string
  readonly group: Group
  readonly rows: number
  readonly columns: number
  /** Position in the flat array of weights, and of packed weights, which have the same size. */
  readonly offset: number
}

/** @internal */
export interface Block {
  readonly qkv: Matrix
  readonly out: Matrix
  readonly up: Matrix
  readonly down: Matrix
}

/** @internal */
export interface Shape {
  readonly model: LocalModel
  readonly headSize: number
  readonly blocks: ReadonlyArray<Block>
  readonly unembed: Matrix
  readonly matrices: ReadonlyArray<Matrix>
  /** Floats of all matrices together. */
  readonly size: number
}

/** @internal */
export const makeShape = (model: LocalModel): Shape => {
  const matrices: Array<Matrix> = []
  let size = 0
  const matrix = (name: string, group: Group, rows: number, columns: number): Matrix => {
    const made: Matrix = { name, group, rows, columns, offset: size }
    size += rows * columns
    matrices.push(made)
    return made
  }
  const { heads, hidden, layers, vocabularySize, width } = model
  const blocks = Array.from({ length: layers }, (_, layer): Block => ({
    qkv: matrix(`layers.${layer}.attn.qkv`, "attn", width, 3 * width),
    out: matrix(`layers.${layer}.attn.out`, "attn", width, width),
    up: matrix(`layers.${layer}.mlp.up`, "mlp", width, hidden),
    down: matrix(`layers.${layer}.mlp.down`, "mlp", hidden, width)
  }))
  const unembed = matrix("unembed", "unembed", width, vocabularySize)
  return { model, headSize: width / heads, blocks, unembed, matrices, size }
}
