/**
 * Just enough of the WebAssembly binary format to write a handful of kernels by hand: 32-bit integers for addresses,
 * floats, and 128-bit vectors of four floats for the work. Instructions are byte arrays, so a kernel is an expression.
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
/** Several instructions as one. @internal */
export const seq = (...parts: ReadonlyArray<Code>): Code => parts.flat()

// Integers

/** @internal */
export const int = (value: number): Code => [0x41, ...signed(value)]
/** @internal */
export const add = binary([0x6a])
/** @internal */
export const subtract = binary([0x6b])
/** @internal */
export const mul = binary([0x6c])
/** @internal */
export const and = binary([0x71])
/** @internal */
export const shiftLeft = binary([0x74])
/** @internal */
export const equal = binary([0x46])
/** @internal */
export const less = binary([0x48])
/** The smaller of two integers that are cheap to evaluate twice. @internal */
export const least = (left: Code, right: Code): Code => [...left, ...right, ...less(left, right), 0x1b]
/** Advances an integer local in place. @internal */
export const bump = (local: number, by: Code): Code => set(local, add(get(local), by))

// Control

/** Runs `body` while `counter` is below `limit`, advancing it by `step` after each turn. @internal */
export const whileBelow = (counter: number, limit: Code, step: Code, ...body: ReadonlyArray<Code>): Code => [
  ...[0x02, 0x40, 0x03, 0x40],
  ...get(counter),
  ...limit,
  ...[0x4e, 0x0d, 0x01],
  ...body.flat(),
  ...bump(counter, step),
  ...[0x0c, 0x00, 0x0b, 0x0b]
]

/** Runs `body`, which advances `counter`, at least once and until `counter` is no longer below `limit`. @internal */
export const repeatBelow = (counter: number, limit: Code, ...body: ReadonlyArray<Code>): Code => [
  ...[0x03, 0x40],
  ...body.flat(),
  ...less(get(counter), limit),
  ...[0x0d, 0x00, 0x0b]
]

/** Runs `body` for counter = 0, 1, 2, ... below `limit`. @internal */
export const times = (counter: number, limit: Code, ...body: ReadonlyArray<Code>): Code =>
  seq(set(counter, int(0)), whileBelow(counter, limit, int(1), ...body))

/** @internal */
export const ifElse = (condition: Code, then: Code, otherwise: Code): Code => [
  ...condition,
  ...[0x04, 0x40],
  ...then,
  0x05,
  ...otherwise,
  0x0b
]

// Floats

/** @internal */
export const float = (value: number): Code => [0x43, ...floatBytes(value)]
/** @internal */
export const loadFloat = (address: Code): Code => [...address, 0x2a, 2, 0]
/** One float at an address, in all four lanes, plus a constant offset in bytes. @internal */
export const loadSplat = (address: Code, offset = 0): Code => [...address, ...simd(0x09), 2, ...unsigned(offset)]
/** @internal */
export const storeFloat = (address: Code, value: Code): Code => [...address, ...value, 0x38, 2, 0]
/** @internal */
export const squareRoot = unary([0x91])
/** @internal */
export const addFloat = binary([0x92])
/** @internal */
export const mulFloat = binary([0x94])
/** @internal */
export const divideFloat = binary([0x95])
/** @internal */
export const maxFloat = binary([0x97])
/** @internal */
export const toFloat = unary([0xb2])

// Vectors of four floats

