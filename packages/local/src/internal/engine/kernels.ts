/**
 * The numerical kernels of the engine over one linear memory of floats. Two implementations with the same meaning:
 * WebAssembly SIMD, and plain JavaScript for runtimes without it. Positions and strides are counted in floats, and the
 * lengths of rows are multiples of four.
 */
import { globalValue } from "effect/GlobalValue"
import { makeJsKernels } from "./jsKernels.js"
import { assemble } from "./wasm/assembler.js"
import { attentionKernels } from "./wasm/attention.js"
import { gemm, pack } from "./wasm/matrix.js"
import { rowKernels } from "./wasm/rows.js"

/** @internal */
export type KernelMode = "wasm" | "js"

/** @internal */
export interface Operations {
  /**
   * C (m × n) = A (m × k) · B, or C += A · B if `accumulate` is 1. B was packed into panels of eight columns, `panel`
   * floats apart; `n` is a multiple of eight, `m` and `k` are free, `k` is at least 1.
   */
  readonly gemm: (
    a: number,
    aRow: number,
    aColumn: number,
    b: number,
    panel: number,
    c: number,
    cRow: number,
    m: number,
    n: number,
    k: number,
    accumulate: 0 | 1
  ) => void
  /** Copies B (k × n) into panels of eight columns; the last panel is filled up with zeros. */
  readonly pack: (b: number, row: number, column: number, k: number, n: number, target: number) => void
  /** The largest value. */
  readonly rowMax: (row: number, n: number) => number
  /** The sum of e^(x - top). */
  readonly expSum: (row: number, n: number, top: number) => number
  /** x = factor * e^(x - shift). */
  readonly expScale: (row: number, n: number, shift: number, factor: number) => void
  /** target += source. */
  readonly addRow: (target: number, source: number, n: number) => void
  /** Rows divided by their root mean square; the inverses of the divisors go to `scales`. */
  readonly normalise: (source: number, target: number, scales: number, width: number, rows: number) => void
  /** Adds to `target` the gradient of the normalisation, given that of its result and the result itself. */
  readonly normaliseBackward: (
    gradient: number,
    normed: number,
    scales: number,
    target: number,
    width: number,
    rows: number
  ) => void
  /** hidden = max(0, hidden), squared = hidden². */
  readonly activate: (hidden: number, squared: number, n: number) => void
  /** squared = rectified², gradient = 2 * rectified * gradient. */
  readonly activateBackward: (rectified: number, squared: number, gradient: number, n: number) => void
  /** Rotates pairs (i, i + half) of each head by the angles of a position, backwards if `direction` is -1. */
  readonly rotate: (
    row: number,
    cosine: number,
    sine: number,
    heads: number,
    half: number,
    direction: 1 | -1
  ) => void
  /** Softmax of rows under a causal mask: the first row sees `visible` columns, each next row one more. */
  readonly softmax: (scores: number, width: number, rows: number, visible: number, scale: number) => void
  /** From the gradient of probabilities to that of the scores, in place. */
  readonly softmaxBackward: (scores: number, gradient: number, width: number, rows: number, scale: number) => void
  /** Attention of one row of queries over remembered keys and values, those of a prompt and the sequence's own. */
  readonly attendRow: (
    query: number,
    target: number,
    prompt: number,
    promptLength: number,
    own: number,
    ownLength: number,
    weights: number,
    heads: number,
    headSize: number,
    scale: number
  ) => void
}

/** @internal */
export interface Kernels extends Operations {
  readonly mode: KernelMode
  readonly memory: Float32Array<ArrayBuffer>
}

const assembled = [gemm, pack, ...rowKernels, ...attentionKernels]

const pageFloats = 16384

const isOperations = (exports: object): exports is Operations =>
  assembled.every(({ name }) => typeof Reflect.get(exports, name) === "function")

const makeWasm = (module: WebAssembly.Module, floats: number): Kernels | undefined => {
  const linear = new WebAssembly.Memory({ initial: Math.ceil(floats / pageFloats) })
  const operations: object = new WebAssembly.Instance(module, { env: { memory: linear } }).exports
  // The memory never grows, so that views of it stay valid.
  const { buffer } = linear
  return isOperations(operations) && buffer instanceof ArrayBuffer
    ? { ...operations, mode: "wasm", memory: new Float32Array(buffer) }
    : undefined
}

/** The compiled kernels, if this runtime can run them; made when first asked for. @internal */
export const wasmModule: () => WebAssembly.Module | undefined = globalValue(
  "@effect-tinker/local/engine/wasmModule",
  () => {
    let made: { readonly module: WebAssembly.Module | undefined } | undefined
    return () => {
      if (made !== undefined) return made.module
      const bytes = typeof WebAssembly === "undefined" ? undefined : assemble(assembled)
      const usable = bytes !== undefined && WebAssembly.validate(bytes)
      made = { module: usable ? new WebAssembly.Module(bytes) : undefined }
      return made.module
    }
  }
)

/** Kernels over a fresh memory of at least `floats` floats; falls back to JavaScript where SIMD is missing. @internal */
export const makeKernels = (floats: number, mode: KernelMode): Kernels => {
  const module = mode === "wasm" ? wasmModule() : undefined
  const wasm = module === undefined ? undefined : makeWasm(module, floats)
  if (wasm !== undefined) return wasm
  const memory = new Float32Array(floats)
  return { ...makeJsKernels(memory), mode: "js", memory }
}
