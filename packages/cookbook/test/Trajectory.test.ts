import { Trajectory } from "@effect-tinker/cookbook"
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

describe("advantages", () => {
  it("centred, standardised, leave one out", () => {
    assert.deepStrictEqual(Trajectory.center([1, 0, 0, 1]), [0.5, -0.5, -0.5, 0.5])
    assert.deepStrictEqual(Trajectory.standardize([3, 1]), [1, -1])
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
})
