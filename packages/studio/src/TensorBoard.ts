/**
 * TensorBoard event files: the curves of a run in the form that TensorBoard and everything built around it read.
 *
 * A file is a sequence of records. Each has its length, a masked CRC-32C of the length, an `Event` in protobuf, and a
 * masked CRC-32C of that. An event has at most six fields of four kinds, which are written by hand here: a protobuf
 * runtime and generated code would be a dependency of fifty times the size.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as RunDirectory from "./RunDirectory.js"
import type * as Series from "./Series.js"

// =============================================================================
// protobuf
// =============================================================================

/** Bytes that grow. */
const makeWriter = () => {
  let bytes = new Uint8Array(256)
  let view = new DataView(bytes.buffer)
  let size = 0
  const reserve = (count: number) => {
    if (size + count <= bytes.length) return
    const larger = new Uint8Array(Math.max(bytes.length * 2, size + count))
    larger.set(bytes.subarray(0, size))
    bytes = larger
    view = new DataView(bytes.buffer)
  }
  const writer = {
    varint: (value: number) => {
      reserve(10)
      let rest = BigInt.asUintN(64, BigInt(value))
      while (rest > 127n) {
        bytes[size++] = Number(rest & 127n) | 128
        rest >>= 7n
      }
      bytes[size++] = Number(rest)
    },
    double: (value: number) => {
      reserve(8)
      view.setFloat64(size, value, true)
      size += 8
    },
    float: (value: number) => {
      reserve(4)
      view.setFloat32(size, value, true)
      size += 4
    },
    uint32: (value: number) => {
      reserve(4)
      view.setUint32(size, value, true)
      size += 4
    },
    uint64: (value: number) => {
      reserve(8)
      view.setBigUint64(size, BigInt(value), true)
      size += 8
    },
    bytes: (value: Uint8Array) => {
      reserve(value.length)
      bytes.set(value, size)
      size += value.length
    },
    take: () => {
      const taken = bytes.slice(0, size)
      size = 0
      return taken
    },
    size: () => size
  }
  return writer
}

type Writer = ReturnType<typeof makeWriter>

const encoder = new TextEncoder()

const delimited = (writer: Writer, field: number, value: Uint8Array) => {
  writer.varint((field << 3) | 2)
  writer.varint(value.length)
  writer.bytes(value)
}

/** `Event { wall_time = 1, step = 2, file_version = 3, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } }` */
const event = (time: number, step: number, content: (writer: Writer) => void): Uint8Array => {
  const writer = makeWriter()
  writer.varint((1 << 3) | 1)
  writer.double(time)
  if (step !== 0) {
    writer.varint(2 << 3)
    writer.varint(step)
  }
  content(writer)
  return writer.take()
}

const version = (time: number): Uint8Array =>
  event(time, 0, (writer) => delimited(writer, 3, encoder.encode("brain.Event:2")))

const scalars = (time: number, step: number, values: ReadonlyArray<readonly [string, number]>): Uint8Array =>
  event(time, step, (writer) => {
    const summary = makeWriter()
    for (const [tag, value] of values) {
      const inner = makeWriter()
      delimited(inner, 1, encoder.encode(tag))
      inner.varint((2 << 3) | 5)
      inner.float(value)
      delimited(summary, 1, inner.take())
    }
    delimited(writer, 5, summary.take())
  })

// =============================================================================
// records
// =============================================================================

/** CRC-32C (Castagnoli). Node's zlib has only the other CRC-32. */
const table = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1
  return value
})

const crc32c = (bytes: Uint8Array): number => {
  let crc = 0xffffffff
  for (let i = 0; i < bytes.length; i++) crc = (table[(crc ^ (bytes[i] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8)
  return (crc ^ 0xffffffff) >>> 0
}

/** A checksum of data that holds checksums would be weak, so they are stored rotated and offset. */
const masked = (bytes: Uint8Array): number => {
  const crc = crc32c(bytes)
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0
}

const record = (writer: Writer, data: Uint8Array) => {
  const length = makeWriter()
  length.uint64(data.length)
  const header = length.take()
  writer.bytes(header)
  writer.uint32(masked(header))
  writer.bytes(data)
  writer.uint32(masked(data))
}

/**
 * The event file of a table: one event for each step, with all metrics of the step. Where the run recorded no times,
 * steps are a second apart.
 *
 * @since 0.1.0
 * @category combinators
 */
export const encode = (table: Series.Table): Uint8Array => {
  const rows = new Map<number, { time: number; readonly values: Array<readonly [string, number]> }>()
  for (const name of table.names()) {
    table.each(name, (step, value, time) => {
      const row = rows.get(step) ?? { time: step, values: [] }
      rows.set(step, row)
      if (time !== undefined) row.time = time / 1000
      row.values.push([name, value])
    })
  }
  const writer = makeWriter()
  const sorted = Array.from(rows).sort(([a], [b]) => a - b)
  record(writer, version(sorted[0]?.[1].time ?? 0))
  for (const [step, { time, values }] of sorted) record(writer, scalars(time, Math.round(step), values))
  return writer.take()
}

/**
 * A run that was exported.
 *
 * @since 0.1.0
 * @category models
 */
export interface Exported {
  readonly run: string
  readonly path: string
  readonly steps: number
}

/** The name is the same every time, so that exporting again replaces what was exported before. */
const fileName = "events.out.tfevents.0000000000.tinker"

/**
 * Writes the event files of all runs below a directory, each in a directory of its run's name: `tensorboard --logdir OUT`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const write: (options: {
  /** A run directory, or a directory that has some below it. */
  readonly from: string
  readonly to: string
}) => Effect.Effect<
  ReadonlyArray<Exported>,
  PlatformError.PlatformError,
  FileSystem.FileSystem | Path.Path
> = Effect.fnUntraced(function*({ from, to }) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  return yield* Effect.forEach(yield* RunDirectory.readAll(from), ({ name, table }) =>
    Effect.gen(function*() {
      const directory = path.join(to, name)
      const file = path.join(directory, fileName)
      yield* fs.makeDirectory(directory, { recursive: true })
      yield* fs.writeFile(`${file}.part`, encode(table))
      yield* fs.rename(`${file}.part`, file)
      return { run: name, path: file, steps: table.size() }
    }))
})
