/** Tensors in protobuf. */
import type { Dtype, Values } from "../../../TensorData.js"
import { TensorData } from "../../../TensorData.js"
import * as tensor from "../tensor.js"
import * as reader from "./reader.js"
import { Reader } from "./reader.js"
import type { Writer } from "./writer.js"

// -----------------------------------------------------------------------------
// Maps in protobuf: a repeated message of a key and a value.
// -----------------------------------------------------------------------------

/**
 * An entry of a map: key 1, value 2. `value` reads the field it is called at.
 *
 * @internal
 */
export const readEntry = <A>(
  message: Reader,
  into: Map<string, A>,
  value: (message: Reader | undefined, key: string) => A
): void => {
  let key = ""
  let held: Reader | undefined
  while (message.next()) {
    if (message.field === 1) {
      if (message.isLength()) key = message.text()
    } else if (message.field === 2) {
      held = message.fork()
      message.skip()
    } else message.skip()
  }
  into.set(key, value(held, key))
}

/** @internal */
export const readNumber = (held: Reader | undefined): number => held?.isDouble() === true ? held.double() : 0

const noMessage = new Reader(new Uint8Array(0))

/**
 * The message a map entry holds, or an empty one.
 *
 * @internal
 */
export const heldMessage = (held: Reader | undefined): Reader => held?.isLength() === true ? held.message() : noMessage

// -----------------------------------------------------------------------------
// Tensors.
// -----------------------------------------------------------------------------

const FLOAT32 = 1
const INT64 = 2
const INT32 = 3
const BFLOAT16 = 4

/** @internal */
export const dtypeNumber = (dtype: Dtype): number => dtype === "float32" ? FLOAT32 : INT64

/** Bytes per element of each dtype; undefined for one that is unknown. */
const itemSizes: ReadonlyMap<number, number> = new Map([[FLOAT32, 4], [INT64, 8], [INT32, 4], [BFLOAT16, 2]])

/** @internal */
export const itemSize = (dtype: number, what: string): number =>
  itemSizes.get(dtype) ?? reader.malformed(`${what}: unknown dtype ${dtype}`)

/**
 * Elements in the dtype they are sent in, as one of the two we have: bfloat16 as float32, int32 as int64.
 *
 * @internal
 */
export const readValues = (
  dtype: number,
  bytes: Uint8Array,
  what: string
): { readonly dtype: Dtype; readonly data: Values } => {
  switch (dtype) {
    case FLOAT32:
      return { dtype: "float32", data: reader.float32s(bytes, what) }
    case BFLOAT16:
      return { dtype: "float32", data: reader.bfloat16s(bytes, what) }
    case INT64:
      return { dtype: "int64", data: reader.int64s(bytes, what) }
    case INT32:
      return { dtype: "int64", data: reader.int32s(bytes, what) }
    default:
      return reader.malformed(`${what}: unknown dtype ${dtype}`)
  }
}

/** @internal */
export const writeValues = (writer: Writer, field: number, values: Values, present: boolean): void => {
  if (values.length === 0 && !present) return
  if (values instanceof Float32Array) writer.presentBytes(field, values)
  else writer.presentInt64s(field, values)
}

/** @internal */
export const write = (writer: Writer, self: TensorData): void => {
  if (self.crowIndices !== undefined && self.colIndices !== undefined) {
    writer.begin(2)
    writeValues(writer, 1, self.data, false)
    writer.int64s(2, self.crowIndices)
    writer.int64s(3, self.colIndices)
    writer.end()
  } else writeValues(writer, 1, self.data, true)
  writer.presentUint(3, dtypeNumber(self.dtype))
  writer.uints(4, self.declaredShape ?? [])
}

const none = new Uint8Array(0)

interface Csr {
  values: Uint8Array
  crow: Uint8Array
  col: Uint8Array
}

/** @internal */
export const read = (message: Reader, what: string): TensorData => {
  let dense: Uint8Array | undefined
  let csr: Csr | undefined
  let dtype = 0
  const sizes: Array<number> = []
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) {
          dense = message.view()
          csr = undefined
        }
        break
      case 2:
        if (message.isLength()) {
          csr = readCsr(message.message())
          dense = undefined
        }
        break
      case 3:
        if (message.isVarint()) dtype = message.int32()
        break
      case 4:
        message.counts(`${what}: a size`, sizes)
        break
      default:
        message.skip()
    }
  }
  const values = readValues(dtype, csr?.values ?? dense ?? none, what)
  // an empty shape means either no shape or no dimensions: the wire does not distinguish them
  const shape = sizes.length === 0 ? undefined : sizes
  const built = csr === undefined
    ? tensor.dense(values.dtype, values.data, shape)
    : tensor.sparse(values.dtype, values.data, shape, reader.int64s(csr.crow, what), reader.int64s(csr.col, what))
  return fromParts(built, what)
}

const fromParts = (built: tensor.Parts | string, what: string): TensorData =>
  typeof built === "string" ? reader.malformed(`${what}: ${built}`) : new TensorData(built)

const readCsr = (message: Reader): Csr => {
  const csr: Csr = { values: none, crow: none, col: none }
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) csr.values = message.view()
        break
      case 2:
        if (message.isLength()) csr.crow = message.view()
        break
      case 3:
        if (message.isLength()) csr.col = message.view()
        break
      default:
        message.skip()
    }
  }
  return csr
}
