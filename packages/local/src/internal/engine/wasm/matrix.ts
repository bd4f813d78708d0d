/**
 * Matrix products and the packing they need.
 */
import {
  add,
  add4,
  and,
  bump,
  equal,
  float,
  float4,
  fused4,
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
  repeatBelow,
  seq,
  set,
  shiftLeft,
  shuffle4,
  store4,
  storeFloat,
  subtract,
  whileBelow
} from "./assembler.js"
import type { Code, Kernel } from "./assembler.js"

const range = (length: number): ReadonlyArray<number> => Array.from({ length }, (_, index) => index)

/**
 * C = A · B, or C += A · B, in tiles whose sums stay in registers: four rows by one panel of eight columns, and for the
 * rows left over two rows or one by two panels. Every element is summed from the first to the last term in whichever
 * tile it falls, so that a row's result does not depend on the rows beside it. With `fused`, a term is added with one
 * rounding.
 *
 * The shape is measured on V8 (x64, 96 to 384 terms): the compiler moves all loads of a basic block to its top, so that
 * an unrolled loop spills its sums. Unrolled four times this product reaches 29 GFLOP/s, as a plain loop with the
 * pointer as its counter 45, and 54 fused; six rows by eight columns 29, three by twelve 35. The plain loop is unrolled
 * by the compiler: two terms to a turn, or one pointer for rows of A that lie side by side, take fewer instructions and
 * are a tenth slower. Vectors of four floats do sixteen operations a cycle at most, fused or not: on a core with 3.1 GHz
 * these are 50 GFLOP/s, of which this reaches 40. A packed into panels like B, its terms loaded first, was up to a tenth
 * faster in a loop of its own, and a twentieth slower in a training step.
 *
 * @internal
 */
export const gemm = (fused: boolean): Kernel =>
  kernel(
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
      const end = local("int")
      const [aFrom, bFrom, cFrom] = [local("int"), local("int"), local("int")]
      const aAt = range(4).map(() => local("int"))
      const bAt = range(2).map(() => local("int"))
      const cAt = range(4).map(() => local("int"))
      const sums = range(8).map(() => local("vector"))
      const loaded = range(4).map(() => local("vector"))
      const value = local("vector")
      const accumulated = (sum: number, left: Code, right: Code): Code =>
        set(sum, fused ? fused4(left, right, get(sum)) : add4(get(sum), mul4(left, right)))
      /** Sets pointers to what is a stride apart. */
      const point = (pointers: ReadonlyArray<number>, from: number, stride: number): Code =>
        pointers.flatMap((pointer, index) =>
          set(pointer, index === 0 ? get(from) : add(get(pointers[index - 1] ?? 0), get(stride)))
        )

      /** The tile at `cFrom`; the terms of a row of A are `aStep` bytes apart. */
      const tile = (rows: number, panels: number, aStep: Code): Code => {
        const aRows = aAt.slice(0, rows)
        const bPanels = bAt.slice(0, panels)
        const cRows = cAt.slice(0, rows)
        const [counter = 0] = bPanels
        const halves = loaded.slice(0, 2 * panels)
        const used = sums.slice(0, rows * halves.length)
        // sums by row, within a row by panel, within a panel by half
        const eachSum = (body: (sum: number, address: Code, offset: number) => Code): Code =>
          used.flatMap((sum, index) =>
            body(sum, get(cRows[Math.floor(index / halves.length)] ?? 0), (index % halves.length) * 16)
          )
        return seq(
          point(aRows, aFrom, param.aRow),
          point(bPanels, bFrom, param.panel),
          point(cRows, cFrom, param.cRow),
          set(end, add(get(bFrom), shiftLeft(get(param.k), int(5)))),
          ifElse(
            get(param.accumulate),
            eachSum((sum, address, offset) => set(sum, load4(address, offset))),
            eachSum((sum) => set(sum, float4(0)))
          ),
          repeatBelow(
            counter,
            get(end),
            ...halves.map((half, index) => set(half, load4(get(bPanels[index >> 1] ?? 0), (index & 1) * 16))),
            ...aRows.map((pointer, row) =>
              seq(
                set(value, loadSplat(get(pointer))),
                ...halves.map((half, index) =>
                  accumulated(used[row * halves.length + index] ?? 0, get(value), get(half))
                )
              )
            ),
            ...aRows.map((pointer) => bump(pointer, aStep)),
            ...bPanels.map((pointer) => bump(pointer, int(32)))
          ),
          eachSum((sum, address, offset) => store4(address, get(sum), offset))
        )
      }
      const whole = and(get(param.m), int(-4))
      const product = (aStep: Code): Code => {
        const wholeRows = whileBelow(
          column,
          get(param.n),
          int(8),
          set(row, int(0)),
          set(aFrom, get(param.a)),
          set(cFrom, add(get(param.c), shiftLeft(get(column), int(2)))),
          whileBelow(
            row,
            whole,
            int(4),
            tile(4, 1, aStep),
            bump(aFrom, shiftLeft(get(param.aRow), int(2))),
            bump(cFrom, shiftLeft(get(param.cRow), int(2)))
          ),
          bump(bFrom, get(param.panel))
        )
        /** Tiles from column to column, while so many panels are left. */
        const alongColumns = (rows: number, panels: number): Code =>
          whileBelow(
            column,
            panels === 1 ? get(param.n) : subtract(get(param.n), int(8 * (panels - 1))),
            int(8 * panels),
            tile(rows, panels, aStep),
            bump(bFrom, mul(get(param.panel), int(panels))),
            bump(cFrom, int(32 * panels))
          )
        const rowsLeft = (rows: number): Code =>
          whileBelow(
            row,
            rows === 1 ? get(param.m) : subtract(get(param.m), int(rows - 1)),
            int(rows),
            set(column, int(0)),
            set(aFrom, add(get(param.a), mul(get(row), get(param.aRow)))),
            set(bFrom, get(param.b)),
            set(cFrom, add(get(param.c), mul(get(row), get(param.cRow)))),
            alongColumns(rows, 2),
            alongColumns(rows, 1)
          )
        return seq(
          set(column, int(0)),
          set(bFrom, get(param.b)),
          wholeRows,
          set(row, whole),
          rowsLeft(2),
          rowsLeft(1)
        )
      }
      // the usual step as a constant: one to three percent
      return ifElse(equal(get(param.aColumn), int(4)), product(int(4)), product(get(param.aColumn)))
    }
  )

