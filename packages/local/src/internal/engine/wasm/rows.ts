/**
 * Work on rows of floats, four at a time. Lengths are multiples of four.
 */
import {
  add,
  add4,
  addFloat,
  addInt4,
  bump,
  divideFloat,
  float,
  float4,
  get,
  int,
  int4,
  kernel,
  load4,
  loadFloat,
  max4,
  maxLane,
  mul,
  mul4,
  nearest4,
  seq,
  set,
  shiftInt4,
  shiftLeft,
  splat4,
  squareRoot,
  store4,
  storeFloat,
  subtract4,
  sumLanes,
  times,
  toFloat,
  truncate4,
  whileBelow
} from "./assembler.js"
import type { Code, Kernel } from "./assembler.js"

/** Lets `cursor` run over `bytes` bytes from `start`. @internal */
export const along = (cursor: number, start: Code, end: Code, ...body: ReadonlyArray<Code>): Code =>
  seq(set(cursor, start), whileBelow(cursor, end, int(16), ...body))

/** @internal */
export const bytes = (count: Code): Code => shiftLeft(count, int(2))

// The terms of 2^x on [-1/2, 1/2]: powers of ln 2 over factorials.
const terms = [1, 2, 3, 4, 5, 6, 7].reduce<ReadonlyArray<number>>(
  (all, n) => [...all, (all[n - 1] ?? 1) * Math.LN2 / n],
  [1]
)

/**
 * e^x of a local, in place; `scratch` is a vector to work with. Below the smallest float the result is as good as
 * zero. The relative error is a few units in the last place.
 *
 * @internal
 */
export const exponential = (x: number, scratch: number): Code => {
  const polynomial = terms.reduceRight<Code>(
    (sum, term) => sum.length === 0 ? float4(term) : add4(mul4(sum, get(x)), float4(term)),
    []
  )
  return seq(
    set(x, max4(mul4(get(x), float4(Math.LOG2E)), float4(-126))),
    set(scratch, nearest4(get(x))),
    set(x, subtract4(get(x), get(scratch))),
    set(x, mul4(polynomial, shiftInt4(addInt4(truncate4(get(scratch)), int4(127)), 23)))
  )
}

const rowMax: Kernel = kernel("rowMax", { row: "at", n: "int" }, (param, local) => {
  const cursor = local("int")
  const top = local("vector")
  return seq(
    set(top, float4(-3e38)),
    along(
      cursor,
      get(param.row),
      add(get(param.row), bytes(get(param.n))),
      set(top, max4(get(top), load4(get(cursor))))
    ),
    maxLane(top)
  )
}, "float")

const expSum: Kernel = kernel("expSum", { row: "at", n: "int", top: "float" }, (param, local) => {
  const cursor = local("int")
  const x = local("vector")
  const scratch = local("vector")
  const sum = local("vector")
  return seq(
    along(
      cursor,
      get(param.row),
      add(get(param.row), bytes(get(param.n))),
      set(x, subtract4(load4(get(cursor)), splat4(get(param.top)))),
      exponential(x, scratch),
      set(sum, add4(get(sum), get(x)))
    ),
    sumLanes(sum)
  )
}, "float")

const expScale: Kernel = kernel(
  "expScale",
  { row: "at", n: "int", shift: "float", factor: "float" },
  (param, local) => {
    const cursor = local("int")
    const x = local("vector")
    const scratch = local("vector")
    return along(
      cursor,
      get(param.row),
      add(get(param.row), bytes(get(param.n))),
      set(x, subtract4(load4(get(cursor)), splat4(get(param.shift)))),
      exponential(x, scratch),
      store4(get(cursor), mul4(get(x), splat4(get(param.factor))))
    )
  }
)

const addRow: Kernel = kernel("addRow", { target: "at", source: "at", n: "int" }, (param, local) => {
  const cursor = local("int")
  return along(
    cursor,
    get(param.target),
    add(get(param.target), bytes(get(param.n))),
    store4(get(cursor), add4(load4(get(cursor)), load4(get(param.source)))),
    bump(param.source, int(16))
  )
})

