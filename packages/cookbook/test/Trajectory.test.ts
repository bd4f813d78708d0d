import { Loss, Trajectory } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import { Either } from "effect"
import { TensorData } from "effect-tinker"

const turn = (prompt: ReadonlyArray<number>, tokens: ReadonlyArray<number>, options?: Partial<Trajectory.Turn>) => ({
  prompt: Int32Array.from(prompt),
  action: {
    tokens: Int32Array.from(tokens),
    logprobs: Float32Array.from(tokens, (token) => -token / 16),
    stopReason: "stop" as const,
    policyVersion: 0
  },
  reward: 0,
  masked: false,
  metrics: {},
  ...options
})

const trajectory = (turns: ReadonlyArray<Trajectory.Turn>, reward = 0): Trajectory.Trajectory => ({
  turns,
  stop: "completed",
  reward,
  metrics: {}
})

const group = (rewards: ReadonlyArray<number>): Trajectory.Group => ({
  trajectories: rewards.map((reward) => trajectory([turn([1], [2])], reward)),
  groupRewards: rewards.map(() => 0),
  tags: [],
  errors: []
})

describe("Trajectory.toRows", () => {
  it("turns whose prompts continue the tokens before them are one row", () => {
    const [row, ...others] = Trajectory.toRows(
      trajectory([
        turn([1, 2], [3, 4]),
        turn([1, 2, 3, 4, 5], [6], { masked: true }),
        turn([1, 2, 3, 4, 5, 6, 7], [8])
      ]),
      0.5
    )
    assert.deepStrictEqual(others, [])
    assert.deepStrictEqual(row, {
      inputs: Int32Array.of(1, 2, 3, 4, 5, 6, 7),
      targets: Int32Array.of(2, 3, 4, 5, 6, 7, 8),
      logprobs: Float32Array.of(0, -3 / 16, -4 / 16, 0, -6 / 16, 0, -8 / 16),
      advantages: Float32Array.of(0, 0.5, 0.5, 0, 0, 0, 0.5),
      mask: Float32Array.of(0, 1, 1, 0, 0, 0, 1)
    })
  })

  it("a prompt that does not continue them begins another", () => {
    const rows = Trajectory.toRows(
      trajectory([turn([1, 2], [3]), turn([1, 2, 9, 4], [5]), turn([1, 2], [3])]),
      1
    )
    assert.deepStrictEqual(rows.map(({ targets }) => Array.from(targets)), [[2, 3], [2, 9, 4, 5], [2, 3]])
  })

  it("conversations that take turns are one row each", () => {
    const rows = Trajectory.toRows(
      trajectory([
        turn([1], [2]),
        turn([8], [9]),
        turn([1, 2, 3], [4]),
        turn([8, 9, 7], [6]),
        // a prefix of the first conversation, but not what follows its last answer
        turn([1, 2], [5])
      ]),
      1
    )
    assert.deepStrictEqual(rows.map((row) => Array.from(Trajectory.tokensOf(row))), [
      [1, 2, 3, 4],
      [8, 9, 7, 6],
      [1, 2, 5]
    ])
    assert.deepStrictEqual(rows.map(({ mask }) => Array.from(mask)), [[1, 0, 1], [1, 0, 1], [0, 1]])
  })

  it("an episode without a turn is no row", () => {
    assert.deepStrictEqual(Trajectory.toRows(trajectory([]), 1), [])
  })
})

