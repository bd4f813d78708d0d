/**
 * Arithmetic of a merge for every value that changes, as WebAssembly kernels of four-float vectors written out below:
 * bfloat16 to float32, the LoRA delta added, and back. The bits are those of the loops in `numbers`.
 */

type Code = ReadonlyArray<number>

const unsigned = (value: number): Array<number> =>
  value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...unsigned(value >>> 7)]

const signed = (value: number): Array<number> =>
  value >= -64 && value < 64 ? [value & 0x7f] : [(value & 0x7f) | 0x80, ...signed(value >> 7)]

const sized = (bytes: Code): Array<number> => [...unsigned(bytes.length), ...bytes]
const section = (id: number, items: ReadonlyArray<Code>): Array<number> => [
  id,
  ...sized([...unsigned(items.length), ...items.flat()])
]
const text = (value: string): Array<number> => sized(Array.from(value, (char) => char.charCodeAt(0)))

const binary = (...opcode: Code) => (left: Code, right: Code): Code => [...left, ...right, ...opcode]

const get = (local: number): Code => [0x20, local]
const set = (local: number, value: Code): Code => [...value, 0x21, local]
const int = (value: number): Code => [0x41, ...signed(value)]
const add = binary(0x6a)
const advance = (local: number, by: Code): Code => set(local, add(get(local), by))
/** Runs `body` while `counter` is below `limit`; the body advances it. */
const whileBelow = (counter: number, limit: Code, body: Code): Code => [
  ...[0x02, 0x40, 0x03, 0x40],
  ...get(counter),
  ...limit,
  ...[0x4e, 0x0d, 0x01],
  ...body,
  ...[0x0c, 0x00, 0x0b, 0x0b]
]
/** Runs `body` once, and again while `counter` is below `limit`. */
const repeatBelow = (counter: number, limit: Code, body: Code): Code => [
  ...[0x03, 0x40],
  ...body,
  ...get(counter),
  ...limit,
  ...[0x48, 0x0d, 0x00, 0x0b]
]

const load = (address: Code, offset: number): Code => [...address, 0xfd, 0x00, 2, ...unsigned(offset)]
const store = (address: Code, value: Code, offset: number): Code => [
  ...address,
  ...value,
  ...[0xfd, 0x0b, 2, ...unsigned(offset)]
]
/** One float, in all four lanes. */
const loadSplat = (address: Code, offset: number): Code => [...address, 0xfd, 0x09, 2, ...unsigned(offset)]
/** Four 16-bit integers, each in a lane of 32 bits. */
const loadShorts = (address: Code): Code => [...address, 0xfd, 0x04, 1, 0]
const addFloats = binary(0xfd, 0xe4, 0x01)
const mulFloats = binary(0xfd, 0xe6, 0x01)
const addInts = binary(0xfd, 0xae, 0x01)
const and = binary(0xfd, 0x4e)
const or = binary(0xfd, 0x50)
const greater = binary(0xfd, 0x3b)
const shiftLeft = (value: Code, by: number): Code => [...value, ...int(by), 0xfd, 0xab, 0x01]
const shiftRight = (value: Code, by: number): Code => [...value, ...int(by), 0xfd, 0xad, 0x01]
/** The lanes of `yes` where the mask's are all ones, of `no` where they are zero. */
const select = (mask: Code, yes: Code, no: Code): Code => [...yes, ...no, ...mask, 0xfd, 0x52]
/** Eight lanes of 32 bits, none above 0xffff, as lanes of 16. */
const toShorts = binary(0xfd, 0x86, 0x01)
/** The same 32 bits in all four lanes. */
const ints = (value: number): Code => [
  ...[0xfd, 0x0c],
  ...Array.from({ length: 16 }, (_, i) => (value >>> (8 * (i % 4))) & 0xff)
]

/** A tile of a product, whose sums stay in registers. @internal */
export const tile = { rows: 4, columns: 8 } as const

interface Kernel {
  readonly name: string
  readonly parameters: number
  /** Locals after the parameters: integers first, then vectors. */
  readonly locals: { readonly ints: number; readonly vectors: number }
  readonly body: Code
}

/**
 * The pointers are the loops' counters, and nothing is unrolled: V8 moves the loads of an unrolled loop to its top and
 * spills the sums.
 */
