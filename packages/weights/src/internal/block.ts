/**
 * A block of rows in the memory of the kernels, as float32s: loaded, deltas added in place, taken out in the type that is
 * written. The memory is reused from block to block: new pages cost more than the arithmetic.
 */
import * as kernels from "./kernels.js"
import * as numbers from "./numbers.js"

const { tile } = kernels
const page = 65_536
/** Rows of a product that are computed for all columns before the next ones: they stay in the processor's cache. */
const rowsAtOnce = 32

const up = (length: number, to: number): number => Math.ceil(length / to) * to

/** Which values of the block a delta is added to: the first one, and how far columns and rows are apart. @internal */
export interface Place {
  readonly first: number
  readonly columnStride: number
  readonly rowStride: number
}

/** @internal */
export interface Block {
  /** Rows to work on, in place of those before. */
  readonly load: (dtype: numbers.FloatType, rows: Uint8Array) => void
  /** The right matrix, `[rank, columns]`, of the deltas that follow. */
  readonly use: (right: Float32Array, rank: number) => void
  /** Adds `left · right`, where `left` is `[rows, rank]`. */
  readonly add: (left: Float32Array, place: Place) => void
  readonly floats: () => Float32Array
  /** The values as bytes of a type, in `into` where it is given. Uses them up: the block has to be loaded again. */
  readonly bytes: (dtype: numbers.FloatType, into?: Uint8Array) => Uint8Array
}

/** A matrix in groups of rows, each group by columns: what a tile needs next lies next. Missing rows are zeros. */
const packRows = (matrix: Float32Array, columns: number, group: number, target: Float32Array): void => {
  const rows = matrix.length / columns
  target.fill(0)
  for (let row = 0; row < rows; row++) {
    const at = (row - row % group) * columns + row % group
    for (let i = 0; i < columns; i++) target[at + i * group] = matrix[row * columns + i] ?? 0
  }
}

/** A matrix in groups of columns, each group by rows. Missing columns are zeros. */
const packColumns = (matrix: Float32Array, columns: number, group: number, target: Float32Array): void => {
  const rows = matrix.length / columns
  target.fill(0)
  for (let row = 0; row < rows; row++) {
    for (let i = 0; i < columns; i += group) {
      const from = row * columns + i
      target.set(matrix.subarray(from, Math.min(from + group, (row + 1) * columns)), i * rows + row * group)
    }
  }
}

/** @internal */
export const make = (): Block => {
  const memory = new WebAssembly.Memory({ initial: 1 })
  const kernel = kernels.on(memory)
  /** A part of the memory for at least so many floats; keeps its content unless it has to grow. */
  const region = () => {
    let start = 0
    let pages = 0
    return (floats: number): number => {
      if (floats * 4 > pages * page) {
        pages = Math.max(Math.ceil(floats * 4 / page), 2 * pages)
        start = memory.grow(pages) * page
      }
      return start
    }
  }
  const floatsAt = (start: number, length: number) => new Float32Array(memory.buffer, start, length)
  const [values, left, right, scratch] = [region(), region(), region(), region()]
  let length = 0
  /** Kernels convert eight values at a time. */
  const padded = () => up(length, 8)
  let rank = 1
  let columns = 0

  /** Adds the product to whole tiles. */
  const addTiles = (target: number, rows: number, stride: number): void => {
    const [lefts, rights] = [left(rows * rank), right(up(columns, tile.columns) * rank)]
    for (let row = 0; row < rows; row += rowsAtOnce) {
      const until = Math.min(row + rowsAtOnce, rows)
      for (let i = 0; i < columns; i += tile.columns) {
        kernel.addProduct(
          lefts + row * rank * 4,
          lefts + until * rank * 4,
          rights + i * rank * 4,
          rights + (i + tile.columns) * rank * 4,
          target + row * stride + i * 4,
          stride
        )
      }
    }
  }
  return {
    load: (dtype, rows) => {
      length = rows.length / numbers.bytesOf(dtype)
      const start = values(padded())
      if (dtype !== "BF16") return floatsAt(start, length).set(numbers.toFloat32(dtype, rows))
      const source = start + padded() * 2
      new Uint8Array(memory.buffer, source, rows.length).set(rows)
      kernel.widen(source, start, start + padded() * 4)
    },
    use: (matrix, ofRank) => {
      rank = ofRank
      columns = matrix.length / rank
      const size = up(columns, tile.columns) * rank
      packColumns(matrix, columns, tile.columns, floatsAt(right(size), size))
    },
    add: (matrix, { columnStride, first, rowStride }) => {
      const rows = matrix.length / rank
      const height = up(rows, tile.rows)
      const start = values(padded())
      packRows(matrix, rank, tile.rows, floatsAt(left(height * rank), height * rank))
      if (columnStride === 1 && rows === height && columns % tile.columns === 0) {
        return addTiles(start + first * 4, rows, rowStride * 4)
      }
      // What does not fill whole tiles, or has columns apart, is gathered, added to, and put back.
      const width = up(columns, tile.columns)
      const gathered = scratch(height * width)
      const [all, own] = [floatsAt(start, length), floatsAt(gathered, height * width)]
      const each = (move: (at: number, ownAt: number) => void): void => {
        for (let row = 0; row < rows; row++) {
          for (let i = 0; i < columns; i++) move(first + row * rowStride + i * columnStride, row * width + i)
        }
      }
      each((at, ownAt) => {
        own[ownAt] = all[at] ?? 0
      })
      addTiles(gathered, height, width * 4)
      each((at, ownAt) => {
        all[at] = own[ownAt] ?? 0
      })
    },
    floats: () => floatsAt(values(padded()), length).slice(),
    bytes: (dtype, into = new Uint8Array(length * numbers.bytesOf(dtype))) => {
      const start = values(padded())
      if (dtype === "BF16") kernel.narrow(start, start, start + padded() * 4)
      const bytes = dtype === "BF16"
        ? new Uint8Array(memory.buffer, start, length * 2)
        : numbers.fromFloat32(dtype, floatsAt(start, length))
      into.set(bytes)
      return into.subarray(0, bytes.length)
    }
  }
}
