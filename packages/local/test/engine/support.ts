import { Effect, Either } from "effect"
import { makeArchitecture } from "../../src/internal/engine/architecture.js"
import { makeStore } from "../../src/internal/engine/frozen.js"
import { makeKernels } from "../../src/internal/engine/kernels.js"
import { findNative } from "../../src/internal/engine/NodeNative.js"
import type { LayoutOptions, Space, Work } from "../../src/internal/engine/space.js"
import { defaultLayout, makeLayout, makeSpace } from "../../src/internal/engine/space.js"
import { writeWeights } from "../../src/internal/engine/weights.js"
import * as LocalModel from "../../src/LocalModel.js"
import { nativeDirectory } from "../../src/NodeEngine.js"

/** The kernels in machine code, where they run. */
export const native = Either.getOrUndefined(findNative(nativeDirectory))

/** Small enough that a check by differences over all its parts takes milliseconds. */
export const micro: LocalModel.LocalModel = LocalModel.random({
  name: "local/micro",
  contextLength: 96,
  width: 16,
  layers: 2,
  heads: 2,
  hidden: 24
})

/** Half of each head is rotated, and scaled, as Phi-4-mini's are. */
export const microPartial: LocalModel.LocalModel = {
  ...LocalModel.random({ name: "local/micro-partial", contextLength: 96, width: 32, layers: 1, heads: 2, hidden: 24 }),
  rotation: { theta: 1000, dimensions: 8, scale: 1.2 }
}

/** Grouped queries, norms, gates and tied embeddings, over a vocabulary that does not fill its last panel. */
export const microQwen: LocalModel.LocalModel = {
  ...micro,
  name: "local/micro-qwen",
  family: "qwen3",
  vocabularySize: 61,
  heads: 4,
  keyValueHeads: 2,
  headSize: 8,
  hidden: 40,
  activation: "swiglu",
  queryKeyNorms: true,
  tiedEmbeddings: true,
  rotation: { theta: 1000 },
  attentionScale: 8 ** -0.5,
  weights: {
    precision: "f32",
    // small numbers that differ from tensor to tensor and from place to place
    read: (tensor, receive) =>
      Effect.sync(() => {
        const norm = /norm/.test(tensor)
        const seed = Array.from(tensor).reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 9973, 7)
        const values = Float32Array.from(
          { length: sizeOf(tensor) },
          (_, i) => norm ? 1 + 0.3 * Math.sin(seed + i) : 0.5 * Math.sin(seed + i * 12.9898 + (i % 7))
        )
        receive(values, 0)
      })
  }
}

const sizeOf = (tensor: string): number => {
  const architecture = makeArchitecture(microQwen)
  for (const { parts } of architecture.projections) {
    for (const part of parts) if (tensor === `${part.name}.weight`) return part.inputs * part.outputs
  }
  for (const gain of architecture.gains) if (tensor === gain.name) return gain.length
  return microQwen.vocabularySize * microQwen.width
}

export const makeTestSpace = (
  model: LocalModel.LocalModel,
  mode: "native" | "wasm" | "js",
  options: Partial<LayoutOptions> = {}
): Space => {
  const architecture = makeArchitecture(model)
  const layout = makeLayout(architecture, { ...defaultLayout, ...options, threads: 1 })
  const kernels = makeKernels(layout.floats, mode, native)
  const store = layout.outside
    ? makeStore(architecture, model.quantize ?? model.weights?.precision ?? "f32", false)
    : undefined
  const run = <A>(work: () => Work<A>) => Effect.sync(() => drain(work()))
  Effect.runSync(writeWeights(architecture, layout, kernels.memory, store, mode === "native" ? native : undefined, run))
  const space = makeSpace(architecture, layout, kernels, store, 0)
  if (space === undefined) throw new Error("no space")
  return space
}

/** Drives work to its end without pauses. */
export const drain = <A>(work: Work<A>): A => {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}

export const randomArray = (length: number, next: () => number, size = 1): Float32Array =>
  Float32Array.from({ length }, () => (next() - 0.5) * 2 * size)
