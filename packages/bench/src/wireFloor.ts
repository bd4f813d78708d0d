/**
 * The least one could do: this one message, its field numbers written out, no check of anything.
 */

export interface Example {
  readonly tokens: Int32Array
  readonly targets: Int32Array
  readonly weights: Float32Array
}

const utf8 = new TextEncoder()
const MODEL = utf8.encode("model")
const LOSS = utf8.encode("cross_entropy")
const TARGETS = utf8.encode("target_tokens")
const WEIGHTS = utf8.encode("weights")

const varintSize = (value: number): number => value < 128 ? 1 : value < 16384 ? 2 : value < 2097152 ? 3 : 4

/** Size of a key, a length and what follows. */
const framed = (size: number): number => 1 + varintSize(size) + size

export const encode = (examples: ReadonlyArray<Example>): Uint8Array => {
  const sizes: Array<readonly [datum: number, text: number, targets: number, weights: number]> = []
  let total = framed(MODEL.length) + 2 + framed(LOSS.length)
  for (const { targets, tokens, weights } of examples) {
    const text = framed(tokens.length * 4)
    const targetTensor = framed(targets.length * 8) + 2 + framed(varintSize(targets.length))
    const weightTensor = framed(weights.length * 4) + 2 + framed(varintSize(weights.length))
    const targetEntry = framed(TARGETS.length) + framed(targetTensor)
    const weightEntry = framed(WEIGHTS.length) + framed(weightTensor)
    const datum = framed(framed(text)) + framed(targetEntry) + framed(weightEntry)
    sizes.push([datum, text, targetTensor, weightTensor])
    total += framed(datum)
  }
  out = new Uint8Array(total)
  at = 0
  key(0x0a, MODEL.length)
  copy(MODEL)
  key(0x10, 1)
  for (let e = 0; e < examples.length; e++) {
    const example = examples[e]
    const size = sizes[e]
    if (example === undefined || size === undefined) continue
    const { targets, tokens, weights } = example
    key(0x1a, size[0])
    key(0x0a, framed(size[1]))
    key(0x0a, size[1])
    key(0x0a, tokens.length * 4)
    copy(new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength))
    if (scratch.length < targets.length * 2) scratch = new Int32Array(targets.length * 2)
    for (let i = 0; i < targets.length; i++) {
      const value = targets[i] ?? 0
      scratch[2 * i] = value
      scratch[2 * i + 1] = value >> 31
    }
    tensor(TARGETS, size[2], new Uint8Array(scratch.buffer, 0, targets.length * 8), 2, targets.length)
    tensor(WEIGHTS, size[3], new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength), 1, weights.length)
  }
  key(0x22, LOSS.length)
  copy(LOSS)
  return out
}

let out = new Uint8Array(0)
let at = 0
let scratch = new Int32Array(0)

const key = (byte: number, length: number): void => {
  out[at++] = byte
  let rest = length
  while (rest > 127) {
    out[at++] = (rest & 127) | 128
    rest >>>= 7
  }
  out[at++] = rest
}

const copy = (bytes: Uint8Array): void => {
  out.set(bytes, at)
  at += bytes.length
}

const tensor = (name: Uint8Array, size: number, payload: Uint8Array, dtype: number, length: number): void => {
  key(0x12, framed(name.length) + framed(size))
  key(0x0a, name.length)
  copy(name)
  key(0x12, size)
  key(0x0a, payload.length)
  copy(payload)
  key(0x18, dtype)
  // a packed run of one number looks like a field of its own
  key(0x22, varintSize(length))
  at--
  key(varintSize(length), length)
}

/** Where to look at words: in place if they are aligned, else in a copy. */
const words = (bytes: Uint8Array, at: number, length: number): [buffer: ArrayBufferLike, at: number, words: number] =>
  (bytes.byteOffset + at) % 4 === 0
    ? [bytes.buffer, bytes.byteOffset + at, length / 4]
    : [new Uint8Array(bytes.subarray(at, at + length)).buffer, 0, length / 4]

/** One record of one field, whose tensors are flat. */
export const decode = (
  bytes: Uint8Array
): Array<{ readonly logprobs: Float32Array; readonly shape: Array<number> }> => {
  let at = 0
  const varint = () => {
    let value = 0
    for (let shift = 0;; shift += 7) {
      const byte = bytes[at++] ?? 0
      value |= (byte & 127) << shift
      if (byte < 128) return value
    }
  }
  let data: Float32Array = new Float32Array(0)
  let offsets: Int32Array = new Int32Array(0)
  const read = (end: number, level: number) => {
    while (at < end) {
      const key = varint()
      if ((key & 7) === 0) varint()
      else if ((key & 7) === 1) at += 8
      else {
        const length = varint()
        const start = at
        if (level < 3 && key === 0x12) read(at + length, level + 1)
        else if (level === 3 && key === 0x0a) data = new Float32Array(...words(bytes, at, length))
        else if (level === 3 && key === 0x12) offsets = new Int32Array(...words(bytes, at, length))
        at = start + length
      }
    }
  }
  read(bytes.length, 0)
  const out: Array<{ readonly logprobs: Float32Array; readonly shape: Array<number> }> = []
  for (let i = 0; i + 2 < offsets.length; i += 2) {
    const logprobs = data.subarray((offsets[i] ?? 0) / 4, (offsets[i + 2] ?? 0) / 4)
    out.push({ logprobs, shape: [logprobs.length] })
  }
  return out
}
