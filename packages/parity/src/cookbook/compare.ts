/**
 * Trajectories as the official cookbook turned them into data, beside what ours makes of them: tokens and masks must be
 * the same, numbers equal to 1e-6.
 */
import { Trajectory } from "@effect-tinker/cookbook"
import { Either, Schema } from "effect"

const Numbers = Schema.Array(Schema.Number)

const Turn = Schema.Struct({
  prompt: Numbers,
  tokens: Numbers,
  logprobs: Numbers,
  reward: Schema.Number,
  masked: Schema.Boolean
})

const Batch = Schema.Struct({
  groups: Schema.Array(Schema.Struct({
    trajectories: Schema.Array(Schema.Struct({ turns: Schema.Array(Turn) })),
    groupRewards: Numbers
  })),
  kept: Schema.Array(Schema.Boolean),
  advantages: Schema.Array(Numbers),
  rows: Schema.Array(Schema.Struct({
    inputs: Numbers,
    targets: Numbers,
    logprobs: Numbers,
    advantages: Numbers,
    mask: Numbers
  })),
  origins: Schema.Array(Numbers),
  training: Schema.optional(Schema.Array(Numbers)),
  klSampleTrain: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
  post: Schema.optional(Schema.Array(Numbers)),
  postKl: Schema.optional(Schema.Record({ key: Schema.String, value: Schema.Number })),
  penalty: Schema.optional(Schema.Struct({
    coefficient: Schema.Number,
    discount: Schema.Number,
    reference: Schema.Array(Numbers),
    kl: Schema.Number,
    advantages: Schema.Array(Numbers)
  }))
})

type Batch = typeof Batch.Type

/** What `cookbook_vectors.py` writes. */
export const Vectors = Schema.parseJson(Schema.Array(Batch))

const groupsOf = (batch: Batch): ReadonlyArray<Trajectory.Group> =>
  batch.groups.map(({ groupRewards, trajectories }) => ({
    groupRewards,
    tags: [],
    errors: [],
    trajectories: trajectories.map(({ turns }) => ({
      stop: "completed",
      reward: 0,
      metrics: {},
      turns: turns.map(({ logprobs, masked, prompt, reward, tokens }) => ({
        prompt: Int32Array.from(prompt),
        action: {
          tokens: Int32Array.from(tokens),
          logprobs: Float32Array.from(logprobs),
          stopReason: "stop",
          policyVersion: 0
        },
        reward,
        masked,
        metrics: {}
      }))
    }))
  }))

const near = (a: number, b: number) => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b))

/** How many trajectories were compared, and where they differ. */
export const compare = (
  batches: ReadonlyArray<Batch>
): { readonly trajectories: number; readonly rows: number; readonly differences: ReadonlyArray<string> } => {
  const differences: Array<string> = []
  let trajectories = 0
  let count = 0
  batches.forEach((batch, n) => {
    const differ = (what: string, detail: string) => differences.push(`${what}: batch ${n}: ${detail}`)
    const exact = (what: string, ours: ArrayLike<number>, theirs: ReadonlyArray<number>) => {
      if (ours.length !== theirs.length || theirs.some((value, i) => ours[i] !== value)) {
        differ(what, `${Array.from(ours).join(" ")} instead of ${theirs.join(" ")}`)
      }
    }
    const close = (what: string, ours: ArrayLike<number>, theirs: ReadonlyArray<number>) => {
      const at = theirs.findIndex((value, i) => !near(ours[i] ?? NaN, value))
      if (ours.length !== theirs.length || at >= 0) differ(what, `at ${at}: ${ours[at]} instead of ${theirs[at]}`)
    }
    const groups = groupsOf(batch)
    trajectories += groups.reduce((sum, group) => sum + group.trajectories.length, 0)
    const kept = Trajectory.withoutConstant(groups)
    exact("kept groups", groups.map((group) => Number(kept.includes(group))), batch.kept.map(Number))
    groups.forEach((group, g) =>
      close("advantages", Trajectory.center(Trajectory.rewardsOf(group)), batch.advantages[g] ?? [])
    )
    const assembled = Trajectory.assemble(groups)
    const rows = assembled.map(({ row }) => row)
    count += rows.length
    exact("rows", [rows.length], [batch.rows.length])
    exact("origins", assembled.flatMap(({ group, trajectory }) => [group, trajectory]), batch.origins.flat())
    batch.rows.forEach((theirs, r) => {
      const ours = rows[r]
      if (ours === undefined) return
      exact("inputs", ours.inputs, theirs.inputs)
      exact("targets", ours.targets, theirs.targets)
      exact("mask", ours.mask, theirs.mask)
      close("logprobs", ours.logprobs, theirs.logprobs)
      close("row advantages", ours.advantages, theirs.advantages)
      const datum = Trajectory.toDatum(ours)
      if (Either.isLeft(datum)) differ("datum", datum.left.message)
    })
    const { klSampleTrain, penalty, post, postKl, training } = batch
    if (training !== undefined && klSampleTrain !== undefined) {
      const { entropy, v1, v2 } = Trajectory.divergence(rows, training)
      close("sample/train KL", [v1, v2, entropy], [
        klSampleTrain["optim/kl_sample_train_v1"] ?? NaN,
        klSampleTrain["optim/kl_sample_train_v2"] ?? NaN,
        klSampleTrain["optim/entropy"] ?? NaN
      ])
    }
    if (post !== undefined && postKl !== undefined) {
      const { v1, v2 } = Trajectory.divergence(rows, post)
      close("post KL", [v1, v2], [postKl["kl_pre_post_v1"] ?? NaN, postKl["kl_pre_post_v2"] ?? NaN])
    }
    if (penalty !== undefined) {
      const ours = Trajectory.penalize(rows, penalty.reference, penalty)
      close("KL penalty", [ours.kl], [penalty.kl])
      penalty.advantages.forEach((theirs, r) => close("penalized advantages", ours.rows[r]?.advantages ?? [], theirs))
    }
  })
  return { trajectories, rows: count, differences }
}
