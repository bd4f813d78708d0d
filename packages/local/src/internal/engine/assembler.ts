/**
 * Just enough of the WebAssembly binary format to write a handful of kernels by hand: 32-bit integers for addresses,
 * 128-bit vectors of four floats for the work. Instructions are byte arrays, so a kernel is an expression.
 */

/** @internal */
export type Code = ReadonlyArray<number>

const unsigned = (value: number): Array<number> => {
  const out: Array<number> = []
  let rest = value >>> 0
  do {
    const byte = rest & 0x7f
    rest >>>= 7
    out.push(rest === 0 ? byte : byte | 0x80)
  } while (rest !== 0)
  return out
}

const signed = (value: number): Array<number> => {
  const out: Array<number> = []
  let rest = value | 0
  for (;;) {
    const byte = rest & 0x7f
    rest >>= 7
    if ((rest === 0 && (byte & 0x40) === 0) || (rest === -1 && (byte & 0x40) !== 0)) {
      out.push(byte)
      return out
    }
    out.push(byte | 0x80)
  }
}

const vector = (items: ReadonlyArray<Code>): Array<number> => [...unsigned(items.length), ...items.flat()]

const name = (text: string): Array<number> => vector(Array.from(text, (char) => [char.charCodeAt(0)]))

const section = (id: number, items: ReadonlyArray<Code>): Array<number> => {
  const body = vector(items)
  return [id, ...unsigned(body.length), ...body]
}

const floatBytes = (value: number): Array<number> => Array.from(new Uint8Array(new Float32Array([value]).buffer))

const simd = (opcode: number): Array<number> => [0xfd, ...unsigned(opcode)]

const binary = (opcode: Code) => (left: Code, right: Code): Code => [...left, ...right, ...opcode]

const unary = (opcode: Code) => (operand: Code): Code => [...operand, ...opcode]

/** @internal */
export const get = (local: number): Code => [0x20, ...unsigned(local)]
/** @internal */
export const set = (local: number, value: Code): Code => [...value, 0x21, ...unsigned(local)]
/** @internal */
export const int = (value: number): Code => [0x41, ...signed(value)]
/** @internal */
export const add = binary([0x6a])
/** @internal */
export const mul = binary([0x6c])
/** @internal */
export const subtract = binary([0x6b])
/** @internal */
export const shiftLeft = binary([0x74])
/** @internal */
export const and = binary([0x71])

/** Advances an integer local in place. @internal */
export const bump = (local: number, by: Code): Code => set(local, add(get(local), by))

const greaterOrEqual = [0x4e]
const greater = [0x4a]

/** Runs `body` while `counter` is below `limit`, advancing it by `step` after each turn. @internal */
export const whileBelow = (counter: number, limit: Code, step: number, ...body: ReadonlyArray<Code>): Code => [
  ...[0x02, 0x40, 0x03, 0x40],
  ...get(counter),
  ...limit,
  ...greaterOrEqual,
  ...[0x0d, 0x01],
  ...body.flat(),
  ...bump(counter, int(step)),
  ...[0x0c, 0x00, 0x0b, 0x0b]
]

/** Runs `body` at least once, until `counter`, decremented by `step`, is no longer positive. @internal */
export const countDown = (counter: number, step: number, ...body: ReadonlyArray<Code>): Code => [
  ...[0x03, 0x40],
  ...body.flat(),
  ...set(counter, subtract(get(counter), int(step))),
  ...get(counter),
  ...int(0),
  ...greater,
  ...[0x0d, 0x00, 0x0b]
]

/** @internal */
export const ifElse = (condition: Code, then: Code, otherwise: Code): Code => [
  ...condition,
  ...[0x04, 0x40],
  ...then,
  0x05,
  ...otherwise,
  0x0b
]

/** Four floats at an address, plus a constant offset in bytes. @internal */
export const load4 = (address: Code, offset = 0): Code => [...address, ...simd(0x00), 2, ...unsigned(offset)]
/** One float at an address, in all four lanes. @internal */
export const loadSplat = (address: Code, offset = 0): Code => [...address, ...simd(0x09), 2, ...unsigned(offset)]
/** @internal */
export const store4 = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  ...simd(0x0b),
  2,
  ...unsigned(offset)
]
/** @internal */
export const loadFloat = (address: Code, offset = 0): Code => [...address, 0x2a, 2, ...unsigned(offset)]
/** @internal */
export const storeFloat = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  0x38,
  2,
  ...unsigned(offset)
]
/** The same constant in all four lanes. @internal */
export const float4 = (value: number): Code => {
  const bytes = floatBytes(value)
  return [...simd(0x0c), ...bytes, ...bytes, ...bytes, ...bytes]
}
/** @internal */
export const int4 = (value: number): Code => {
  const bytes = Array.from(new Uint8Array(new Int32Array([value]).buffer))
  return [...simd(0x0c), ...bytes, ...bytes, ...bytes, ...bytes]
}
/** @internal */
export const add4 = binary(simd(0xe4))
/** @internal */
export const subtract4 = binary(simd(0xe5))
/** @internal */
export const mul4 = binary(simd(0xe6))
/** @internal */
export const max4 = binary(simd(0xe9))
/** @internal */
export const nearest4 = unary(simd(0x6a))
/** @internal */
export const truncate4 = unary(simd(0xf8))
/** @internal */
export const addInt4 = binary(simd(0xae))
/** @internal */
export const shiftInt4 = (operand: Code, by: number): Code => [...operand, ...int(by), ...simd(0xab)]
/** @internal */
export const splat4 = unary(simd(0x13))
/** One lane as a float. @internal */
export const lane = (operand: Code, index: number): Code => [...operand, ...simd(0x1f), index]
/** @internal */
export const addFloat = binary([0x92])
/** @internal */
export const maxFloat = binary([0x97])

/** One exported function: `params` 32-bit integers in, nothing out. @internal */
export interface Kernel {
  readonly name: string
  readonly params: number
  readonly ints: number
  readonly vectors: number
  readonly body: ReadonlyArray<Code>
}

/** A module that imports one memory and exports the kernels. @internal */
export const assemble = (kernels: ReadonlyArray<Kernel>): Uint8Array<ArrayBuffer> =>
  Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, kernels.map(({ params }) => [0x60, ...vector(Array.from({ length: params }, () => [0x7f])), 0])),
    ...section(2, [[...name("env"), ...name("memory"), 0x02, 0x00, 0x01]]),
    ...section(3, kernels.map((_, index) => unsigned(index))),
    ...section(7, kernels.map((kernel, index) => [...name(kernel.name), 0x00, ...unsigned(index)])),
    ...section(
      10,
      kernels.map((kernel) => {
        const code = [
          ...vector([[...unsigned(kernel.ints), 0x7f], [...unsigned(kernel.vectors), 0x7b]]),
          ...kernel.body.flat(),
          0x0b
        ]
        return [...unsigned(code.length), ...code]
      })
    )
  ])
