/**
 * The numerical kernels of the engine over one linear memory of floats. Two implementations with the same meaning:
 * WebAssembly SIMD, and plain JavaScript for runtimes without it. Positions and strides are counted in floats.
 */
import { at } from "./floats.js"
import { moduleBytes } from "./wasmKernels.js"

/** @internal */
export type KernelMode = "wasm" | "js"

/** A matrix seen through strides: element (i, j) is at `offset + i * row + j * column`. @internal */
export interface Strided {
  readonly offset: number
  readonly row: number
  readonly column: number
}

/** @internal */
export interface Kernels {
  readonly mode: KernelMode
  readonly memory: Float32Array<ArrayBuffer>
  /**
   * C (m × n) = A (m × k) · B, or C += A · B. B was packed by `pack` into panels of eight columns, `panel` floats
   * apart; `n` is a multiple of eight, `m` and `k` are free.
   */
  readonly gemm: (
    a: Strided,
    b: number,
    panel: number,
    c: number,
    cRow: number,
    m: number,
    n: number,
    k: number,
    accumulate: boolean
  ) => void
  /** Copies B (k × n) into panels of eight columns; the last panel is filled up with zeros. */
  readonly pack: (b: Strided, k: number, n: number, target: number) => void
}

const pageFloats = 16384

const packWith = (memory: Float32Array) => (b: Strided, k: number, n: number, target: number): void => {
  const { column, offset, row } = b
  let to = target
  for (let j = 0; j < n; j += 8) {
    const filled = Math.min(8, n - j)
    let from = offset + j * column
    for (let p = 0; p < k; p++) {
      let source = from
      for (let lane = 0; lane < filled; lane++) {
        memory[to + lane] = at(memory, source)
        source += column
      }
      for (let lane = filled; lane < 8; lane++) memory[to + lane] = 0
      from += row
      to += 8
    }
  }
}

const gemmJs = (memory: Float32Array): Kernels["gemm"] => (a, b, panel, c, cRow, m, n, k, accumulate) => {
  for (let j = 0; j < n; j += 8) {
    const start = b + (j >> 3) * panel
    for (let i = 0; i < m; i++) {
      let from = a.offset + i * a.row
      const to = c + i * cRow + j
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0
      for (let p = start, end = start + k * 8; p < end; p += 8) {
        const value = at(memory, from)
        from += a.column
        s0 += value * at(memory, p)
        s1 += value * at(memory, p + 1)
        s2 += value * at(memory, p + 2)
        s3 += value * at(memory, p + 3)
        s4 += value * at(memory, p + 4)
        s5 += value * at(memory, p + 5)
        s6 += value * at(memory, p + 6)
        s7 += value * at(memory, p + 7)
      }
      memory[to] = accumulate ? at(memory, to) + s0 : s0
      memory[to + 1] = accumulate ? at(memory, to + 1) + s1 : s1
      memory[to + 2] = accumulate ? at(memory, to + 2) + s2 : s2
      memory[to + 3] = accumulate ? at(memory, to + 3) + s3 : s3
      memory[to + 4] = accumulate ? at(memory, to + 4) + s4 : s4
      memory[to + 5] = accumulate ? at(memory, to + 5) + s5 : s5
      memory[to + 6] = accumulate ? at(memory, to + 6) + s6 : s6
      memory[to + 7] = accumulate ? at(memory, to + 7) + s7 : s7
    }
  }
}

const makeJs = (floats: number): Kernels => {
  const memory = new Float32Array(floats)
  return { mode: "js", memory, gemm: gemmJs(memory), pack: packWith(memory) }
}

type Exported = (...args: ReadonlyArray<number>) => void

const isExported = (value: WebAssembly.ExportValue | undefined): value is Exported => typeof value === "function"

const makeWasm = (module: WebAssembly.Module, floats: number): Kernels | undefined => {
  const linear = new WebAssembly.Memory({ initial: Math.ceil(floats / pageFloats) })
  const { gemm } = new WebAssembly.Instance(module, { env: { memory: linear } }).exports
  if (!isExported(gemm)) return undefined
  const memory = new Float32Array(linear.buffer as ArrayBuffer)
  return {
    mode: "wasm",
    memory,
    gemm: (a, b, panel, c, cRow, m, n, k, accumulate) => {
      if (k === 0) return
      gemm(
        a.offset << 2,
        a.row << 2,
        a.column << 2,
        b << 2,
        panel << 2,
        c << 2,
        cRow << 2,
        m,
        n,
        k,
        accumulate ? 1 : 0
      )
    },
    pack: packWith(memory)
  }
}

/** Whether this runtime can run the SIMD kernels. @internal */
export const wasmModule = (): WebAssembly.Module | undefined => {
  if (typeof WebAssembly === "undefined") return undefined
  const bytes = moduleBytes()
  return WebAssembly.validate(bytes) ? new WebAssembly.Module(bytes) : undefined
}

/** Kernels over a fresh memory of at least `floats` floats; falls back to JavaScript where SIMD is missing. @internal */
export const makeKernels = (floats: number, mode: KernelMode): Kernels => {
  const module = mode === "wasm" ? wasmModule() : undefined
  return (module === undefined ? undefined : makeWasm(module, floats)) ?? makeJs(floats)
}
