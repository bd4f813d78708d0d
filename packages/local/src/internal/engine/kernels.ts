/**
 * The numerical kernels of the engine over one linear memory of floats. Two implementations with the same meaning:
 * WebAssembly SIMD, and plain JavaScript for runtimes without it. Native ones replace the products of the first.
 * Positions and strides are counted in floats, and the lengths of rows are multiples of four.
 */
import { globalValue } from "effect/GlobalValue"
import type { Precision, Values } from "./frozen.js"
import { widenBytes, widenInto } from "./frozen.js"
import { makeJsKernels } from "./jsKernels.js"
import type { Native } from "./native.js"
import { assemble } from "./wasm/assembler.js"
import { attentionKernels } from "./wasm/attention.js"
import { gemm, pack, transposePanels } from "./wasm/matrix.js"
import { constants, rowKernels } from "./wasm/rows.js"

/** `native` is WebAssembly with products in machine code. @internal */
export type KernelMode = "native" | "wasm" | "js"

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
  /** Weights in panels of eight outputs, as panels of eight inputs `targetPanel` floats apart: the transpose, packed. */
  readonly transposePanels: (
    source: number,
    inputs: number,
    target: number,
    outputs: number,
    targetPanel: number
  ) => void
  /** The largest value. */
  readonly rowMax: (row: number, n: number) => number
  /** The sum of e^(x - top). */
  readonly expSum: (row: number, n: number, top: number) => number
  /** x = factor * e^(x - shift). */
  readonly expScale: (row: number, n: number, shift: number, factor: number) => void
  /** target += source. */
  readonly addRow: (target: number, source: number, n: number) => void
  /** Floats from the bits of `n` bfloat16 numbers, which lie in the second half of the place for the floats. */
  readonly widenBrain: (target: number, n: number) => void
  /** Rows divided by their root mean square, times the gains. */
  readonly normalize: (
    source: number,
    target: number,
    gain: number,
    width: number,
    rows: number,
    epsilon: number
  ) => void
  /** target = keep * target + the gradient by `source`, given the gradient of the normalized rows. */
  readonly normalizeBackward: (
    gradient: number,
    source: number,
    gain: number,
    target: number,
    width: number,
    rows: number,
    epsilon: number,
    keep: 0 | 1
  ) => void
  /** target = silu(gate) * up; rows of `source` hold `hidden` gates and then `hidden` ups. */
  readonly swiglu: (source: number, target: number, hidden: number, rows: number) => void
  /** The gradient of gates and ups, given that of the product. */
  readonly swigluBackward: (source: number, gradient: number, target: number, hidden: number, rows: number) => void
  /** target = gelu(gate) * up, with the approximation by tanh; rows as those of `swiglu`. */
  readonly geglu: Operations["swiglu"]
  readonly gegluBackward: Operations["swigluBackward"]
  /** target = max(0, source)². */
  readonly relu2: Operations["swiglu"]
  readonly relu2Backward: Operations["swigluBackward"]
  /**
   * Rotates pairs (i, i + half) of each head by the angles of a position, backwards if `direction` is -1. Rows are
   * `stride` floats apart and have positions that follow each other.
   */
  readonly rotate: (
    row: number,
    stride: number,
    rows: number,
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
}

/** Products with one matrix outside of the memory; arguments as those of `Frozen`. @internal */
export interface OutsideProducts {
  readonly multiply: (
    first: number,
    outputs: number,
    source: number,
    target: number,
    targetRow: number,
    rows: number,
    accumulate: 0 | 1
  ) => void
  readonly transpose: (first: number, outputs: number, target: number) => void
}

/** @internal */
export interface Kernels extends Operations {
  readonly mode: KernelMode
  readonly memory: Float32Array
  /** Writes `count` stored values as floats into the memory; `count` is a multiple of eight. */
  readonly widen: (
    values: Values,
    precision: Precision,
    inputs: number,
    from: number,
    target: number,
    count: number
  ) => void
  /** Products that read a matrix where it is, where kernels can. */
  readonly outsideOver: ((values: Values, precision: Precision, inputs: number) => OutsideProducts) | undefined
}

