import { assert, describe, it } from "@effect/vitest"
import { Autodiff } from "../src/index.js"
import { gradientError, numbers, table } from "./utils/finiteDifference.js"

type Values = ReadonlyArray<Autodiff.Value>
interface Case {
  readonly name: string
  readonly shapes: ReadonlyArray<Autodiff.Shape>
  readonly f: (inputs: Values) => Autodiff.Value
  /** Where the function is smooth. */
  readonly domain?: readonly [number, number]
}

const pick = (inputs: Values, i: number): Autodiff.Value => inputs[i] ?? assert.fail("missing input")
const unary = (
  name: string,
  op: (x: Autodiff.Value) => Autodiff.Value,
  domain?: readonly [number, number]
): ReadonlyArray<Case> =>
  ([[], [5], [3, 4]] as const).map((shape) => ({
    name: `${name} [${shape.join(", ")}]`,
    shapes: [shape],
    f: (inputs) => op(pick(inputs, 0)),
    ...(domain === undefined ? {} : { domain })
  }))
const pairs = [[[4], [4]], [[3, 4], [3, 4]], [[3, 4], [4]], [[3, 1], [1, 4]], [[3, 1], [4]], [[4], []], [[], [
  3,
  4
]]] as const
const binary = (
  name: string,
  op: (x: Autodiff.Value, y: Autodiff.Value) => Autodiff.Value,
  domain?: readonly [number, number]
): ReadonlyArray<Case> =>
  pairs.map(([a, b]) => ({
    name: `${name} [${a.join(", ")}]·[${b.join(", ")}]`,
    shapes: [a, b],
    f: (inputs) => op(pick(inputs, 0), pick(inputs, 1)),
    ...(domain === undefined ? {} : { domain })
  }))
const axes = (
  name: string,
  op: (x: Autodiff.Value, axis: Autodiff.Axis | undefined) => Autodiff.Value
): ReadonlyArray<Case> =>
  ([[[5], undefined], [[5], 0], [[3, 4], undefined], [[3, 4], 0], [[3, 4], 1], [[3, 4], -1]] as const).map((
    [shape, axis]
  ) => ({
    name: `${name} [${shape.join(", ")}]${axis === undefined ? "" : ` axis ${axis}`}`,
    shapes: [shape],
    f: (inputs) => op(pick(inputs, 0), axis)
  }))
const option = (axis: Autodiff.Axis | undefined) => ({ axis })

const cases: ReadonlyArray<Case> = [
  ...binary("add", Autodiff.add),
  ...binary("sub", Autodiff.sub),
  ...binary("mul", Autodiff.mul),
  ...binary("div", Autodiff.div, [0.5, 2]),
  ...binary("pow", Autodiff.pow, [0.5, 2]),
  ...binary("minimum", Autodiff.minimum),
  ...binary("maximum", Autodiff.maximum),
  ...unary("neg", Autodiff.neg),
  ...unary("exp", Autodiff.exp),
  ...unary("expm1", Autodiff.expm1),
  ...unary("log", Autodiff.log, [0.5, 3]),
  ...unary("log1p", Autodiff.log1p, [-0.5, 3]),
  ...unary("sqrt", Autodiff.sqrt, [0.5, 3]),
  ...unary("square", Autodiff.square),
  ...unary("pow 3", Autodiff.pow(3)),
  ...unary("abs below 0", Autodiff.abs, [-3, -0.1]),
  ...unary("abs above 0", Autodiff.abs, [0.1, 3]),
  ...unary("tanh", Autodiff.tanh),
  ...unary("relu above 0", Autodiff.relu, [0.1, 3]),
  ...unary("sigmoid", Autodiff.sigmoid),
  ...unary("softplus", Autodiff.softplus),
  ...unary("logSigmoid", Autodiff.logSigmoid, [-30, 5]),
  ...unary("clip inside", Autodiff.clip(-4, 4)),
  ...unary("clip beside x", (x) => Autodiff.add(Autodiff.clip(x, -0.05, 0.05), x), [0.1, 2]),
  ...unary("where(x > 1)", (x) => Autodiff.where(Autodiff.gt(x, 1), Autodiff.exp(x), Autodiff.square(x)), [1.1, 3]),
  ...unary("where(x <= 1)", (x) => Autodiff.where(Autodiff.lte(x, 1), Autodiff.exp(x), Autodiff.square(x)), [-2, 0.9]),
  ...axes("sum", (x, axis) => Autodiff.sum(x, option(axis))),
  ...axes("mean", (x, axis) => Autodiff.mean(x, option(axis))),
  ...axes("max", (x, axis) => Autodiff.max(x, option(axis))),
  ...axes("min", (x, axis) => Autodiff.min(x, option(axis))),
  ...axes("logSumExp", (x, axis) => Autodiff.logSumExp(x, option(axis))),
  ...axes("softmax", (x, axis) => Autodiff.softmax(x, option(axis))),
  ...axes("logSoftmax", (x, axis) => Autodiff.logSoftmax(x, option(axis))),
  ...axes("cumsum", (x, axis) => Autodiff.cumsum(x, option(axis))),
  { name: "concat vectors", shapes: [[2], [3]], f: (xs) => Autodiff.concat(xs) },
  { name: "concat rows", shapes: [[2, 3], [1, 3]], f: (xs) => Autodiff.concat(xs) },
  { name: "concat columns", shapes: [[2, 3], [2, 1]], f: (xs) => Autodiff.concat(xs, { axis: 1 }) },
  { name: "stack scalars", shapes: [[], []], f: (xs) => Autodiff.stack(xs) },
  { name: "stack vectors", shapes: [[3], [3]], f: (xs) => Autodiff.stack(xs) },
  { name: "slice vector", shapes: [[5]], f: (xs) => pick(xs, 0).pipe(Autodiff.slice(1, -1)) },
  { name: "slice rows", shapes: [[4, 3]], f: (xs) => Autodiff.slice(pick(xs, 0), 1, 3) },
  { name: "slice columns", shapes: [[2, 5]], f: (xs) => Autodiff.slice(pick(xs, 0), -3, undefined, { axis: 1 }) },
  { name: "at", shapes: [[5]], f: (xs) => Autodiff.at(pick(xs, 0), -2) },
  { name: "at row", shapes: [[3, 4]], f: (xs) => Autodiff.at(pick(xs, 0), 1) },
  { name: "reshape", shapes: [[6]], f: (xs) => Autodiff.reshape(pick(xs, 0), [2, 3]) },
  { name: "transpose", shapes: [[2, 3]], f: (xs) => Autodiff.transpose(pick(xs, 0)) },
  { name: "value used twice", shapes: [[4]], f: (xs) => Autodiff.mul(Autodiff.exp(pick(xs, 0)), pick(xs, 0)) }
]

