import { makeShape } from "../../src/internal/engine/shape.js"
import type { Work } from "../../src/internal/engine/work.js"
import type { Workspace } from "../../src/internal/engine/workspace.js"
import { makeWorkspace } from "../../src/internal/engine/workspace.js"
import type { LocalModel } from "../../src/LocalModel.js"
import * as LocalTokenizer from "../../src/LocalTokenizer.js"

/** Small enough that a check by differences over all its parts takes milliseconds. */
export const micro: LocalModel = {
  name: "local/micro",
  contextLength: 96,
  vocabularySize: LocalTokenizer.vocabularySize,
  width: 16,
  layers: 2,
  heads: 2,
  hidden: 24
}

export const microWorkspace = (mode: "wasm" | "js"): Workspace => drain(makeWorkspace(makeShape(micro), mode))

/** Drives work to its end without pauses. */
export const drain = <A>(work: Work<A>): A => {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}

export const randomArray = (length: number, next: () => number, size = 1): Float32Array =>
  Float32Array.from({ length }, () => (next() - 0.5) * 2 * size)