const widenOver = (memory: Float32Array, operations: Pick<Operations, "widenBrain">): Kernels["widen"] => {
  const shorts = new Uint16Array(memory.buffer, memory.byteOffset, memory.length * 2)
  return (values, precision, inputs, from, target, count) => {
    if (values instanceof Int8Array) return widenBytes(values, inputs, from, memory, target, count)
    if (precision === "int8") return
    if (precision !== "bf16") return widenInto(precision, values, from, memory, target, count)
    shorts.set(values.subarray(from, from + count), 2 * target + count)
    operations.widenBrain(target, count)
  }
}

const assembled = (fused: boolean) => [gemm(fused), pack, transposePanels, ...rowKernels, ...attentionKernels]

const names = assembled(false).map(({ name }) => name)

const pageFloats = 16384

/** The most floats one memory can hold: four gigabytes. @internal */
export const maxFloats = 65536 * pageFloats

const isOperations = (exports: object): exports is Operations =>
  names.every((name) => typeof Reflect.get(exports, name) === "function")

/** The fastest kernels this runtime accepts. */
const compile = (shared: boolean): WebAssembly.Module | undefined => {
  if (typeof WebAssembly === "undefined") return undefined
  for (const fused of [true, false]) {
    const bytes = assemble(assembled(fused), constants, shared)
    if (WebAssembly.validate(bytes)) return new WebAssembly.Module(bytes)
  }
  return undefined
}

const modules = globalValue(
  "@effect-tinker/local/engine/modules",
  () => new Map<boolean, WebAssembly.Module | undefined>()
)

/** The compiled kernels, if this runtime can run them; made when first asked for. @internal */
export const wasmModule = (shared: boolean): WebAssembly.Module | undefined => {
  if (!modules.has(shared)) modules.set(shared, compile(shared))
  return modules.get(shared)
}

/** A memory that several threads can use. Pages cost nothing until they are written to. @internal */
export const sharedMemory = (floats: number): WebAssembly.Memory =>
  new WebAssembly.Memory({ initial: Math.ceil(floats / pageFloats), maximum: 65536, shared: true })

/** Kernels over a memory, native ones where they are given; undefined where they cannot run. @internal */
export const kernelsOver = (linear: WebAssembly.Memory, native?: Native): Kernels | undefined => {
  const { buffer } = linear
  const shared = !(buffer instanceof ArrayBuffer)
  const module = wasmModule(shared)
  if (module === undefined) return undefined
  const operations: object = new WebAssembly.Instance(module, { env: { memory: linear } }).exports
  if (!isOperations(operations)) return undefined
  // The memory never grows, so that views of it stay valid.
  const memory = new Float32Array(buffer)
  const widen = widenOver(memory, operations)
  return native === undefined
    ? { ...operations, mode: "wasm", memory, widen, outsideOver: undefined }
    : {
      ...operations,
      mode: "native",
      memory,
      widen,
      gemm: native.gemmOver(memory),
      outsideOver: native.outsideOver(memory)
    }
}

/** Kernels over a fresh memory of at least `floats` floats; falls back to JavaScript where SIMD is missing. @internal */
export const makeKernels = (floats: number, mode: KernelMode, native?: Native): Kernels => {
  if (mode !== "js" && wasmModule(false) !== undefined) {
    const linear = new WebAssembly.Memory({ initial: Math.ceil(floats / pageFloats) })
    const wasm = kernelsOver(linear, mode === "native" ? native : undefined)
    if (wasm !== undefined) return wasm
  }
  const memory = new Float32Array(floats)
  const operations = makeJsKernels(memory)
  return { ...operations, mode: "js", memory, widen: widenOver(memory, operations), outsideOver: undefined }
}