/** Four floats at an address, plus a constant offset in bytes. @internal */
export const load4 = (address: Code, offset = 0): Code => [...address, ...simd(0x00), 2, ...unsigned(offset)]
/** @internal */
export const store4 = (address: Code, value: Code, offset = 0): Code => [
  ...address,
  ...value,
  ...simd(0x0b),
  2,
  ...unsigned(offset)
]
const constant4 = (bytes: ReadonlyArray<number>): Code => [...simd(0x0c), ...bytes, ...bytes, ...bytes, ...bytes]
/** The same constant in all four lanes. @internal */
export const float4 = (value: number): Code => constant4(floatBytes(value))
/** A constant of the module, by index: one load, instead of materializing the constant in every iteration. @internal */
export const kept4 = (index: number): Code => [0x23, ...unsigned(index)]
/** @internal */
export const splat4 = unary(simd(0x13))
/** @internal */
export const add4 = binary(simd(0xe4))
/** @internal */
export const subtract4 = binary(simd(0xe5))
/** @internal */
export const mul4 = binary(simd(0xe6))
/** left * right + sum, rounded once where the processor can; relaxed SIMD, which not every runtime has. @internal */
export const fused4 = (left: Code, right: Code, sum: Code): Code => [...left, ...right, ...sum, ...simd(0x105)]
/** @internal */
export const divide4 = binary(simd(0xe7))
/** The lesser lanes as the processor has it: one instruction; where either is no number, the left one. @internal */
export const min4 = binary(simd(0xea))
/** The greater lanes, likewise. @internal */
export const max4 = binary(simd(0xeb))
/** The lanes of two vectors in any order; 0 to 3 are the left's, 4 to 7 the right's. @internal */
export const shuffle4 = (left: Code, right: Code, lanes: readonly [number, number, number, number]): Code => [
  ...left,
  ...right,
  ...simd(0x0d),
  ...lanes.flatMap((lane) => [0, 1, 2, 3].map((byte) => lane * 4 + byte))
]
/** @internal */
export const addInt4 = binary(simd(0xae))
/** The first four of eight 16-bit integers, as 32-bit ones. @internal */
export const firstShorts = unary(simd(0xa9))
/** The last four of them. @internal */
export const lastShorts = unary(simd(0xaa))
/** @internal */
export const shiftInt4 = (operand: Code, by: number): Code => [...operand, ...int(by), ...simd(0xab)]

const combineLanes = (vector: number, combine: (left: Code, right: Code) => Code): Code => {
  const lane = (index: number): Code => [...get(vector), ...simd(0x1f), index]
  return combine(combine(lane(0), lane(1)), combine(lane(2), lane(3)))
}
/** The sum of the lanes of a local. @internal */
export const sumLanes = (vector: number): Code => combineLanes(vector, addFloat)
/** The largest lane of a local. @internal */
export const maxLane = (vector: number): Code => combineLanes(vector, maxFloat)

// Functions

const typeCodes = { int: 0x7f, float: 0x7d, vector: 0x7b } as const

/** @internal */
export type Type = keyof typeof typeCodes

/** A parameter: a number as it is, or a position or stride counted in floats, which the kernel gets in bytes. */
type ParameterType = "int" | "float" | "at"

/** One exported function. @internal */
export interface Kernel {
  readonly name: string
  readonly params: ReadonlyArray<ParameterType>
  readonly locals: ReadonlyArray<Type>
  readonly result: Type | undefined
  readonly body: Code
}

/** Numbers the parameters by name and the locals as they are asked for. @internal */
export const kernel = <Params extends Readonly<Record<string, ParameterType>>>(
  name: string,
  params: Params,
  build: (param: { readonly [Name in keyof Params]: number }, local: (type: Type) => number) => Code,
  result?: Type
): Kernel => {
  const types = Object.values(params)
  const locals: Array<Type> = []
  const indices = Object.fromEntries(Object.keys(params).map((key, index) => [key, index]))
  const body = build(
    indices as { readonly [Name in keyof Params]: number },
    (type) => types.length + locals.push(type) - 1
  )
  const toBytes = types.map((type, index) => type === "at" ? set(index, shiftLeft(get(index), int(2))) : [])
  return { name, params: types, locals, result, body: seq(...toBytes, body) }
}

/**
 * A module that imports one memory, shared between threads if asked for, and exports the kernels. `kept` are its
 * constants, each in all four lanes.
 *
 * @internal
 */
export const assemble = (
  kernels: ReadonlyArray<Kernel>,
  kept: ReadonlyArray<number>,
  shared: boolean
): Uint8Array<ArrayBuffer> =>
  Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(
      1,
      kernels.map(({ params, result }) => [
        0x60,
        ...vector(params.map((type) => [typeCodes[type === "float" ? "float" : "int"]])),
        ...vector(result === undefined ? [] : [[typeCodes[result]]])
      ])
    ),
    // a shared memory has to name its maximum
    ...section(2, [[
      ...name("env"),
      ...name("memory"),
      0x02,
      ...(shared ? [0x03, 0x01, ...unsigned(65536)] : [0x00, 0x01])
    ]]),
    ...section(3, kernels.map((_, index) => unsigned(index))),
    // Said to change, which keeps the compiler from making them again in every loop.
    ...section(6, kept.map((value) => [typeCodes.vector, 0x01, ...float4(value), 0x0b])),
    ...section(7, kernels.map((kernel, index) => [...name(kernel.name), 0x00, ...unsigned(index)])),
    ...section(
      10,
      kernels.map((kernel) => {
        const code = [...vector(kernel.locals.map((type) => [1, typeCodes[type]])), ...kernel.body, 0x0b]
        return [...unsigned(code.length), ...code]
      })
    )
  ])
