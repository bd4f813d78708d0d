/**
 * Rewards of a step and of its groups.
 */
import * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import type { Head } from "../../Rollouts.js"

const advantages: Readonly<Record<string, Trajectory.Advantage>> = {
  center: Trajectory.center,
  standardize: Trajectory.standardize,
  leave_one_out: Trajectory.leaveOneOut
}

/** The advantage of a member by the rule of the run's configuration. @internal */
export const advantageOf = (rule: unknown, heads: ReadonlyArray<Head>, head: Head): number | null => {
  const compute = advantages[typeof rule === "string" ? rule : "center"]
  const group = heads.filter((other) => other.group === head.group)
  const rewards = group.map(({ reward }) => reward ?? NaN)
  if (compute === undefined || rewards.some(Number.isNaN)) return null
  return compute(rewards)[group.findIndex(({ index }) => index === head.index)] ?? null
}

/** @internal */
export const meanOf = (heads: ReadonlyArray<Head>): number | null => {
  const rewards = heads.flatMap(({ reward }) => reward === null || !Number.isFinite(reward) ? [] : [reward])
  return rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
}
