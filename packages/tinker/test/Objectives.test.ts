import { assert, describe, it } from "@effect/vitest"
import { Autodiff, Objectives } from "../src/index.js"
import { gradientError, numbers, table } from "./utils/finiteDifference.js"

const T = 6
const K = 4
const vector = (seed: number) => ({ shape: [T] as const, values: numbers(seed, T, -3, -0.2) })
const matrix = (seed: number) => ({ shape: [T, K] as const, values: numbers(seed, T * K, -3, -0.2) })
const reference = numbers(99, T, -3, -0.2)
const reference2 = Autodiff.constant(numbers(98, T * K, -3, -0.2), [T, K])
const sampled = numbers(97, T, -3, -0.2)
const advantages = numbers(96, T, -1.5, 1.5)
const weights = numbers(95, T, 0.1, 1)
const first = (xs: ReadonlyArray<Autodiff.Value>) => xs[0] ?? assert.fail("missing input")

const dpoLoss = (beta: number) => (xs: ReadonlyArray<Autodiff.Value>) =>
  Objectives.dpo({
    beta,
    chosen: { logprobs: first(xs), reference, weights },
    rejected: { logprobs: xs[1] ?? assert.fail("missing input"), reference: sampled }
  }).loss

describe("Objectives", () => {
  it("gradients equal finite differences to 1e-6", () => {
    const weighted = (f: (x: Autodiff.Value) => Autodiff.Value) => (xs: ReadonlyArray<Autodiff.Value>) =>
      Autodiff.sum(Autodiff.mul(f(first(xs)), weights))
    const cases = [
      ["reverseKl sampled", weighted((x) => Objectives.reverseKl(x, reference, { sampled })), [vector(1)]],
      ["reverseKl candidates", weighted((x) => Objectives.reverseKl(x, reference2)), [matrix(2)]],
      ["forwardKl sampled", weighted((x) => Objectives.forwardKl(x, reference)), [vector(3)]],
      ["forwardKl candidates", weighted((x) => Objectives.forwardKl(x, reference2)), [matrix(4)]],
      ["entropy sampled", weighted((x) => Objectives.entropy(x, { sampled })), [vector(5)]],
      ["entropy candidates", weighted((x) => Objectives.entropy(x)), [matrix(6)]],
      ["l1Shift", weighted((x) => Objectives.l1Shift(x, reference)), [vector(7)]],
      ["l2Shift", weighted((x) => Objectives.l2Shift(x, reference)), [vector(8)]],
      ["l2Shift candidates", weighted((x) => Objectives.l2Shift(x, reference2)), [matrix(9)]],
      ["ppoClip", weighted((x) => Objectives.ppoClip(x, { sampled, advantages })), [vector(10)]],
      ["ppoClip 0.5…3", weighted((x) => Objectives.ppoClip(x, { sampled, advantages, low: 0.5, high: 3 })), [
        vector(11)
      ]],
      ["dpo β 0.1", dpoLoss(0.1), [vector(12), vector(13)]],
      ["dpo β 2", dpoLoss(2), [vector(14), vector(15)]]
    ] as const
    const errors = cases.map(([name, f, inputs]) => [name, gradientError(f, inputs)] as const)
    process.stdout.write(table("Objectives: relative error against finite differences", errors) + "\n")
    for (const [name, error] of errors) assert.isAtMost(error, 1e-6, name)
  })

  it("ppoClip: clipping stops the gradient exactly where it would reward going further", () => {
    const x = Autodiff.variable([Math.log(2), Math.log(2), Math.log(0.5), Math.log(0.5), 0])
    const loss = Objectives.ppoClip(x, { sampled: [0, 0, 0, 0, 0], advantages: [1, -1, 1, -1, 1] })
    assert.deepStrictEqual([...loss.values], [-1.2, 2, -0.5, 0.8, -1])
    assert.deepStrictEqual([...(Autodiff.gradients(Autodiff.sum(loss), [x])[0] ?? [])], [0, 2, -0.5, 0, -1])
  })

  it("dpo: at the reference the loss is log 2 and the gradient pushes the pair apart by β/2", () => {
    const chosen = Autodiff.variable([-1, -2])
    const rejected = Autodiff.variable([-3])
    const terms = Objectives.dpo({
      beta: 0.5,
      chosen: { logprobs: chosen, reference: [-1, -2] },
      rejected: { logprobs: rejected, reference: [-3] }
    })
    assert.closeTo(Autodiff.toNumber(terms.loss), Math.LN2, 1e-15)
    assert.strictEqual(Autodiff.toNumber(terms.margin), 0)
    const [up, down] = Autodiff.gradients(terms.loss, [chosen, rejected])
    assert.deepStrictEqual([...(up ?? [])], [-0.25, -0.25])
    assert.deepStrictEqual([...(down ?? [])], [0.25])
  })

  it("both divergences vanish at the reference and are positive elsewhere", () => {
    const p = Autodiff.logSoftmax(Autodiff.variable([[0.3, -1, 2, 0.1]]))
    const q = Autodiff.logSoftmax([[1, 0.5, -0.5, 0.2]])
    for (const kl of [Objectives.reverseKl, Objectives.forwardKl]) {
      assert.closeTo(Autodiff.toNumber(kl(p, Autodiff.detach(p))), 0, 1e-15)
      assert.isAbove(Autodiff.toNumber(kl(p, q)), 0.1)
    }
  })

  it("on policy samples the estimators average to the exact divergence, entropy and gradients", () => {
    // Every outcome weighted by its probability: the expectation over samples, without sampling noise.
    const logits = [0.3, -1, 2, 0.1]
    const logq = [...Autodiff.logSoftmax([1, 0.5, -0.5, 0.2]).values]
    const exactly = (f: (lp: Autodiff.Value) => Autodiff.Value) => {
      const x = Autodiff.variable(logits)
      const loss = f(Autodiff.logSoftmax(x))
      return [Autodiff.toNumber(loss), Autodiff.gradients(loss, [x])[0] ?? new Float64Array(0)] as const
    }
    const rows = (lp: Autodiff.Value) => Autodiff.reshape(lp, [1, 4])
    const expectation = (per: (lp: Autodiff.Value) => Autodiff.Value) => (lp: Autodiff.Value) =>
      Autodiff.sum(Autodiff.mul(Autodiff.detach(Autodiff.exp(lp)), per(lp)))
    const check = (
      exact: (lp: Autodiff.Value) => Autodiff.Value,
      estimator: (lp: Autodiff.Value) => Autodiff.Value
    ) => {
      const [value, gradient] = exactly((lp) => Autodiff.sum(exact(rows(lp))))
      const [estimated, slope] = exactly(expectation(estimator))
      assert.closeTo(estimated, value, 1e-12)
      gradient.forEach((g, i) => assert.closeTo(slope[i] ?? Number.NaN, g, 1e-12))
    }
    check((lp) => Objectives.reverseKl(lp, [logq]), (lp) => Objectives.reverseKl(lp, logq))
    check((lp) => Objectives.entropy(lp), (lp) => Objectives.entropy(lp))
  })
})
