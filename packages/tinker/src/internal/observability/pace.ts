/**
 * How fast steps follow each other, and what that says of those to come.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"

/** Steps that rates are averaged over. */
const window = 20

/** @internal */
export interface Reading {
  readonly tokensPerSecond: number | undefined
  readonly stepTime: Duration.Duration | undefined
  readonly eta: Duration.Duration | undefined
  readonly sinceStep: Duration.Duration | undefined
}

/** @internal */
export interface Pace {
  /** A step has ended. */
  readonly mark: (mark: { readonly at: number; readonly step: number; readonly tokens?: number | undefined }) => void
  readonly read: (now: number, totalSteps: number | undefined) => Reading
}

/**
 * From the moment before a step on, where it is known.
 *
 * @internal
 */
export const make = (start?: { readonly at: number; readonly step: number }): Pace => {
  const marks: Array<{ readonly at: number; readonly step: number; readonly tokens: number }> = []
  if (start !== undefined) marks.push({ ...start, tokens: 0 })
  let stepped: number | undefined
  return {
    mark: ({ at, step, tokens = 0 }) => {
      stepped = at
      marks.push({ at, step, tokens })
      if (marks.length > window + 1) marks.shift()
    },
    read: (now, totalSteps) => {
      const [first, last] = [marks[0], marks[marks.length - 1]]
      const sinceStep = stepped === undefined ? undefined : Duration.millis(Math.max(0, now - stepped))
      if (first === undefined || last === undefined || last.step <= first.step || last.at <= first.at) {
        return { tokensPerSecond: undefined, stepTime: undefined, eta: undefined, sinceStep }
      }
      const span = last.at - first.at
      const tokens = marks.slice(1).reduce((sum, mark) => sum + mark.tokens, 0)
      const stepTime = span / (last.step - first.step)
      const steps = totalSteps === undefined ? undefined : Math.max(0, totalSteps - last.step)
      return {
        tokensPerSecond: tokens > 0 ? tokens / span * 1000 : undefined,
        stepTime: Duration.millis(stepTime),
        // The step under way has taken a part of its time, and of the next ones' nothing, however long it takes.
        eta: steps === undefined
          ? undefined
          : Duration.millis(steps * stepTime - Math.min(Math.max(0, now - last.at), steps === 0 ? 0 : stepTime)),
        sinceStep
      }
    }
  }
}
