/**
 * Work on rows of floats, four at a time. Lengths are multiples of four.
 */
import {
  add,
  add4,
  addFloat,
  addInt4,
  bump,
  divide4,
  divideFloat,
  firstShorts,
  float,
  float4,
  get,
  int,
  kept4,
  kernel,
  lastShorts,
  load4,
  max4,
  maxLane,
  min4,
  mul,
  mul4,
  seq,
  set,
  shiftInt4,
  shiftLeft,
  splat4,
  squareRoot,
  store4,
  subtract4,
  sumLanes,
  times,
  toFloat,
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

// Adding it leaves a number rounded to an integer, and that integer in the lowest bits.
const rounder = 1.5 * 2 ** 23
const smallest = -126
// The float with the bits of the integer 127.
const bias = 127 * 2 ** -149

/** The constants of the module. @internal */
export const constants: ReadonlyArray<number> = [...terms, Math.LOG2E, smallest, rounder, bias]

const constant = (value: number): Code => kept4(constants.indexOf(value))

/**
 * e^x of a local, in place; `scratch` is a vector to work with. Below the smallest float the result is as good as
 * zero. The relative error is a few units in the last place.
 *
 * @internal
 */
export const exponential = (x: number, scratch: number): Code => {
  const polynomial = terms.reduceRight<Code>(
    (sum, term) => sum.length === 0 ? constant(term) : add4(mul4(sum, get(x)), constant(term)),
    []
  )
  return seq(
    set(x, max4(mul4(get(x), constant(Math.LOG2E)), constant(smallest))),
    set(scratch, add4(get(x), constant(rounder))),
    set(x, subtract4(get(x), subtract4(get(scratch), constant(rounder)))),
    // what is above the lowest bits falls off
    set(x, mul4(polynomial, shiftInt4(addInt4(get(scratch), constant(bias)), 23)))
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

/** One over the root of the mean square of `width` floats at an address. */
const inverseRoot = (start: Code, cursor: number, sum: number, width: number, epsilon: number): Code =>
  seq(
    set(sum, float4(0)),
    along(
      cursor,
      start,
      add(start, bytes(get(width))),
      set(sum, add4(get(sum), mul4(load4(get(cursor)), load4(get(cursor)))))
    ),
    divideFloat(
      float(1),
      squareRoot(addFloat(divideFloat(sumLanes(sum), toFloat(get(width))), get(epsilon)))
    )
  )

const normalize: Kernel = kernel(
  "normalize",
  { source: "at", target: "at", gain: "at", width: "int", rows: "int", epsilon: "float" },
  (param, local) => {
    const row = local("int")
    const cursor = local("int")
    const offset = local("int")
    const sum = local("vector")
    const scale = local("vector")
    const end = bytes(get(param.width))
    const at = (start: number): Code => add(get(start), get(offset))
    return times(
      row,
      get(param.rows),
      set(scale, splat4(inverseRoot(get(param.source), cursor, sum, param.width, param.epsilon))),
      along(
        offset,
        int(0),
        end,
        store4(at(param.target), mul4(mul4(load4(at(param.source)), get(scale)), load4(at(param.gain))))
      ),
      bump(param.source, end),
      bump(param.target, end)
    )
  }
)

const normalizeBackward: Kernel = kernel(
  "normalizeBackward",
  {
    gradient: "at",
    source: "at",
    gain: "at",
    target: "at",
    width: "int",
    rows: "int",
    epsilon: "float",
    keep: "float"
  },
  (param, local) => {
    const row = local("int")
    const offset = local("int")
    const cursor = local("int")
    const sum = local("vector")
    const scale = local("vector")
    const mean = local("vector")
    const end = bytes(get(param.width))
    const at = (start: number): Code => add(get(start), get(offset))
    const slope = mul4(load4(at(param.gradient)), load4(at(param.gain)))
    const normed = mul4(load4(at(param.source)), get(scale))
    return times(
      row,
      get(param.rows),
      set(scale, splat4(inverseRoot(get(param.source), cursor, sum, param.width, param.epsilon))),
      set(sum, float4(0)),
      along(offset, int(0), end, set(sum, add4(get(sum), mul4(slope, normed)))),
      set(mean, splat4(divideFloat(sumLanes(sum), toFloat(get(param.width))))),
      along(
        offset,
        int(0),
        end,
        store4(
          at(param.target),
          add4(
            mul4(load4(at(param.target)), splat4(get(param.keep))),
            mul4(subtract4(slope, mul4(normed, get(mean))), get(scale))
          )
        )
      ),
      bump(param.gradient, end),
      bump(param.source, end),
      bump(param.target, end)
    )
  }
)

/** Sets `sigmoid` to 1 / (1 + e^-x). */
const logistic = (x: Code, sigmoid: number, scratch: number): Code =>
  seq(
    // beyond this the result is as good as zero, and the exponential would leave the range of floats
    set(sigmoid, min4(mul4(x, float4(-1)), float4(86))),
    exponential(sigmoid, scratch),
    set(sigmoid, divide4(float4(1), add4(get(sigmoid), float4(1))))
  )

/** How a gate opens: by the logistic function of `argument`, whose derivative is `slope`, of the gate in a local. */
interface Gate {
  readonly name: string
  readonly argument: (gate: Code) => Code
  readonly slope: ((gate: Code) => Code) | undefined
}

const swigluGate: Gate = { name: "swiglu", argument: (gate) => gate, slope: undefined }

const geluFactor = 2 * Math.sqrt(2 / Math.PI)
const geluCubic = 0.044715

/** gelu(x) = x · logistic(f · (x + c · x³)), where it is approximated by tanh. */
const gegluGate: Gate = {
  name: "geglu",
  argument: (gate) =>
    mul4(
      mul4(gate, float4(geluFactor)),
      add4(float4(1), mul4(mul4(gate, gate), float4(geluCubic)))
    ),
  slope: (gate) => mul4(float4(geluFactor), add4(float4(1), mul4(mul4(gate, gate), float4(3 * geluCubic))))
}

const gated = ({ argument, name }: Gate): Kernel =>
  kernel(
    name,
    { source: "at", target: "at", hidden: "at", rows: "int" },
    (param, local) => {
      const row = local("int")
      const offset = local("int")
      const gate = local("vector")
      const sigmoid = local("vector")
      const scratch = local("vector")
      const from = add(get(param.source), get(offset))
      return times(
        row,
        get(param.rows),
        along(
          offset,
          int(0),
          get(param.hidden),
          set(gate, load4(from)),
          logistic(argument(get(gate)), sigmoid, scratch),
          store4(
            add(get(param.target), get(offset)),
            mul4(mul4(get(gate), get(sigmoid)), load4(add(from, get(param.hidden))))
          )
        ),
        bump(param.source, mul(get(param.hidden), int(2))),
        bump(param.target, get(param.hidden))
      )
    }
  )

const gatedBackward = ({ argument, name, slope: inner }: Gate): Kernel =>
  kernel(
    `${name}Backward`,
    { source: "at", gradient: "at", target: "at", hidden: "at", rows: "int" },
    (param, local) => {
      const row = local("int")
      const offset = local("int")
      const gate = local("vector")
      const up = local("vector")
      const slope = local("vector")
      const sigmoid = local("vector")
      const scratch = local("vector")
      const from = add(get(param.source), get(offset))
      const to = add(get(param.target), get(offset))
      const opened = mul4(get(gate), get(sigmoid))
      const closed = mul4(get(gate), subtract4(float4(1), get(sigmoid)))
      return times(
        row,
        get(param.rows),
        along(
          offset,
          int(0),
          get(param.hidden),
          set(gate, load4(from)),
          set(up, load4(add(from, get(param.hidden)))),
          set(slope, load4(add(get(param.gradient), get(offset)))),
          logistic(argument(get(gate)), sigmoid, scratch),
          store4(
            to,
            mul4(
              mul4(get(slope), get(up)),
              mul4(
                get(sigmoid),
                add4(float4(1), inner === undefined ? closed : mul4(closed, inner(get(gate))))
              )
            )
          ),
          store4(add(to, get(param.hidden)), mul4(get(slope), opened))
        ),
        bump(param.source, mul(get(param.hidden), int(2))),
        bump(param.target, mul(get(param.hidden), int(2))),
        bump(param.gradient, get(param.hidden))
      )
    }
  )

const relu2: Kernel = kernel(
  "relu2",
  { source: "at", target: "at", hidden: "at", rows: "int" },
  (param, local) => {
    const cursor = local("int")
    const value = local("vector")
    return along(
      cursor,
      get(param.source),
      add(get(param.source), mul(get(param.hidden), get(param.rows))),
      set(value, max4(load4(get(cursor)), float4(0))),
      store4(get(param.target), mul4(get(value), get(value))),
      bump(param.target, int(16))
    )
  }
)

const relu2Backward: Kernel = kernel(
  "relu2Backward",
  { source: "at", gradient: "at", target: "at", hidden: "at", rows: "int" },
  (param, local) => {
    const cursor = local("int")
    const value = local("vector")
    return along(
      cursor,
      get(param.source),
      add(get(param.source), mul(get(param.hidden), get(param.rows))),
      set(value, max4(load4(get(cursor)), float4(0))),
      store4(get(param.target), mul4(mul4(get(value), float4(2)), load4(get(param.gradient)))),
      bump(param.gradient, int(16)),
      bump(param.target, int(16))
    )
  }
)

const rotate: Kernel = kernel(
  "rotate",
  {
    first: "at",
    stride: "at",
    rows: "int",
    cosine: "at",
    sine: "at",
    heads: "int",
    half: "at",
    direction: "float"
  },
  (param, local) => {
    const row = local("int")
    const head = local("int")
    const start = local("int")
    const offset = local("int")
    const left = local("vector")
    const right = local("vector")
    const cosine = local("vector")
    const sine = local("vector")
    const here = add(get(start), get(offset))
    const there = add(here, get(param.half))
    return times(
      row,
      get(param.rows),
      set(start, get(param.first)),
      times(
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
        bump(start, mul(get(param.half), int(2)))
      ),
      bump(param.first, get(param.stride)),
      bump(param.cosine, get(param.half)),
      bump(param.sine, get(param.half))
    )
  }
)

/**
 * Floats from the bits of bfloat16, which lie in the second half of the place for the floats: a group is read before its
 * floats are written over what was read. `n` is a multiple of eight.
 */
const widenBrain: Kernel = kernel("widenBrain", { target: "at", n: "int" }, (param, local) => {
  const from = local("int")
  const to = local("int")
  const end = local("int")
  const shorts = local("vector")
  return seq(
    set(from, add(get(param.target), shiftLeft(get(param.n), int(1)))),
    set(to, get(param.target)),
    set(end, add(get(param.target), bytes(get(param.n)))),
    whileBelow(
      to,
      get(end),
      int(32),
      set(shorts, load4(get(from))),
      store4(get(to), shiftInt4(firstShorts(get(shorts)), 16)),
      store4(get(to), shiftInt4(lastShorts(get(shorts)), 16), 16),
      bump(from, int(16))
    )
  )
})

/** @internal */
export const rowKernels: ReadonlyArray<Kernel> = [
  rowMax,
  expSum,
  expScale,
  addRow,
  widenBrain,
  normalize,
  normalizeBackward,
  gated(swigluGate),
  gatedBackward(swigluGate),
  gated(gegluGate),
  gatedBackward(gegluGate),
  relu2,
  relu2Backward,
  rotate
]
