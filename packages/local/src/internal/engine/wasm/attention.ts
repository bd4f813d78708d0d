/**
 * Softmax under a causal mask, forwards and backwards.
 */
import {
  add,
  add4,
  and,
  bump,
  divideFloat,
  float,
  float4,
  get,
  int,
  kernel,
  load4,
  max4,
  maxLane,
  mul4,
  seq,
  set,
  splat4,
  store4,
  storeFloat,
  subtract4,
  sumLanes,
  times,
  whileBelow
} from "./assembler.js"
import type { Code, Kernel } from "./assembler.js"
import { along, bytes, exponential } from "./rows.js"

/** Rounds a number of bytes up to whole vectors. */
const wholeVectors = (count: Code): Code => and(add(count, int(15)), int(-16))

/** Stores `value` in the floats from `from` up to `to`, both addresses. */
const fillFloats = (cursor: number, from: Code, to: Code, value: number): Code =>
  seq(set(cursor, from), whileBelow(cursor, to, int(4), storeFloat(get(cursor), float(value))))

/** Softmax of the floats from `start` up to `end`; what pads the last vector counts as nothing and becomes zero. */
const softmaxRun = (
  start: Code,
  end: number,
  padded: number,
  scale: Code,
  cursor: number,
  vectors: readonly [number, number, number, number]
): Code => {
  const [x, scratch, sum, top] = vectors
  return seq(
    fillFloats(cursor, get(end), get(padded), -3e38),
    set(sum, float4(-3e38)),
    along(cursor, start, get(padded), set(sum, max4(get(sum), load4(get(cursor))))),
    // Taken off, so that the largest exponent is zero.
    set(top, splat4(maxLane(sum))),
    set(sum, float4(0)),
    along(
      cursor,
      start,
      get(padded),
      set(x, mul4(subtract4(load4(get(cursor)), get(top)), splat4(scale))),
      exponential(x, scratch),
      store4(get(cursor), get(x)),
      set(sum, add4(get(sum), get(x)))
    ),
    set(scratch, splat4(divideFloat(float(1), sumLanes(sum)))),
    along(cursor, start, get(padded), store4(get(cursor), mul4(load4(get(cursor)), get(scratch)))),
    fillFloats(cursor, get(end), get(padded), 0)
  )
}

const softmax: Kernel = kernel(
  "softmax",
  { scores: "at", width: "at", rows: "int", visible: "int", scale: "float" },
  (param, local) => {
    const row = local("int")
    const end = local("int")
    const padded = local("int")
    const cursor = local("int")
    const vectors = [local("vector"), local("vector"), local("vector"), local("vector")] as const
    const start = get(param.scores)
    return times(
      row,
      get(param.rows),
      set(end, add(start, bytes(add(get(param.visible), get(row))))),
      set(padded, add(start, wholeVectors(bytes(add(get(param.visible), get(row)))))),
      softmaxRun(start, end, padded, get(param.scale), cursor, vectors),
      along(cursor, get(padded), add(start, get(param.width)), store4(get(cursor), float4(0))),
      bump(param.scores, get(param.width))
    )
  }
)

const softmaxBackward: Kernel = kernel(
  "softmaxBackward",
  { scores: "at", gradient: "at", width: "at", rows: "int", scale: "float" },
  (param, local) => {
    const row = local("int")
    const offset = local("int")
    const sum = local("vector")
    const mean = local("vector")
    const probability = load4(add(get(param.scores), get(offset)))
    const slope = add(get(param.gradient), get(offset))
    return times(
      row,
      get(param.rows),
      set(sum, float4(0)),
      along(offset, int(0), get(param.width), set(sum, add4(get(sum), mul4(probability, load4(slope))))),
      set(mean, splat4(sumLanes(sum))),
      along(
        offset,
        int(0),
        get(param.width),
        store4(
          slope,
          mul4(mul4(probability, subtract4(load4(slope), get(mean))), splat4(get(param.scale)))
        )
      ),
      bump(param.scores, get(param.width)),
      bump(param.gradient, get(param.width))
    )
  }
)

/** @internal */
export const attentionKernels: ReadonlyArray<Kernel> = [softmax, softmaxBackward]
