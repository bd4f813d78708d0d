/** The result of sampling in protobuf, both ways. */
import type { TensorData } from "../../../TensorData.js"
import type { TopkLogprobs } from "../../../wire/TopkLogprobs.js"
import * as Fields from "./fields.js"
import * as reader from "./reader.js"
import type { Reader } from "./reader.js"
import type { Writer } from "./writer.js"

/** Words for the numbers of the wire, in their order. */
const stopReasons: ReadonlyArray<string> = ["stop", "length"]

/**
 * A sampled sequence, seen from here.
 */
interface Sequence {
  readonly stopReason: string
  readonly tokens: Int32Array
  readonly logprobs?: Float32Array | undefined
  readonly topkLogprobs?: TopkLogprobs | undefined
}

/**
 * A result of sampling, seen from here.
 */
interface Response {
  readonly sequences: ReadonlyArray<Sequence>
  readonly promptLogprobs?: Float32Array | undefined
  readonly topkPromptLogprobs?: TopkLogprobs | undefined
  readonly promptCacheHitTokens: number
  readonly targetPromptLogprobs?: TensorData | undefined
  readonly promptAltTokens?: AltTokens | undefined
}

interface AltTokens {
  readonly tokens: TensorData
  readonly logprobs: TensorData
}

/** @internal */
export const write = (writer: Writer, response: Response): void => {
  for (const sequence of response.sequences) {
    writer.begin(1)
    writer.uint(1, Math.max(0, stopReasons.indexOf(sequence.stopReason)))
    writer.bytes(2, sequence.tokens)
    if (sequence.logprobs !== undefined) writer.presentBytes(3, sequence.logprobs)
    if (sequence.topkLogprobs !== undefined) writeTopk(writer, 4, sequence.topkLogprobs)
    writer.end()
  }
  if (response.promptLogprobs !== undefined) writer.presentBytes(2, response.promptLogprobs)
  if (response.topkPromptLogprobs !== undefined) writeTopk(writer, 3, response.topkPromptLogprobs)
  writer.uint(4, response.promptCacheHitTokens)
  if (response.targetPromptLogprobs !== undefined) writeTensor(writer, 5, response.targetPromptLogprobs)
  if (response.promptAltTokens !== undefined) {
    writer.begin(6)
    writeTensor(writer, 1, response.promptAltTokens.tokens)
    writeTensor(writer, 2, response.promptAltTokens.logprobs)
    writer.end()
  }
}

const writeTensor = (writer: Writer, field: number, value: TensorData): void => {
  writer.begin(field)
  Fields.write(writer, value)
  writer.end()
}

const writeTopk = (writer: Writer, field: number, topk: TopkLogprobs): void => {
  writer.begin(field)
  writer.bytes(1, topk.tokenIds)
  writer.bytes(2, topk.logprobs)
  writer.uint(3, topk.k)
  writer.uint(4, topk.length)
  writer.end()
}

/** @internal */
export const read = (message: Reader): Response => {
  const sequences: Array<Sequence> = []
  let promptLogprobs: Float32Array | undefined
  let topkPromptLogprobs: TopkLogprobs | undefined
  let promptCacheHitTokens = 0
  let targetPromptLogprobs: TensorData | undefined
  let promptAltTokens: AltTokens | undefined
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) sequences.push(readSequence(message.message()))
        break
      case 2:
        if (message.isLength()) promptLogprobs = readLogprobs(message.view(), "prompt_logprobs")
        break
      case 3:
        if (message.isLength()) topkPromptLogprobs = readTopk(message.message())
        break
      case 4:
        if (message.isVarint()) promptCacheHitTokens = message.int32()
        break
      case 5:
        if (message.isLength()) targetPromptLogprobs = Fields.read(message.message(), "target_prompt_logprobs")
        break
      case 6:
        if (message.isLength()) promptAltTokens = readAltTokens(message.message())
        break
      default:
        message.skip()
    }
  }
  return {
    sequences,
    promptCacheHitTokens,
    ...(promptLogprobs === undefined ? {} : { promptLogprobs }),
    ...(topkPromptLogprobs === undefined ? {} : { topkPromptLogprobs }),
    ...(targetPromptLogprobs === undefined ? {} : { targetPromptLogprobs }),
    ...(promptAltTokens === undefined ? {} : { promptAltTokens })
  }
}

const readSequence = (message: Reader): Sequence => {
  let stopReason = 0
  let tokens: Int32Array = new Int32Array(0)
  let logprobs: Float32Array | undefined
  let topkLogprobs: TopkLogprobs | undefined
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isVarint()) stopReason = message.int32()
        break
      case 2:
        if (message.isLength()) tokens = reader.int32s(message.view(), "tokens")
        break
      case 3:
        if (message.isLength()) logprobs = readLogprobs(message.view(), "logprobs")
        break
      case 4:
        if (message.isLength()) topkLogprobs = readTopk(message.message())
        break
      default:
        message.skip()
    }
  }
  return {
    // a reason of a newer server must not cost the caller the tokens
    stopReason: stopReasons[stopReason] ?? `unknown_${stopReason}`,
    tokens,
    ...(logprobs === undefined ? {} : { logprobs }),
    ...(topkLogprobs === undefined ? {} : { topkLogprobs })
  }
}

/** Empty means that none were asked for. */
const readLogprobs = (bytes: Uint8Array, what: string): Float32Array | undefined =>
  bytes.length === 0 ? undefined : reader.float32s(bytes, what)

const readTopk = (message: Reader): TopkLogprobs | undefined => {
  let tokenIds: Int32Array = new Int32Array(0)
  let logprobs: Float32Array = new Float32Array(0)
  let k = 0
  let length = 0
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) tokenIds = reader.int32s(message.view(), "token_ids")
        break
      case 2:
        if (message.isLength()) logprobs = reader.float32s(message.view(), "logprobs")
        break
      case 3:
        if (message.isVarint()) k = message.uint32()
        break
      case 4:
        if (message.isVarint()) length = message.uint32()
        break
      default:
        message.skip()
    }
  }
  const cells = k * length
  if (cells === 0) return undefined
  if (tokenIds.length < cells || logprobs.length < cells) {
    reader.malformed(`${length} × ${k} cells, but ${tokenIds.length} tokens and ${logprobs.length} log probabilities`)
  }
  return { tokenIds: tokenIds.subarray(0, cells), logprobs: logprobs.subarray(0, cells), k, length }
}

const readAltTokens = (message: Reader): AltTokens => {
  let tokens: TensorData | undefined
  let logprobs: TensorData | undefined
  while (message.next()) {
    switch (message.field) {
      case 1:
        if (message.isLength()) tokens = Fields.read(message.message(), "prompt_alt_tokens")
        break
      case 2:
        if (message.isLength()) logprobs = Fields.read(message.message(), "prompt_alt_tokens")
        break
      default:
        message.skip()
    }
  }
  return tokens === undefined || logprobs === undefined
    ? reader.malformed("prompt_alt_tokens: tokens or logprobs are missing")
    : { tokens, logprobs }
}
