/**
 * How the calls of each rollout came about, counted while they are answered. It is bounded: a gateway may run for months.
 */
import type * as AgentModel from "../AgentModel.js"
import type * as Gateway from "../Gateway.js"

/** Rollouts that are counted at once; a further one ends the report of the oldest. */
const maxRollouts = 10_000

/** Rollouts that are reported one by one at the end; the others are one report. */
const maxRest = 20

interface Count {
  calls: number
  continued: number
  readonly forked: Map<string, { count: number; readonly first: string }>
}

const reportOf = (rollout: string, { calls, continued, forked }: Count): Gateway.Report => ({
  rollout,
  rollouts: 1,
  calls,
  continued,
  forked: Array.from(forked, ([reason, { count, first }]) => ({ reason, count, first }))
})

const forksOf = ({ forked }: Gateway.Report) => forked.reduce((sum, { count }) => sum + count, 0)

const sumOf = (reports: ReadonlyArray<Gateway.Report>): Gateway.Report => {
  const sum: Count = { calls: 0, continued: 0, forked: new Map() }
  for (const { calls, continued, forked } of reports) {
    sum.calls += calls
    sum.continued += continued
    for (const { count, first, reason } of forked) {
      const known = sum.forked.get(reason)
      if (known === undefined) sum.forked.set(reason, { count, first })
      else known.count += count
    }
  }
  return { ...reportOf("", sum), rollout: undefined, rollouts: reports.length }
}

/** @internal */
export const make = (limit = maxRollouts) => {
  const counts = new Map<string, Count>()
  const take = (rollout: string): Gateway.Report | undefined => {
    const count = counts.get(rollout)
    counts.delete(rollout)
    return count === undefined ? undefined : reportOf(rollout, count)
  }
  return {
    /** Counts an answer; the report of another rollout when there is no room for both. */
    add: ({ origin, rollout }: Pick<AgentModel.Reply, "origin" | "rollout">): Gateway.Report | undefined => {
      const known = counts.get(rollout)
      const count = known ?? { calls: 0, continued: 0, forked: new Map() }
      count.calls++
      if (origin._tag === "Continued") count.continued++
      if (origin._tag === "Forked") {
        const { description, reason } = origin.fork
        const fork = count.forked.get(reason)
        if (fork === undefined) count.forked.set(reason, { count: 1, first: description })
        else fork.count++
      }
      counts.set(rollout, count)
      const [oldest] = counts.keys()
      return counts.size > limit && oldest !== undefined ? take(oldest) : undefined
    },
    /** The report of a rollout that has ended, if it was not given out. */
    take,
    /** Rollouts not yet reported: those that forked most first, and a sum where they are too many. */
    rest: (): ReadonlyArray<Gateway.Report> => {
      const reports = Array.from(counts.keys()).flatMap((rollout) => take(rollout) ?? [])
      if (reports.length <= maxRest) return reports
      const sorted = reports.sort((left, right) => forksOf(right) - forksOf(left))
      return [...sorted.slice(0, maxRest), sumOf(sorted.slice(maxRest))]
    }
  }
}
