/**
 * Kernels in machine code. WebAssembly's vectors have four floats, whatever the processor has; where a file for this
 * platform can be loaded (`NodeNative.ts`), products and the optimizer use all of it.
 */
import * as Context from "effect/Context"
import type { Advance } from "./adamw.js"
import type { Kernels, Operations } from "./kernels.js"

/** @internal */
export interface Native {
  /** The file that they are from, and its hash: every thread loads it by itself. */
  readonly path: string
  readonly hash: string
  /** Products over a memory. Terms are added with one rounding, as by the kernels of runtimes with relaxed SIMD. */
  readonly gemmOver: (memory: Float32Array) => Operations["gemm"]
  /** Products with matrices outside of a memory, with the same bits as products of their floats. */
  readonly outsideOver: (memory: Float32Array) => NonNullable<Kernels["outsideOver"]>
  /** Rows of 16 bits, the outputs from `from` to `to`, into panels of eight outputs. */
  readonly panels: (target: Uint16Array, source: Uint16Array, inputs: number, from: number, to: number) => void
  /** `target` += `source`, from `from` to `to`. */
  readonly add: (target: Float32Array, source: Float32Array, from: number, to: number) => void
  /** As `adam`, with the same bits. */
  readonly adam: Advance
}

/** Products of engines whose mode is `native`; none, unless a runtime provides them. @internal */
export class NativeKernels extends Context.Reference<NativeKernels>()("@effect-tinker/local/engine/NativeKernels", {
  defaultValue: (): Native | undefined => undefined
}) {}