describe("divergences", () => {
  const rows: ReadonlyArray<Trajectory.Row> = [{
    inputs: Int32Array.of(1, 2, 3, 4),
    targets: Int32Array.of(2, 3, 4, 5),
    logprobs: Float32Array.of(0, -1, -2, -3),
    advantages: Float32Array.of(0, 0.5, 0.5, 0),
    mask: Float32Array.of(0, 1, 1, 0)
  }, {
    inputs: Int32Array.of(1),
    targets: Int32Array.of(2),
    logprobs: Float32Array.of(-4),
    advantages: Float32Array.of(0),
    mask: Float32Array.of(1)
  }]
  // Differences of the three sampled tokens: 1, 0.5 and 1.5. What stands where nothing was sampled must not count.
  const others = [[9, -2, -2.5, 7], [-5.5]]

  it("of sampled tokens only: the mean, half the mean square, the entropy of the sampler", () => {
    const { entropy, tokens, v1, v2 } = Trajectory.divergence(rows, others)
    assert.deepStrictEqual([v1, tokens], [1, 3])
    assert.closeTo(v2, 3.5 / 6, 1e-12)
    assert.closeTo(entropy, 7 / 3, 1e-12)
  })

  it("a penalty is the coefficient times what a token is below the mean difference", () => {
    const { kl, rows: penalized } = Trajectory.penalize(rows, others, { coefficient: 2 })
    assert.strictEqual(kl, 1)
    assert.deepStrictEqual(penalized.map(({ advantages }) => Array.from(advantages)), [[0, 0.5, 1.5, 0], [-1]])
    const paid = Trajectory.penalize(rows, others, { coefficient: 2, center: false })
    assert.deepStrictEqual(paid.rows.map(({ advantages }) => Array.from(advantages)), [[0, -1.5, -0.5, 0], [-3]])
  })

  it("with a discount, a token also answers for those after it", () => {
    const { rows: [first] } = Trajectory.penalize(rows, others, { coefficient: 2, center: false, discount: 0.25 })
    // 0.5 - 1, and 0.5 - 2 - 0.25 · 1
    assert.deepStrictEqual(Array.from(first?.advantages.subarray(1, 3) ?? []), [-1.75, -0.5])
  })
})

describe("advantages", () => {
  it("centred, standardised, leave one out", () => {
    assert.deepStrictEqual(Trajectory.center([1, 0, 0, 1]), [0.5, -0.5, -0.5, 0.5])
    assert.deepStrictEqual(Trajectory.standardize([3, 1]), [1, -1])
    // mean 3, squares 4, 0, 4, 0: the deviation is the root of 2, and not 2
    const standardized = Trajectory.standardize([1, 3, 5, 3])
    ;[-Math.SQRT2, 0, Math.SQRT2, 0].forEach((value, i) => assert.closeTo(standardized[i] ?? NaN, value, 1e-12))
    assert.deepStrictEqual(Trajectory.standardize([2, 2]), [0, 0])
    assert.deepStrictEqual(Trajectory.leaveOneOut([1, 0, 0]), [1, -0.5, -0.5])
  })

  it("constant groups go, unless all are", () => {
    const groups = [group([1, 1]), group([0, 1]), group([0, 0])]
    assert.deepStrictEqual(Trajectory.withoutConstant(groups), groups.slice(1, 2))
    assert.deepStrictEqual(Trajectory.withoutConstant(groups.slice(2)), groups.slice(2))
  })

  it("normalised by rollout, the advantages of a rollout sum to its own", () => {
    const long = trajectory([turn([1], [2, 3, 4, 5]), turn([7], [8, 9])], 1)
    const rows = Trajectory.assemble(
      [{ trajectories: [long, trajectory([turn([1], [2])])], groupRewards: [0, 0], tags: [], errors: [] }],
      { normalize: "rollout" }
    )
    const total = rows.filter(({ trajectory }) => trajectory === 0)
      .reduce((sum, { row }) => sum + row.advantages.reduce((a, b) => a + b, 0), 0)
    assert.closeTo(total, 0.5, 1e-6)
  })
})

