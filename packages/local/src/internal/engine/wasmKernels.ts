/**
 * The matrix kernels as WebAssembly SIMD, assembled when first used: no build step and no binary in the package.
 */
import {
  add,
  add4,
  assemble,
  bump,
  countDown,
  float4,
  get,
  ifElse,
  int,
  load4,
  loadSplat,
  mul,
  mul4,
  set,
  shiftLeft,
  store4,
  whileBelow
} from "./assembler.js"
import type { Code, Kernel } from "./assembler.js"

const range = (length: number): ReadonlyArray<number> => Array.from({ length }, (_, index) => index)

// Parameters of gemm, then its integer locals, then its vectors. Strides are in bytes.
const A = 0
const A_ROW = 1
const A_COL = 2
const B = 3
const B_PANEL = 4
const C = 5
const C_ROW = 6
const M = 7
const N = 8
const K = 9
const ACCUMULATE = 10
const COLUMN = 11
const ROW = 12
const LEFT = 13
const PANEL = 14
const B_AT = 15
const C_AT = 16
const A_AT = (row: number): number => 17 + row
const SUM = (row: number, half: number): number => 21 + row * 2 + half
const B_VALUE = (half: number): number => 29 + half
const A_VALUE = 31

/** `rows` rows of the result against one panel of eight columns, all sums in registers. */
const tile = (rows: number): Code => {
  const eachSum = (body: (row: number, half: number) => Code): Code =>
    range(rows).flatMap((row) => [0, 1].flatMap((half) => body(row, half)))
  const atRow = (row: number): Code => add(get(C_AT), mul(get(C_ROW), int(row)))
  return [
    ...set(C_AT, add(add(get(C), mul(get(ROW), get(C_ROW))), shiftLeft(get(COLUMN), int(2)))),
    ...set(A_AT(0), add(get(A), mul(get(ROW), get(A_ROW)))),
    ...range(rows).slice(1).flatMap((row) => set(A_AT(row), add(get(A_AT(row - 1)), get(A_ROW)))),
    ...set(B_AT, get(PANEL)),
    ...set(LEFT, get(K)),
    ...ifElse(
      get(ACCUMULATE),
      eachSum((row, half) => set(SUM(row, half), load4(atRow(row), half * 16))),
      eachSum((row, half) => set(SUM(row, half), float4(0)))
    ),
    ...countDown(
      LEFT,
      1,
      set(B_VALUE(0), load4(get(B_AT))),
      set(B_VALUE(1), load4(get(B_AT), 16)),
      range(rows).flatMap((row) => [
        ...set(A_VALUE, loadSplat(get(A_AT(row)))),
        ...[0, 1].flatMap((half) =>
          set(SUM(row, half), add4(get(SUM(row, half)), mul4(get(A_VALUE), get(B_VALUE(half)))))
        ),
        ...bump(A_AT(row), get(A_COL))
      ]),
      bump(B_AT, int(32))
    ),
    ...eachSum((row, half) => store4(atRow(row), get(SUM(row, half)), half * 16))
  ]
}

const gemm: Kernel = {
  name: "gemm",
  params: 11,
  ints: 10,
  vectors: 11,
  body: [
    set(PANEL, get(B)),
    whileBelow(
      COLUMN,
      get(N),
      8,
      set(ROW, int(0)),
      whileBelow(ROW, add(get(M), int(-3)), 4, tile(4)),
      whileBelow(ROW, get(M), 1, tile(1)),
      bump(PANEL, get(B_PANEL))
    )
  ]
}

/** @internal */
export const moduleBytes = (): Uint8Array<ArrayBuffer> => assemble([gemm])
