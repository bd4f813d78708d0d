/**
 * The GGUF container, version 3: typed metadata, tensor descriptions, then the numbers, each tensor aligned.
 */
import * as files from "./files.js"

/** @internal */
export type Value =
  | { readonly type: "u32" | "f32" | "bool"; readonly value: number }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: ReadonlyArray<string> }
  | { readonly type: "i32s"; readonly value: ReadonlyArray<number> }
  | { readonly type: "f32s"; readonly value: ReadonlyArray<number> }

/** @internal */
export const u32 = (value: number): Value => ({ type: "u32", value })
/** @internal */
export const f32 = (value: number): Value => ({ type: "f32", value })
/** @internal */
export const bool = (value: boolean): Value => ({ type: "bool", value: value ? 1 : 0 })
/** @internal */
export const string = (value: string): Value => ({ type: "string", value })

/** Formats of numbers, as llama.cpp numbers them. @internal */
export const ggmlType = { F32: 0, F16: 1, Q8_0: 8, BF16: 30 } as const

/** @internal */
export type GgmlType = keyof typeof ggmlType

/** Bytes of a row. @internal */
export const rowBytes = (type: GgmlType, columns: number): number =>
  type === "F32" ? columns * 4 : type === "Q8_0" ? (columns / 32) * 34 : columns * 2

/** @internal */
export interface TensorHeader {
  readonly name: string
  readonly type: GgmlType
  /** As usual in frameworks, slowest dimension first; GGUF counts the other way round. */
  readonly shape: ReadonlyArray<number>
}

/** @internal */
export const alignment = 32

/** @internal */
export const padding = (bytes: number): number => (alignment - bytes % alignment) % alignment

/** @internal */
export const tensorBytes = ({ shape, type }: TensorHeader): number => {
  const columns = shape.at(-1) ?? 1
  return rowBytes(type, columns) * shape.slice(0, -1).reduce((size, n) => size * n, 1)
}

const typeCodes = { u32: 4, i32: 5, f32: 6, bool: 7, string: 8, array: 9 } as const
const encoder = new TextEncoder()

/** Everything before the numbers, padded to where they begin. @internal */
export const encodeHeader = (
  metadata: Readonly<Record<string, Value>>,
  tensors: ReadonlyArray<TensorHeader>
): Uint8Array => {
  const parts: Array<Uint8Array> = []
  const number = (bytes: number, write: (view: DataView) => void): void => {
    const part = new Uint8Array(bytes)
    write(new DataView(part.buffer))
    parts.push(part)
  }
  const int32 = (value: number) => number(4, (view) => view.setInt32(0, value, true))
  const uint32 = (value: number) => number(4, (view) => view.setUint32(0, value, true))
  const uint64 = (value: number) => number(8, (view) => view.setBigUint64(0, BigInt(value), true))
  const float = (value: number) => number(4, (view) => view.setFloat32(0, value, true))
  const text = (value: string): void => {
    const bytes = encoder.encode(value)
    uint64(bytes.length)
    parts.push(bytes)
  }
  const scalar = (type: "u32" | "f32" | "bool", value: number): void => {
    if (type === "u32") uint32(value)
    else if (type === "f32") float(value)
    else number(1, (view) => view.setUint8(0, value))
  }
  const array = (type: "string" | "i32" | "f32", length: number): void => {
    uint32(typeCodes.array)
    uint32(typeCodes[type])
    uint64(length)
  }
  parts.push(encoder.encode("GGUF"))
  uint32(3)
  uint64(tensors.length)
  uint64(Object.keys(metadata).length)
  for (const [key, entry] of Object.entries(metadata)) {
    text(key)
    if (entry.type === "string") {
      uint32(typeCodes.string)
      text(entry.value)
    } else if (entry.type === "strings") {
      array("string", entry.value.length)
      entry.value.forEach(text)
    } else if (entry.type === "i32s") {
      array("i32", entry.value.length)
      entry.value.forEach(int32)
    } else if (entry.type === "f32s") {
      array("f32", entry.value.length)
      entry.value.forEach(float)
    } else {
      uint32(typeCodes[entry.type])
      scalar(entry.type, entry.value)
    }
  }
  let offset = 0
  for (const tensor of tensors) {
    text(tensor.name)
    uint32(tensor.shape.length)
    for (const size of tensor.shape.slice().reverse()) uint64(size)
    uint32(ggmlType[tensor.type])
    uint64(offset)
    const bytes = tensorBytes(tensor)
    offset += bytes + padding(bytes)
  }
  const size = parts.reduce((sum, part) => sum + part.length, 0)
  parts.push(new Uint8Array(padding(size)))
  return files.concat(parts)
}