/** A random linear functional, so that no gradient is trivially uniform, and x itself, so that none is zero. */
const toScalar = (value: Autodiff.Value, seed: number) => {
  const weights = Autodiff.constant(numbers(seed, value.values.length, 0.5, 1.5), value.shape)
  return Autodiff.sum(Autodiff.mul(value, weights))
}

describe("Autodiff", () => {
  it("gradients of every operation equal finite differences to 1e-6", () => {
    const errors = cases.map((one, c) => {
      let worst = 0
      for (let round = 0; round < 5; round++) {
        const inputs = one.shapes.map((shape, i) => {
          const size = (shape[0] ?? 1) * (shape[1] ?? 1)
          const [low, high] = one.domain ?? [-2, 2]
          return { shape, values: numbers(1 + c * 131 + round * 17 + i, size, low, high) }
        })
        worst = Math.max(worst, gradientError((xs) => toScalar(one.f(xs), c + round), inputs))
      }
      return [one.name, worst] as const
    })
    const worst = new Map<string, number>()
    for (const [name, error] of errors) {
      const op = name.split(" [")[0] ?? name
      worst.set(op, Math.max(worst.get(op) ?? 0, error))
    }
    process.stdout.write(table("Autodiff: relative error against finite differences", [...worst]) + "\n")
    for (const [name, error] of errors) assert.isAtMost(error, 1e-6, name)
    assert.isAtLeast(errors.length, 100)
  })

  it("forward values", () => {
    const x = Autodiff.constant([[1, 2], [3, 4]])
    assert.deepStrictEqual([...Autodiff.sum(x, { axis: 0 }).values], [4, 6])
    assert.deepStrictEqual([...x.pipe(Autodiff.sum({ axis: 1 })).values], [3, 7])
    assert.deepStrictEqual([...Autodiff.add(x, [10, 20]).values], [11, 22, 13, 24])
    assert.deepStrictEqual([...Autodiff.add(x, [[10], [20]]).values], [11, 12, 23, 24])
    assert.deepStrictEqual([...Autodiff.cumsum(x, { axis: 0 }).values], [1, 2, 4, 6])
    assert.deepStrictEqual([...Autodiff.transpose(x).values], [1, 3, 2, 4])
    assert.deepStrictEqual([...Autodiff.slice(x, 0, 1, { axis: 1 }).values], [1, 3])
    assert.deepStrictEqual([...Autodiff.concat([x, x], { axis: 1 }).values], [1, 2, 1, 2, 3, 4, 3, 4])
    assert.deepStrictEqual(Autodiff.stack([[1, 2], [3, 4], [5, 6]]).shape, [3, 2])
    assert.deepStrictEqual([...Autodiff.gte([1, 2, 3], 2).values], [0, 1, 1])
    assert.deepStrictEqual([...Autodiff.lt([1, 2, 3], [3, 2, 1]).values], [1, 0, 0])
    assert.deepStrictEqual([...Autodiff.eq([1, 2], [1, 3]).values], [1, 0])
    assert.strictEqual(Autodiff.toNumber(Autodiff.max(x)), 4)
    assert.strictEqual(Autodiff.toNumber(Autodiff.mean(x)), 2.5)
  })

  it("large magnitudes neither overflow nor underflow", () => {
    assert.strictEqual(Autodiff.toNumber(Autodiff.logSumExp([1000, 1000])), 1000 + Math.log(2))
    assert.strictEqual(Autodiff.toNumber(Autodiff.logSumExp([-Infinity, -Infinity])), -Infinity)
    assert.strictEqual(Autodiff.toNumber(Autodiff.logSigmoid(-1000)), -1000)
    assert.strictEqual(Autodiff.toNumber(Autodiff.softplus(1000)), 1000)
    assert.strictEqual(Autodiff.toNumber(Autodiff.sum(Autodiff.softmax([1e4, 1e4, -1e4]))), 1)
  })

  it("detach and comparisons stop gradients, a mask keeps infinities out", () => {
    const x = Autodiff.variable([0, 1, 2])
    const [stopped] = Autodiff.gradients(Autodiff.sum(Autodiff.mul(Autodiff.detach(x), x)), [x])
    assert.deepStrictEqual([...(stopped ?? [])], [0, 1, 2])
    const [steps] = Autodiff.gradients(Autodiff.sum(Autodiff.gt(x, 1)), [x])
    assert.deepStrictEqual([...(steps ?? [])], [0, 0, 0])
    // log(0) = -∞ at the first position, which the condition rules out
    const masked = Autodiff.where(Autodiff.gt(x, 0), Autodiff.log(x), 0)
    assert.deepStrictEqual([...(Autodiff.gradients(Autodiff.sum(masked), [x])[0] ?? [])], [0, 1, 0.5])
  })

  it("ties share the gradient", () => {
    const x = Autodiff.variable([3, 1, 3])
    assert.deepStrictEqual([...(Autodiff.gradients(Autodiff.max(x), [x])[0] ?? [])], [0.5, 0, 0.5])
    const a = Autodiff.variable(2)
    const b = Autodiff.variable(2)
    const [da, db] = Autodiff.gradients(Autodiff.minimum(a, b), [a, b])
    assert.deepStrictEqual([da?.[0], db?.[0]], [0.5, 0.5])
  })

  it("clip passes the gradient on its bounds and stops it outside", () => {
    const x = Autodiff.variable([-2, -1, 0, 1, 2])
    assert.deepStrictEqual([...(Autodiff.gradients(Autodiff.sum(Autodiff.clip(x, -1, 1)), [x])[0] ?? [])], [
      0,
      1,
      1,
      1,
      0
    ])
  })

  it("the same graph can be differentiated twice, and a chain of 20 000 steps does not overflow the stack", () => {
    const x = Autodiff.variable(1)
    let y = Autodiff.add(x, 0)
    for (let i = 0; i < 20_000; i++) y = Autodiff.add(y, x)
    assert.strictEqual(Autodiff.gradients(y, [x])[0]?.[0], 20_001)
    assert.strictEqual(Autodiff.gradients(y, [x])[0]?.[0], 20_001)
  })

  it("a variable the scalar does not depend on has gradient zero", () => {
    const x = Autodiff.variable([1, 2])
    const [gradient] = Autodiff.gradients(Autodiff.sum(Autodiff.variable([3])), [x])
    assert.deepStrictEqual([...(gradient ?? [])], [0, 0])
  })

  it("shapes that do not fit are refused with both shapes named", () => {
    assert.throws(() => Autodiff.add([1, 2], [1, 2, 3]), /\[2\] and \[3\] do not broadcast/)
    assert.throws(() => Autodiff.gradients(Autodiff.variable([1, 2]), []), /only a scalar/)
    assert.throws(() => Autodiff.sum([1, 2], { axis: 1 }), /no axis 1/)
    assert.throws(() => Autodiff.constant([[1, 2], [3]]), /row 1 has 1/)
    assert.throws(() => Autodiff.constant([1, 2, 3], [2, 2]), /do not fill/)
    assert.throws(() => Autodiff.clip([1], 2, 1), /above the upper bound/)
    assert.throws(() => Autodiff.concat([]), /nothing/)
    assert.throws(() => Autodiff.at([1], 3), /no position 3/)
  })
})
