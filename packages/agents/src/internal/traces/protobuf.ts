/**
 * `ExportTraceServiceRequest` of OpenTelemetry as protobuf, read into the shape of its JSON.
 *
 * Only the fields that traces are made of are read; the numbers are those of opentelemetry-proto 1.x.
 */
import * as Either from "effect/Either"

interface Field {
  readonly number: number
  readonly bytes: Uint8Array
  readonly value: bigint
}

class Malformed extends Error {}

const decoder = new TextDecoder()

function* fieldsOf(bytes: Uint8Array): Generator<Field> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = bytes[at++]
      if (byte === undefined) throw new Malformed("it ends within a number")
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
    throw new Malformed("a number is too long")
  }
  const none = new Uint8Array(0)
  while (at < bytes.length) {
    const tag = varint()
    const number = Number(tag >> 3n)
    switch (Number(tag & 7n)) {
      case 0:
        yield { number, bytes: none, value: varint() }
        break
      case 1:
        if (at + 8 > bytes.length) throw new Malformed("it ends within a field")
        yield { number, bytes: none, value: view.getBigUint64(at, true) }
        at += 8
        break
      case 2: {
        const length = Number(varint())
        if (at + length > bytes.length) throw new Malformed("it ends within a field")
        yield { number, bytes: bytes.subarray(at, at + length), value: 0n }
        at += length
        break
      }
      case 5:
        if (at + 4 > bytes.length) throw new Malformed("it ends within a field")
        yield { number, bytes: none, value: BigInt(view.getUint32(at, true)) }
        at += 4
        break
      default:
        throw new Malformed("a field has an unknown type")
    }
  }
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

const double = (bits: bigint): number => {
  const view = new DataView(new ArrayBuffer(8))
  view.setBigUint64(0, bits)
  return view.getFloat64(0)
}

const maxDepth = 32

const anyValue = (bytes: Uint8Array, depth: number): unknown => {
  if (depth > maxDepth) throw new Malformed("values are nested too deep")
  for (const field of fieldsOf(bytes)) {
    switch (field.number) {
      case 1:
        return { stringValue: decoder.decode(field.bytes) }
      case 2:
        return { boolValue: field.value !== 0n }
      case 3:
        return { intValue: String(BigInt.asIntN(64, field.value)) }
      case 4:
        return { doubleValue: double(field.value) }
      case 5:
        return {
          arrayValue: {
            values: Array.from(fieldsOf(field.bytes)).filter(({ number }) => number === 1).map((item) =>
              anyValue(item.bytes, depth + 1)
            )
          }
        }
      case 6:
        return { kvlistValue: { values: attributes(field.bytes, 1, depth + 1) } }
      case 7:
        return { bytesValue: hex(field.bytes) }
    }
  }
  return {}
}

const attributes = (bytes: Uint8Array, at: number, depth = 0): ReadonlyArray<unknown> =>
  Array.from(fieldsOf(bytes)).filter(({ number }) => number === at).map((field) => {
    let key = ""
    let value: unknown = {}
    for (const part of fieldsOf(field.bytes)) {
      if (part.number === 1) key = decoder.decode(part.bytes)
      else if (part.number === 2) value = anyValue(part.bytes, depth + 1)
    }
    return { key, value }
  })

const event = (bytes: Uint8Array): unknown => {
  let name = ""
  for (const field of fieldsOf(bytes)) if (field.number === 2) name = decoder.decode(field.bytes)
  return { name, attributes: attributes(bytes, 3) }
}

const span = (bytes: Uint8Array): unknown => {
  const out: Record<string, unknown> = { attributes: attributes(bytes, 9) }
  const events: Array<unknown> = []
  for (const field of fieldsOf(bytes)) {
    switch (field.number) {
      case 1:
        out["traceId"] = hex(field.bytes)
        break
      case 2:
        out["spanId"] = hex(field.bytes)
        break
      case 4:
        out["parentSpanId"] = hex(field.bytes)
        break
      case 5:
        out["name"] = decoder.decode(field.bytes)
        break
      case 7:
        out["startTimeUnixNano"] = String(field.value)
        break
      case 8:
        out["endTimeUnixNano"] = String(field.value)
        break
      case 11:
        events.push(event(field.bytes))
        break
    }
  }
  return { ...out, events }
}

const resourceSpans = (bytes: Uint8Array): unknown => {
  let resource: unknown = {}
  const scopeSpans: Array<unknown> = []
  for (const field of fieldsOf(bytes)) {
    if (field.number === 1) resource = { attributes: attributes(field.bytes, 1) }
    else if (field.number === 2) {
      const spans = Array.from(fieldsOf(field.bytes)).filter(({ number }) => number === 2)
      scopeSpans.push({ spans: spans.map((one) => span(one.bytes)) })
    }
  }
  return { resource, scopeSpans }
}

/**
 * The request as its JSON. Several requests behind each other are one, as protobuf has it.
 *
 * @internal
 */
export const request = (bytes: Uint8Array): Either.Either<{ readonly resourceSpans: ReadonlyArray<unknown> }, string> =>
  Either.try({
    try: () => ({
      resourceSpans: Array.from(fieldsOf(bytes)).filter(({ number }) => number === 1).map((field) =>
        resourceSpans(field.bytes)
      )
    }),
    catch: (error) => error instanceof Malformed ? `not OTLP as protobuf: ${error.message}` : "not OTLP as protobuf"
  })
