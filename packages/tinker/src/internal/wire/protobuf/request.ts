/** A training pass in protobuf, both ways. */
import type { ProvenanceSpan } from "../../../Datum.js"
import { Datum } from "../../../Datum.js"
import type { Chunk } from "../../../ModelInput.js"
import { Dmel, EncodedText, fromChunks, Image, ImageFormat } from "../../../ModelInput.js"
import type { TensorData } from "../../../TensorData.js"
import type { LossConfig, Request } from "../../../wire/ForwardBackward.js"
import { firstNotInt32 } from "../numbers.js"
import * as Fields from "./fields.js"
import { heldMessage, readEntry, readNumber } from "./fields.js"
import * as reader from "./reader.js"
import type { Reader } from "./reader.js"
import type { Writer } from "./writer.js"
import { sortedKeys } from "./writer.js"

const isInt32 = (value: number): boolean => firstNotInt32([value]) < 0

/** @internal */
export const write = (writer: Writer, request: Request): void => {
  const seqId = request.seqId ?? 0
  if (!isInt32(seqId) || seqId < 0) writer.refuse(`seqId ${seqId} is not a 32-bit count`)
  writer.text(1, request.modelId)
  writer.uint(2, seqId)
  for (const datum of request.data) {
    writer.begin(3)
    writeDatum(writer, datum)
    writer.end()
  }
  writer.text(4, request.lossFn)
  writeConfig(writer, request.lossFnConfig ?? {}, request.forwardOnly === true)
}

/** Numbers go out twice: servers that know the newer map prefer it, others read the older. */
const writeConfig = (writer: Writer, config: LossConfig, forwardOnly: boolean): void => {
  const keys = sortedKeys(config)
  for (const key of keys) {
    const value = config[key]
    if (typeof value !== "number") continue
    writer.begin(5)
    writer.presentText(1, key)
    writer.double(2, value)
    writer.end()
  }
  if (forwardOnly) writer.uint(6, 1)
  for (const key of keys) {
    const value = config[key]
    writer.begin(7)
    writer.presentText(1, key)
    writer.begin(2)
    if (typeof value === "number") writer.double(1, value)
    else writer.presentText(2, value ?? "")
    writer.end()
    writer.end()
  }
}

const writeDatum = (writer: Writer, datum: Datum): void => {
  for (const chunk of datum.modelInput.chunks) {
    writer.begin(1)
    writeChunk(writer, chunk)
    writer.end()
  }
  for (const key of sortedKeys(datum.lossFnInputs)) {
    const value = datum.lossFnInputs[key]
    if (value === undefined) continue
    writer.begin(2)
    writer.presentText(1, key)
    writer.begin(2)
    Fields.write(writer, value)
    writer.end()
    writer.end()
  }
  for (const span of datum.modelInputSpans ?? []) writeSpan(writer, 3, span)
  for (const span of datum.lossFnInputSpans ?? []) writeSpan(writer, 4, span)
}

const writeChunk = (writer: Writer, chunk: Chunk): void => {
  switch (chunk.type) {
    case "encoded_text":
      writer.begin(1)
      writer.int32s(1, chunk.tokens)
      return writer.end()
    case "image":
      writer.begin(2)
      writer.bytes(1, chunk.data)
      writer.text(2, chunk.format)
      if (chunk.length !== undefined) {
        if (!isInt32(chunk.length)) writer.refuse(`expectedTokens ${chunk.length} is not a 32-bit integer`)
        writer.presentUint(3, chunk.length)
      }
      return writer.end()
    case "dmel":
      writer.begin(3)
      writer.bytes(1, chunk.dmel)
      return writer.end()
    case "image_asset_pointer":
      return writer.refuse("an image by location cannot be trained on: give its bytes")
  }
}

const writeSpan = (writer: Writer, field: number, span: ProvenanceSpan): void => {
  writer.begin(field)
  writer.begin(span.source === "prompt" ? 1 : 2)
  writer.text(1, span.sequenceId)
  writer.uint(2, span.offset ?? 0)
  writer.uint(3, span.length)
  writer.end()
  writer.end()
}

