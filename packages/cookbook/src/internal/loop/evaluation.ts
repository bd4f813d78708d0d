/**
 * Evaluations of a run: every evaluator in turn, with one sampler of the current weights that is made when it is needed.
 */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type * as Evaluator from "../../Evaluator.js"
import type * as RunEntry from "../../RunEntry.js"
import type * as RunLog from "../../RunLog.js"
import * as scoped from "../scoped.js"
import type * as Waits from "../waits.js"

/** @internal */
export interface Options<E, R> {
  readonly log: RunLog.RunLog
  readonly training: Waits.Watched
  readonly evaluators: ReadonlyArray<Evaluator.Evaluator<E, R>>
}

/** Measures the weights after so many steps, and records each result. @internal */
export const evaluate = <E, R>({ evaluators, log, training }: Options<E, R>, step: number) =>
  scoped.effect(Effect.gen(function*() {
    const results: Record<string, RunEntry.Metrics> = {}
    if (evaluators.length === 0) return results
    const scope = yield* Effect.scope
    const sampler = yield* Effect.cached(Scope.extend(training.saveWeightsAndGetSamplingClient(), scope))
    for (const { evaluate, name } of evaluators) {
      const metrics = yield* evaluate({ step, training, sampler })
      results[name] = metrics
      yield* log.append({ _tag: "Evaluation", step, name, metrics })
    }
    return results
  }))
