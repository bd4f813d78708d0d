/**
 * The harness and the judges of a vitest-evals suite as an agent's run and score: what you test with is what you train with.
 *
 * vitest-evals needs Vitest, and training does not. So the suite's inputs, harness and judges move to a module that both the
 * suite and the agent import; `vitest-evals/harness` and `vitest-evals/judges` work without Vitest.
 *
 * @since 0.1.0
 */
import type { JsonValue, NormalizedSession, ToolCall } from "@vitest-evals/core"
import { toolCalls } from "@vitest-evals/core"
import type * as Agent from "./Agent.js"

/**
 * Report of a harness: a `HarnessRun` of vitest-evals.
 *
 * @since 0.1.0
 * @category models
 */
export interface AnyRun {
  readonly output?: JsonValue | undefined
  readonly session: NormalizedSession
}

/**
 * A harness of vitest-evals: it runs the system under test.
 *
 * @since 0.1.0
 * @category models
 */
export interface Harness<in Input, out Run extends AnyRun = AnyRun> {
  readonly name: string
  readonly run: (
    input: Input,
    context: {
      signal?: AbortSignal
      artifacts: Record<string, JsonValue>
      setArtifact: (name: string, value: JsonValue) => void
    }
  ) => Promise<Run>
}

/**
 * Input of a judge.
 *
 * @since 0.1.0
 * @category models
 */
export interface JudgeContext<in out Input, out Run extends AnyRun = AnyRun> {
  input: Input
  output: Run["output"]
  toolCalls: Array<ToolCall>
  run: Run
  session: NormalizedSession
  harness: Harness<Input, Run>
}

/**
 * A judge of vitest-evals. One that asks a model must have a `judgeHarness` itself.
 *
 * @since 0.1.0
 * @category models
 */
export interface Judge<in Context> {
  readonly name: string
  readonly assess: (
    context: Context
  ) => PromiseLike<{ readonly score: number | null }> | { readonly score: number | null }
}

/**
 * A run with the harness it is from.
 *
 * @since 0.1.0
 * @category models
 */
export interface Judged<in Input, out Run extends AnyRun> {
  readonly harness: Harness<Input, Run>
  readonly run: Run
}

/**
 * `run` and `score` of an agent, for `AiSdk.agent`, `NodeGateway.agent` or `Agent.make`. The reward is the mean of the judges'
 * scores; each of them is also a metric, `judge/NAME`. A judge that gives `null` is left out; the reports of vitest-evals
 * count it as 0.
 *
 * @example
 * ```ts
 * import * as AiSdk from "@effect-tinker/agents/AiSdk"
 * import * as VitestEvals from "@effect-tinker/agents/VitestEvals"
 * import type { LanguageModel } from "ai"
 *
 * // what the suite imports too, for its `describeEval`
 * declare const inputs: ReadonlyArray<string>
 * declare const harness: (model: LanguageModel) => VitestEvals.Harness<string>
 * declare const judges: ReadonlyArray<VitestEvals.Judge<VitestEvals.JudgeContext<string>>>
 *
 * export default AiSdk.agent({
 *   tasks: inputs,
 *   ...VitestEvals.suite({ harness: ({ model }: AiSdk.RunContext) => harness(model), judges })
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const suite = <Input, Run extends AnyRun, Context extends { readonly signal: AbortSignal }>(options: {
  /** The harness over the model of a run. */
  readonly harness: (context: Context) => Harness<Input, Run>
  readonly judges: ReadonlyArray<Judge<JudgeContext<Input, Run>>>
}): {
  readonly run: (input: Input, context: Context) => Promise<Judged<Input, Run>>
  readonly score: (input: Input, judged: Judged<Input, Run>) => Promise<Agent.Score>
} => ({
  run: async (input, context) => {
    const harness = options.harness(context)
    const artifacts: Record<string, JsonValue> = {}
    const run = await harness.run(input, {
      signal: context.signal,
      artifacts,
      setArtifact: (name, value) => {
        artifacts[name] = value
      }
    })
    return { harness, run }
  },
  score: async (input, { harness, run }) => {
    const { output, session } = run
    const context = { input, output, toolCalls: toolCalls(session), run, session, harness }
    const results = await Promise.all(options.judges.map(async (judge) => {
      const { score } = await judge.assess(context)
      return { name: `judge/${judge.name}`, score }
    }))
    const scored = results.flatMap(({ name, score }) => score === null ? [] : [[name, score] as const])
    return {
      score: scored.length === 0 ? null : scored.reduce((sum, [, score]) => sum + score, 0) / scored.length,
      metrics: Object.fromEntries(scored)
    }
  }
})
