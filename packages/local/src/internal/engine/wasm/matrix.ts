/**
 * Matrix products and the packing they need.
 */
import {
  add,
  add4,
  bump,
  countDown,
  equal,
  float,
  float4,
  get,
  ifElse,
  int,
  kernel,
  least,
  load4,
  loadFloat,
  loadSplat,
  mul,
  mul4,
  seq,
  set,
  shiftLeft,
  store4,
  storeFloat,
  subtract,
  times,
  whileBelow
} from "./assembler.js"
import type { Code, Kernel } from "./assembler.js"

const range = (length: number): ReadonlyArray<number> => Array.from({ length }, (_, index) => index)

/** C = A · B, or C += A · B, a tile of four rows and eight columns at a time with all its sums in registers. @internal */
export const gemm: Kernel = kernel(
  "gemm",
  {
    a: "at",
    aRow: "at",
    aColumn: "at",
    b: "at",
    panel: "at",
    c: "at",
    cRow: "at",
    m: "int",
    n: "int",
    k: "int",
    accumulate: "int"
  },
  (param, local) => {
    const column = local("int")
    const row = local("int")
    const left = local("int")
    const bAt = local("int")
    const cAt = local("int")
    const aAt = range(4).map(() => local("int"))
    const sums = range(8).map(() => local("vector"))
    const halves = [local("vector"), local("vector")] as const
    const value = local("vector")
    const tile = (rows: number): Code => {
      const aRows = aAt.slice(0, rows)
      const cRow = (index: number): Code => add(get(cAt), mul(get(param.cRow), int(index >> 1)))
      const eachSum = (body: (sum: number, index: number) => Code): Code =>
        sums.slice(0, 2 * rows).flatMap((sum, index) => body(sum, index))
      return seq(
        set(cAt, add(add(get(param.c), mul(get(row), get(param.cRow))), shiftLeft(get(column), int(2)))),
        ...aRows.map((local, index) => set(local, add(get(param.a), mul(add(get(row), int(index)), get(param.aRow))))),
        set(bAt, get(param.b)),
        set(left, get(param.k)),
        ifElse(
          get(param.accumulate),
          eachSum((sum, index) => set(sum, load4(cRow(index), (index & 1) * 16))),
          eachSum((sum) => set(sum, float4(0)))
        ),
        countDown(
          left,
          ...halves.map((half, index) => set(half, load4(get(bAt), index * 16))),
          ...aRows.map((local, index) =>
            seq(
              set(value, loadSplat(get(local))),
              ...sums.slice(2 * index, 2 * index + 2).map((sum, side) =>
                set(sum, add4(get(sum), mul4(get(value), get(halves[side === 0 ? 0 : 1]))))
              ),
              bump(local, get(param.aColumn))
            )
          ),
          bump(bAt, int(32))
        ),
        eachSum((sum, index) => store4(cRow(index), get(sum), (index & 1) * 16))
      )
    }
    return whileBelow(
      column,
      get(param.n),
      int(8),
      set(row, int(0)),
      whileBelow(row, subtract(get(param.m), int(3)), int(4), tile(4)),
      whileBelow(row, get(param.m), int(1), tile(1)),
      bump(param.b, get(param.panel))
    )
  }
)

/** Copies a matrix of k rows and n columns into panels of eight columns; the last one is filled up with zeros. @internal */
export const pack: Kernel = kernel(
  "pack",
  { b: "at", row: "at", column: "at", k: "int", n: "int", target: "at" },
  (param, local) => {
    const panel = local("int")
    const filled = local("int")
    const p = local("int")
    const source = local("int")
    const lane = local("int")
    const to = add(get(param.target), shiftLeft(get(lane), int(2)))
    const copyLanes = seq(
      set(lane, int(0)),
      whileBelow(
        lane,
        get(filled),
        int(1),
        storeFloat(to, loadFloat(add(get(source), mul(get(lane), get(param.column)))))
      ),
      whileBelow(lane, int(8), int(1), storeFloat(to, float(0)))
    )
    const copyVectors = seq(
      store4(get(param.target), load4(get(source))),
      store4(get(param.target), load4(get(source), 16), 16)
    )
    const eachRow = (copy: Code): Code =>
      times(p, get(param.k), copy, bump(source, get(param.row)), bump(param.target, int(32)))
    return whileBelow(
      panel,
      get(param.n),
      int(8),
      set(filled, least(int(8), subtract(get(param.n), get(panel)))),
      set(source, add(get(param.b), mul(get(panel), get(param.column)))),
      ifElse(
        equal(add(shiftLeft(get(filled), int(3)), get(param.column)), int(8 * 8 + 4)),
        eachRow(copyVectors),
        eachRow(copyLanes)
      )
    )
  }
)