const normalise: Kernel = kernel(
  "normalise",
  { source: "at", target: "at", scales: "at", width: "int", rows: "int" },
  (param, local) => {
    const row = local("int")
    const cursor = local("int")
    const sum = local("vector")
    const scale = local("float")
    const end = add(get(param.source), bytes(get(param.width)))
    return times(
      row,
      get(param.rows),
      set(sum, float4(0)),
      along(cursor, get(param.source), end, set(sum, add4(get(sum), mul4(load4(get(cursor)), load4(get(cursor)))))),
      set(
        scale,
        divideFloat(
          float(1),
          squareRoot(addFloat(divideFloat(sumLanes(sum), toFloat(get(param.width))), float(1e-5)))
        )
      ),
      storeFloat(get(param.scales), get(scale)),
      bump(param.scales, int(4)),
      along(
        cursor,
        get(param.source),
        end,
        store4(get(param.target), mul4(load4(get(cursor)), splat4(get(scale)))),
        bump(param.target, int(16))
      ),
      set(param.source, get(cursor))
    )
  }
)

const normaliseBackward: Kernel = kernel(
  "normaliseBackward",
  { gradient: "at", normed: "at", scales: "at", target: "at", width: "int", rows: "int" },
  (param, local) => {
    const row = local("int")
    const offset = local("int")
    const sum = local("vector")
    const mean = local("float")
    const at = (start: number): Code => add(get(start), get(offset))
    const end = bytes(get(param.width))
    const next = (start: number): Code => bump(start, end)
    return times(
      row,
      get(param.rows),
      set(sum, float4(0)),
      along(
        offset,
        int(0),
        end,
        set(sum, add4(get(sum), mul4(load4(at(param.gradient)), load4(at(param.normed)))))
      ),
      set(mean, divideFloat(sumLanes(sum), toFloat(get(param.width)))),
      along(
        offset,
        int(0),
        end,
        store4(
          at(param.target),
          add4(
            load4(at(param.target)),
            mul4(
              subtract4(load4(at(param.gradient)), mul4(load4(at(param.normed)), splat4(get(mean)))),
              splat4(loadFloat(get(param.scales)))
            )
          )
        )
      ),
      next(param.gradient),
      next(param.normed),
      next(param.target),
      bump(param.scales, int(4))
    )
  }
)

const activate: Kernel = kernel("activate", { hidden: "at", squared: "at", n: "int" }, (param, local) => {
  const cursor = local("int")
  const value = local("vector")
  return along(
    cursor,
    get(param.hidden),
    add(get(param.hidden), bytes(get(param.n))),
    set(value, max4(load4(get(cursor)), float4(0))),
    store4(get(cursor), get(value)),
    store4(get(param.squared), mul4(get(value), get(value))),
    bump(param.squared, int(16))
  )
})

const activateBackward: Kernel = kernel(
  "activateBackward",
  { rectified: "at", squared: "at", gradient: "at", n: "int" },
  (param, local) => {
    const cursor = local("int")
    const value = local("vector")
    return along(
      cursor,
      get(param.rectified),
      add(get(param.rectified), bytes(get(param.n))),
      set(value, load4(get(cursor))),
      store4(get(param.squared), mul4(get(value), get(value))),
      store4(get(param.gradient), mul4(mul4(get(value), float4(2)), load4(get(param.gradient)))),
      bump(param.squared, int(16)),
      bump(param.gradient, int(16))
    )
  }
)

const rotate: Kernel = kernel(
  "rotate",
  { row: "at", cosine: "at", sine: "at", heads: "int", half: "at", direction: "float" },
  (param, local) => {
    const head = local("int")
    const offset = local("int")
    const left = local("vector")
    const right = local("vector")
    const cosine = local("vector")
    const sine = local("vector")
    const here = add(get(param.row), get(offset))
    const there = add(here, get(param.half))
    return times(
      head,
      get(param.heads),
      along(
        offset,
        int(0),
        get(param.half),
        set(left, load4(here)),
        set(right, load4(there)),
        set(cosine, load4(add(get(param.cosine), get(offset)))),
        set(sine, mul4(load4(add(get(param.sine), get(offset))), splat4(get(param.direction)))),
        store4(here, subtract4(mul4(get(left), get(cosine)), mul4(get(right), get(sine)))),
        store4(there, add4(mul4(get(left), get(sine)), mul4(get(right), get(cosine))))
      ),
      bump(param.row, mul(get(param.half), int(2)))
    )
  }
)

/** @internal */
export const rowKernels: ReadonlyArray<Kernel> = [
  rowMax,
  expSum,
  expScale,
  addRow,
  normalise,
  normaliseBackward,
  activate,
  activateBackward,
  rotate
]
