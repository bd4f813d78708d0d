/**
 * The training step that the engine bench measures, as its processes share it.
 */
import { LocalModel } from "@effect-tinker/local"
import { sized } from "./Bench.js"

export const baseModel = LocalModel.small.name

export const rank = 32

export const batch = sized(16, 2)

/** Tokens of each sequence. */
export const length = sized(128, 16)

export const data = Array.from({ length: batch }, (_, index) => {
  const tokens = Array.from({ length: length + 1 }, (_, i) => (i * 37 + index * 91 + ((i * i) % 53)) % 256)
  return { tokens: tokens.slice(0, -1), lossInputs: { target_tokens: { data: tokens.slice(1), shape: [length] } } }
})
