/** The result of a training pass in protobuf, both ways. */
import type { Dtype, Values } from "../../../TensorData.js"
import { TensorData, toDense } from "../../../TensorData.js"
import type { LossFnOutput, Output } from "../../../wire/ForwardBackward.js"
import { product } from "../numbers.js"
import * as Fields from "./fields.js"
import { heldMessage, readEntry, readNumber } from "./fields.js"
import * as reader from "./reader.js"
import type { Reader } from "./reader.js"
import type { Writer } from "./writer.js"
import { sortedKeys } from "./writer.js"

/** Records without a field cost nothing on the wire, so their number is not bounded by the size of the message. */
const MAX_BARE_RECORDS = 2 ** 20

/** Examples in a row whose outputs have the same names, dtypes and trailing shapes. */
interface Run {
  readonly layout: string
  readonly names: ReadonlyArray<string>
  readonly outputs: Array<LossFnOutput>
}

const trailing = (self: TensorData): ReadonlyArray<number> => self.shape.slice(1)

const runs = (outputs: ReadonlyArray<LossFnOutput>): ReadonlyArray<Run> => {
  const all: Array<Run> = []
  for (const output of outputs) {
    const names = sortedKeys(output)
    const layout = JSON.stringify(names.map((name) => {
      const value = output[name]
      return value === undefined ? [name] : [name, value.dtype, ...trailing(value)]
    }))
    const last = all[all.length - 1]
    if (last !== undefined && last.layout === layout) last.outputs.push(output)
    else all.push({ layout, names, outputs: [output] })
  }
  return all
}

/** One field of a run, its values end to end. */
interface Column {
  readonly name: string
  readonly dtype: Dtype
  readonly trailing: ReadonlyArray<number>
  readonly data: Values
  /** In elements. */
  readonly offsets: ReadonlyArray<number>
}

const column = (name: string, outputs: ReadonlyArray<LossFnOutput>): Column | undefined => {
  const tensors = outputs.flatMap((output) => output[name] ?? []).map((one) => toDense(one))
  const [first] = tensors
  if (first === undefined) return undefined
  const offsets = [0]
  let total = 0
  for (const { data } of tensors) offsets.push(total += data.length)
  const place = <A extends Float32Array | Float64Array>(data: A): A => {
    tensors.forEach((one, i) => one.data instanceof BigInt64Array || data.set(one.data, offsets[i] ?? 0))
    return data
  }
  const exact = tensors.some((one) => one.data instanceof BigInt64Array)
  const data = first.dtype === "float32"
    ? place(new Float32Array(total))
    : exact
    ? BigInt64Array.from(tensors.flatMap((one) => Array.from(one.data, BigInt)))
    : place(new Float64Array(total))
  return { name, dtype: first.dtype, trailing: trailing(first), data, offsets }
}

/**
 * Gathered once, since a description runs twice.
 *
 * @internal
 */
export const describe = (output: Output): (writer: Writer) => void => {
  const records = runs(output.lossFnOutputs).map(({ names, outputs }) => ({
    count: outputs.length,
    columns: names.flatMap((name) => column(name, outputs) ?? [])
  }))
  return (writer) => {
    writer.text(1, output.lossFnOutputType)
    for (const { columns, count } of records) {
      writer.begin(2)
      writer.text(1, output.lossFnOutputType)
      for (const one of columns) {
        writer.begin(2)
        writer.presentText(1, one.name)
        writer.begin(2)
        Fields.writeValues(writer, 1, one.data, false)
        const size = one.dtype === "float32" ? 4 : 8
        writer.int64s(2, Float64Array.from(one.offsets, (offset) => offset * size))
        writer.presentUint(3, Fields.dtypeNumber(one.dtype))
        writer.uints(4, one.trailing)
        writer.end()
        writer.end()
      }
      writer.uint(3, count)
      writer.end()
    }
    for (const key of sortedKeys(output.metrics)) {
      writer.begin(3)
      writer.presentText(1, key)
      writer.double(2, output.metrics[key] ?? NaN)
      writer.end()
    }
  }
}

/** @internal */
export const read = (message: Reader): Output => {
  let type = ""
  const records: Array<Record> = []
  const metrics = new Map<string, number>()
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) type = message.text()
        break
      case 2:
        if (message.isLength()) records.push(readRecord(message.message()))
        break
      case 3:
        if (message.isLength()) readEntry(message.message(), metrics, readNumber)
        break
      default:
        message.skip()
    }
  }
  // servers that do not count their records leave all of the counts at 0
  const counted = records.some((record) => record.count > 0)
  return {
    // the name of a class, which may come with its module before a colon
    lossFnOutputType: records.length === 0 ? type || "ArrayRecord" : type.slice(type.lastIndexOf(":") + 1),
    lossFnOutputs: joined(records.map((record) => examples(record, counted))),
    metrics: Object.fromEntries(metrics)
  }
}

