/**
 * A GGUF file read as if it were one of safetensors: tensors lie one after the other in 16 or 32 bits, and a range of whole
 * rows is decoded when it is read.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type * as GgufModel from "../GgufModel.js"
import type * as Safetensors from "../Safetensors.js"
import * as SafetensorsHeader from "../SafetensorsHeader.js"
import { InvalidFile } from "../WeightsError.js"
import * as numbers from "./numbers.js"

/** Type of a tensor: sixteen bits do not make worse what was rounded to fewer; vectors stay as they are. */
const typeOf = (format: string, shape: ReadonlyArray<number>): "F32" | "F16" | "BF16" =>
  shape.length < 2 || format === "F32" ? "F32" : format === "F16" ? "F16" : "BF16"

/** @internal */
export const shard = (gguf: GgufModel.GgufModel) =>
  Effect.map(FileSystem.FileSystem, (fs) => {
    const { path } = gguf.file
    let end = 0
    const tensors = Array.from(gguf.tensors, ([name, { format, shape }]) => {
      const dtype = typeOf(format, shape)
      const start = end
      const bytes = SafetensorsHeader.elements(shape) * (SafetensorsHeader.dtypeBytes[dtype] ?? 0)
      end += bytes
      return { name, dtype, shape, start, bytes }
    })
    const read: Safetensors.SafetensorsFile["read"] = Effect.fnUntraced(function*(start, bytes) {
      const tensor = tensors.find((one) => one.start <= start && start + bytes <= one.start + one.bytes)
      if (tensor === undefined) return yield* new InvalidFile({ path, description: "a range that is no tensor's" })
      const { dtype, name, shape } = tensor
      const rowBytes = (shape.at(-1) ?? 1) * (SafetensorsHeader.dtypeBytes[dtype] ?? 0)
      const values = yield* gguf.floats(name, (start - tensor.start) / rowBytes, bytes / rowBytes)
      return numbers.fromFloat32(dtype, values)
    }, Effect.provideService(FileSystem.FileSystem, fs))
    return { name: "model.safetensors", file: { path, tensors, read } }
  })