describe("tokens of older weights", () => {
  const drawnBy = (prompt: ReadonlyArray<number>, tokens: ReadonlyArray<number>, policyVersion: number) => {
    const plain = turn(prompt, tokens)
    return { ...plain, action: { ...plain.action, policyVersion } }
  }
  const stale: Trajectory.Group = {
    trajectories: [
      trajectory([drawnBy([1], [2, 3], 4), drawnBy([1, 2, 3, 9], [5], 7)], 1),
      trajectory([drawnBy([1], [2], 6)], 0)
    ],
    groupRewards: [0, 0],
    tags: [],
    errors: []
  }

  it("count for decay to the power of their age, as numpy has it", () => {
    // np.float32(np.array([.5, .5, 0, .5]) * .8 ** (7 - np.array([4, 4, 0, 7]))), np.float32(-.5 * .8 ** (7 - 6))
    const rows = Trajectory.assemble([stale], { staleness: { decay: 0.8, step: 7 } })
    assert.deepStrictEqual(rows.map(({ row }) => Array.from(row.advantages)), [
      [0.25600001215934753, 0.25600001215934753, 0, 0.5],
      [-0.4000000059604645]
    ])
    const alike = Trajectory.assemble([stale])
    assert.deepStrictEqual(alike.map(({ row }) => Array.from(row.advantages)), [[0.5, 0.5, 0, 0.5], [-0.5]])
  })

  it("are divided by the trained tokens of their rollout like the others", () => {
    // the first rollout trains on three tokens: np.float32(np.float32([.256, .256, 0, .5]) / 3)
    const [first] = Trajectory.assemble([stale], { normalize: "rollout", staleness: { decay: 0.8, step: 7 } })
    assert.deepStrictEqual(Array.from(first?.row.advantages ?? []), [
      0.08533333986997604,
      0.08533333986997604,
      0,
      0.1666666716337204
    ])
  })
})

describe("Trajectory.toDatum", () => {
  it("has the tensors of a policy-gradient loss, and no mask", () => {
    const [row] = Trajectory.toRows(trajectory([turn([1, 2], [3])]), 2)
    assert.isDefined(row)
    if (row === undefined) return
    const { lossFnInputs } = Either.getOrThrow(Trajectory.toDatum(row))
    assert.deepStrictEqual(Object.keys(lossFnInputs).sort(), ["advantages", "logprobs", "target_tokens"])
    assert.deepStrictEqual(Object.values(lossFnInputs).map((tensor) => TensorData.toArray(tensor).length), [2, 2, 2])
    assert.deepStrictEqual(Array.from(Trajectory.tokensOf(row)), [1, 2, 3])
  })

  it("says where each token came from, if every sequence has a name", () => {
    const named = (sequenceId: string, prompt: ReadonlyArray<number>, tokens: ReadonlyArray<number>) => {
      const plain = turn(prompt, tokens)
      return { ...plain, action: { ...plain.action, sequenceId } }
    }
    const datumOf = (turns: ReadonlyArray<Trajectory.Turn>) => {
      const [row] = Trajectory.toRows(trajectory(turns), 2)
      return row === undefined ? undefined : Either.getOrThrow(Trajectory.toDatum(row))
    }
    const first = named("a", [1, 2], [3, 4])
    const datum = datumOf([first, named("b", [1, 2, 3, 4, 5], [6])])
    // Tokens 1 2 | 3 4 | 5 | 6: the input is all but the last, the targets all but the first.
    assert.deepStrictEqual(datum?.modelInputSpans, [
      { source: "prompt", sequenceId: "a", offset: 0, length: 2 },
      { source: "sampled", sequenceId: "a", offset: 0, length: 2 },
      { source: "prompt", sequenceId: "b", offset: 4, length: 1 }
    ])
    assert.deepStrictEqual(datum?.lossFnInputSpans, [
      { source: "prompt", sequenceId: "a", offset: 1, length: 1 },
      { source: "sampled", sequenceId: "a", offset: 0, length: 2 },
      { source: "prompt", sequenceId: "b", offset: 4, length: 1 },
      { source: "sampled", sequenceId: "b", offset: 0, length: 1 }
    ])
    assert.isUndefined(datumOf([first, turn([1, 2, 3, 4, 5], [6])])?.modelInputSpans)
  })

  it("has the tokens that were sampled marked for GSPO", () => {
    const [row] = Trajectory.toRows(trajectory([turn([1, 2], [3])]), 2)
    assert.isDefined(row)
    if (row === undefined) return
    const { lossFnInputs: { sequence_ratio_mask: mask } } = Either.getOrThrow(Trajectory.toDatum(row, Loss.gspo()))
    assert.isDefined(mask)
    if (mask !== undefined) assert.deepStrictEqual(Array.from(TensorData.toArray(mask)), [0, 1])
  })
})