/** Most answers are one record. */
const joined = <A>(lists: ReadonlyArray<ReadonlyArray<A>>): ReadonlyArray<A> =>
  lists.length === 1 ? lists[0] ?? [] : lists.flat()

interface Record {
  readonly count: number
  readonly fields: ReadonlyArray<readonly [name: string, tensors: ReadonlyArray<TensorData>]>
}

type Built = { [name: string]: TensorData }

const nothing: LossFnOutput = {}

const examples = (record: Record, counted: boolean): ReadonlyArray<LossFnOutput> => {
  const [first] = record.fields
  const count = counted ? record.count : first?.[1].length ?? 0
  if (first === undefined) {
    if (count > MAX_BARE_RECORDS) reader.malformed(`${count} records without a field`)
    return new Array<LossFnOutput>(count).fill(nothing)
  }
  for (const [name, tensors] of record.fields) {
    if (tensors.length !== count) reader.malformed(`${name}: ${tensors.length} tensors for ${count} examples`)
  }
  const outputs = first[1].map((): Built => ({}))
  for (const [name, tensors] of record.fields) place(outputs, name, tensors)
  return outputs
}

const place = (outputs: ReadonlyArray<Built>, text: string, tensors: ReadonlyArray<TensorData>): void => {
  const name = propertyName(text)
  for (let i = 0; i < outputs.length; i++) {
    const output = outputs[i]
    const one = tensors[i]
    if (output === undefined || one === undefined) continue
    // an assignment to this name would not make a property
    if (name === "__proto__") Object.defineProperty(output, name, { value: one, enumerable: true })
    else output[name] = one
  }
}

/** The same text as V8 keeps it for the names of properties: one fresh from bytes is looked up again at every store. */
const propertyName = (text: string): string => Object.keys({ [text]: text })[0] ?? text

const readRecord = (message: Reader): Record => {
  let count = 0
  const fields = new Map<string, ReadonlyArray<TensorData>>()
  while (message.next()) {
    switch (message.field) {
      case 2:
        if (message.isLength()) readEntry(message.message(), fields, readBatched)
        break
      case 3:
        if (message.isVarint()) count = message.count("num_datums")
        break
      default:
        message.skip()
    }
  }
  return { count, fields: Array.from(fields) }
}

/** The tensors of a batch, each a view of the one array they came in. */
const readBatched = (held: Reader | undefined, name: string): ReadonlyArray<TensorData> => {
  const message = heldMessage(held)
  let bytes: Uint8Array = new Uint8Array(0)
  let offsetBytes: Uint8Array = bytes
  let dtype = 0
  const trailingShape: Array<number> = []
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) bytes = message.view()
        break
      case 2:
        if (message.isLength()) offsetBytes = message.view()
        break
      case 3:
        if (message.isVarint()) dtype = message.int32()
        break
      case 4:
        message.counts(`${name}: a size`, trailingShape)
        break
      default:
        message.skip()
    }
  }
  const size = Fields.itemSize(dtype, name)
  const values = Fields.readValues(dtype, bytes, name)
  const offsets = reader.int64s(offsetBytes, name)
  const row = product(trailingShape)
  const { data } = values
  const tensors: Array<TensorData> = []
  for (let i = 0; i + 1 < offsets.length; i++) {
    const start = Number(offsets[i]) / size
    const end = Number(offsets[i + 1]) / size
    if (!(start >= 0 && end >= start && end <= data.length && Number.isInteger(start) && Number.isInteger(end))) {
      reader.malformed(`${name}: example ${i} is at ${offsets[i]} … ${offsets[i + 1]} of ${bytes.length} bytes`)
    }
    const rows = row === 0 ? 0 : (end - start) / row
    if (!Number.isInteger(rows)) reader.malformed(`${name}: example ${i} does not fill rows of ${row}`)
    // a spread costs more than the rest of the tensor, and most are flat
    const shape = trailingShape.length === 0 ? [rows] : [rows, ...trailingShape]
    tensors.push(
      new TensorData({ dtype: values.dtype, data: data.subarray(start, end), shape, crow: undefined, col: undefined })
    )
  }
  return tensors
}