/** @internal */
export const read = (message: Reader): Request => {
  let modelId = ""
  let seqId = 0
  let lossFn = ""
  let forwardOnly = false
  const data: Array<Datum> = []
  const numbers = new Map<string, number>()
  const values = new Map<string, number | string>()
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) modelId = message.text()
        break
      case 2:
        if (message.isVarint()) seqId = message.int32()
        break
      case 3:
        if (message.isLength()) data.push(readDatum(message.message()))
        break
      case 4:
        if (message.isLength()) lossFn = message.text()
        break
      case 5:
        if (message.isLength()) readEntry(message.message(), numbers, readNumber)
        break
      case 6:
        if (message.isVarint()) forwardOnly = message.bool()
        break
      case 7:
        if (message.isLength()) readEntry(message.message(), values, readConfigValue)
        break
      default:
        message.skip()
    }
  }
  // a writer of the newer map writes all of it
  const config = values.size > 0 ? values : numbers
  return {
    modelId,
    // 0 stands for none: operations are numbered from 1
    seqId: seqId === 0 ? undefined : seqId,
    data,
    lossFn,
    lossFnConfig: config.size === 0 ? undefined : Object.fromEntries<number | string>(config),
    forwardOnly
  }
}

const readConfigValue = (held: Reader | undefined): number | string => {
  let value: number | string = 0
  if (held?.isLength() !== true) return value
  const message = held.message()
  while (message.next()) {
    if (message.field === 1) {
      if (message.isDouble()) value = message.double()
    } else if (message.field === 2) {
      if (message.isLength()) value = message.text()
    } else message.skip()
  }
  return value
}

const readDatum = (message: Reader): Datum => {
  const chunks: Array<Chunk> = []
  const inputs = new Map<string, TensorData>()
  const modelInputSpans: Array<ProvenanceSpan> = []
  const lossFnInputSpans: Array<ProvenanceSpan> = []
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) chunks.push(readChunk(message.message()))
        break
      case 2:
        if (message.isLength()) readEntry(message.message(), inputs, readInput)
        break
      case 3:
        if (message.isLength()) modelInputSpans.push(readSpan(message.message()))
        break
      case 4:
        if (message.isLength()) lossFnInputSpans.push(readSpan(message.message()))
        break
      default:
        message.skip()
    }
  }
  const spans = modelInputSpans.length + lossFnInputSpans.length > 0 ? { modelInputSpans, lossFnInputSpans } : {}
  return new Datum({ modelInput: fromChunks(chunks), lossFnInputs: Object.fromEntries(inputs), ...spans })
}

const readInput = (held: Reader | undefined, key: string): TensorData => Fields.read(heldMessage(held), key)

const trusted = { disableValidation: true } as const

const readChunk = (message: Reader): Chunk => {
  let chunk: Chunk | undefined
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) {
          const tokens = reader.int32s(readOnly(message.message()), "tokens")
          chunk = new EncodedText({ tokens, type: "encoded_text" }, trusted)
        }
        break
      case 2:
        if (message.isLength()) chunk = readImage(message.message())
        break
      case 3:
        if (message.isLength()) chunk = new Dmel({ dmel: readOnly(message.message()), type: "dmel" }, trusted)
        break
      default:
        message.skip()
    }
  }
  return chunk ?? reader.malformed("a chunk holds nothing known")
}

/** The bytes of a message whose only field is bytes. */
const readOnly = (message: Reader): Uint8Array => {
  let bytes: Uint8Array = new Uint8Array(0)
  while (message.next()) {
    if (message.field === 1) {
      if (message.isLength()) bytes = message.view()
    } else message.skip()
  }
  return bytes
}

const readImage = (message: Reader): Image => {
  let data: Uint8Array = new Uint8Array(0)
  let format = ""
  let expectedTokens: number | undefined
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) data = message.view()
        break
      case 2:
        if (message.isLength()) format = message.text()
        break
      case 3:
        if (message.isVarint()) expectedTokens = message.int32()
        break
      default:
        message.skip()
    }
  }
  const known = ImageFormat.literals.find((literal) => literal === format)
  if (known === undefined) return reader.malformed(`unknown image format "${format}"`)
  if (expectedTokens !== undefined && expectedTokens < 0) return reader.malformed("expected_tokens is negative")
  return new Image(
    { data, format: known, type: "image", ...(expectedTokens === undefined ? {} : { expectedTokens }) },
    trusted
  )
}

const readSpan = (message: Reader): ProvenanceSpan => {
  let span: ProvenanceSpan | undefined
  while (message.next()) {
    if ((message.field === 1 || message.field === 2)) {
      const source = message.field === 1 ? "prompt" : "sampled"
      if (message.isLength()) span = readRun(message.message(), source)
    } else message.skip()
  }
  return span ?? reader.malformed("a span names no source")
}

const readRun = (message: Reader, source: "prompt" | "sampled"): ProvenanceSpan => {
  let sequenceId = ""
  let offset = 0
  let length = 0
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) sequenceId = message.text()
        break
      case 2:
        if (message.isVarint()) offset = message.count("an offset")
        break
      case 3:
        if (message.isVarint()) length = message.count("a length")
        break
      default:
        message.skip()
    }
  }
  return { source, sequenceId, offset, length }
}