const addProduct = (): Kernel => {
  const [left, leftEnd, right, rightEnd, target, stride, r, value] = [0, 1, 2, 3, 4, 5, 6, 7] as const
  const panel = [8, 9]
  const sums = Array.from({ length: tile.rows }, (_, row) => panel.map((_, i) => 10 + row * panel.length + i))
  return {
    name: "addProduct",
    parameters: 6,
    locals: { ints: 1, vectors: 11 },
    body: whileBelow(left, get(leftEnd), [
      ...sums.flat().flatMap((sum) => set(sum, ints(0))),
      ...set(r, get(right)),
      ...repeatBelow(r, get(rightEnd), [
        ...panel.flatMap((local, i) => set(local, load(get(r), i * 16))),
        ...sums.flatMap((own, row) => [
          ...set(value, loadSplat(get(left), row * 4)),
          ...own.flatMap((sum, i) => set(sum, addFloats(get(sum), mulFloats(get(value), get(8 + i)))))
        ]),
        ...advance(left, int(tile.rows * 4)),
        ...advance(r, int(tile.columns * 4))
      ]),
      ...sums.flatMap((own) => [
        ...own.flatMap((sum, i) => store(get(target), addFloats(load(get(target), i * 16), get(sum)), i * 16)),
        ...advance(target, get(stride))
      ])
    ])
  }
}

/** A bfloat16 is the upper half of a float32. */
const widen = (): Kernel => {
  const [source, target, end] = [0, 1, 2] as const
  return {
    name: "widen",
    parameters: 3,
    locals: { ints: 0, vectors: 0 },
    body: whileBelow(target, get(end), [
      ...store(get(target), shiftLeft(loadShorts(get(source)), 16), 0),
      ...advance(source, int(8)),
      ...advance(target, int(16))
    ])
  }
}

/** To nearest even, as `numbers.toBrain` rounds one value. */
const narrow = (): Kernel => {
  const [source, target, end, value, upper] = [0, 1, 2, 3, 4] as const
  const rounded = (offset: number): Code => [
    ...set(value, load(get(source), offset)),
    ...set(upper, shiftRight(get(value), 16)),
    ...select(
      greater(and(get(value), ints(0x7fffffff)), ints(0x7f800000)),
      or(get(upper), ints(0x40)),
      shiftRight(addInts(addInts(get(value), ints(0x7fff)), and(get(upper), ints(1))), 16)
    )
  ]
  return {
    name: "narrow",
    parameters: 3,
    locals: { ints: 0, vectors: 2 },
    body: whileBelow(source, get(end), [
      ...store(get(target), toShorts(rounded(0), rounded(16)), 0),
      ...advance(source, int(32)),
      ...advance(target, int(16))
    ])
  }
}

const assemble = (kernels: ReadonlyArray<Kernel>): Uint8Array<ArrayBuffer> =>
  Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, kernels.map(({ parameters }) => [0x60, ...sized(Array.from({ length: parameters }, () => 0x7f)), 0])),
    ...section(2, [[...text("env"), ...text("memory"), 0x02, 0x00, 0x01]]),
    ...section(3, kernels.map((_, i) => [i])),
    ...section(7, kernels.map(({ name }, i) => [...text(name), 0x00, i])),
    ...section(
      10,
      kernels.map(({ body, locals }) => sized([2, locals.ints, 0x7f, locals.vectors, 0x7b, ...body, 0x0b]))
    )
  ])

/** Addresses and strides count bytes. @internal */
export interface Kernels {
  /**
   * Adds `left · right` to columns of the target, tile by tile. `left` has four rows at a time, each group as
   * `[rank, 4]`; `right` has eight columns, as `[rank, 8]`; `stride` is the length of the target's rows.
   */
  readonly addProduct: (
    left: number,
    leftEnd: number,
    right: number,
    rightEnd: number,
    target: number,
    stride: number
  ) => void
  /** bfloat16 to float32, four at a time, until the target reaches `end`. The source may be the target's second half. */
  readonly widen: (source: number, target: number, end: number) => void
  /** float32 to bfloat16, eight at a time, until the source reaches `end`. The target may be where the source is. */
  readonly narrow: (source: number, target: number, end: number) => void
}

type Exported = (...args: ReadonlyArray<number>) => void
const isExported = (value: unknown): value is Exported => typeof value === "function"

let compiled: WebAssembly.Module | undefined

/** The kernels on a memory; they are compiled once. @internal */
export const on = (memory: WebAssembly.Memory): Kernels => {
  compiled ??= new WebAssembly.Module(assemble([addProduct(), widen(), narrow()]))
  const { exports } = new WebAssembly.Instance(compiled, { env: { memory } })
  const kernel = (name: keyof Kernels): Exported => {
    const found = exports[name]
    if (!isExported(found)) throw new Error(`the module has no kernel ${name}`)
    return found
  }
  return { addProduct: kernel("addProduct"), widen: kernel("widen"), narrow: kernel("narrow") }
}