/** Transposes a block of four by four: `from` loads a row of it, `to` stores a column. */
const transposeBlock = (
  local: (type: "vector") => number
): (from: (index: number) => Code, to: (index: number, value: Code) => Code) => Code => {
  const [a, b, c, d] = [local("vector"), local("vector"), local("vector"), local("vector")]
  const [low, low2, high, high2] = [local("vector"), local("vector"), local("vector"), local("vector")]
  return (from, to) =>
    seq(
      ...[a, b, c, d].map((vector, index) => set(vector, from(index))),
      set(low, shuffle4(get(a), get(b), [0, 4, 1, 5])),
      set(low2, shuffle4(get(c), get(d), [0, 4, 1, 5])),
      set(high, shuffle4(get(a), get(b), [2, 6, 3, 7])),
      set(high2, shuffle4(get(c), get(d), [2, 6, 3, 7])),
      to(0, shuffle4(get(low), get(low2), [0, 1, 4, 5])),
      to(1, shuffle4(get(low), get(low2), [2, 3, 6, 7])),
      to(2, shuffle4(get(high), get(high2), [0, 1, 4, 5])),
      to(3, shuffle4(get(high), get(high2), [2, 3, 6, 7]))
    )
}

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
    const block = transposeBlock(local)
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
      whileBelow(p, get(param.k), int(1), copy, bump(source, get(param.row)), bump(param.target, int(32)))
    /** Where the columns are what lies together, four rows of them at a time. */
    const eachBlock = whileBelow(
      p,
      subtract(get(param.k), int(3)),
      int(4),
      ...[0, 4].map((first) =>
        block(
          (index) => load4(add(get(source), mul(get(param.column), int(first + index)))),
          (index, value) => store4(get(param.target), value, index * 32 + first * 4)
        )
      ),
      bump(source, int(16)),
      bump(param.target, int(128))
    )
    /** Whether a panel is full and a stride is 1. */
    const whole = (stride: number): Code => equal(add(shiftLeft(get(filled), int(3)), get(stride)), int(8 * 8 + 4))
    return whileBelow(
      panel,
      get(param.n),
      int(8),
      set(filled, least(int(8), subtract(get(param.n), get(panel)))),
      set(source, add(get(param.b), mul(get(panel), get(param.column)))),
      set(p, int(0)),
      ifElse(
        whole(param.column),
        eachRow(copyVectors),
        seq(ifElse(whole(param.row), eachBlock, []), eachRow(copyLanes))
      )
    )
  }
)

/** Transposes blocks of eight by eight: weights in panels of eight outputs into panels of eight inputs. @internal */
export const transposePanels: Kernel = kernel(
  "transposePanels",
  { source: "at", inputs: "int", target: "at", outputs: "int", targetPanel: "at" },
  (param, local) => {
    const input = local("int")
    const output = local("int")
    const to = local("int")
    const block = transposeBlock(local)
    /** The block of four by four at these rows and columns of the source, written the other way round. */
    const quarter = (row: number, column: number): Code =>
      block(
        (index) => load4(get(param.source), (row + index) * 32 + column * 4),
        (index, value) => store4(get(to), value, (column + index) * 32 + row * 4)
      )
    return seq(
      set(output, int(0)),
      whileBelow(
        output,
        get(param.outputs),
        int(8),
        set(to, add(get(param.target), shiftLeft(get(output), int(5)))),
        set(input, int(0)),
        whileBelow(
          input,
          get(param.inputs),
          int(8),
          quarter(0, 0),
          quarter(0, 4),
          quarter(4, 0),
          quarter(4, 4),
          bump(param.source, int(256)),
          bump(to, get(param.targetPanel))
        )
      )
    )
  }
)
