/**
 * Answers judged by a model: compared in pairs and ranked by a tournament, or graded by a question about them.
 *
 * A judge is read from its probabilities, not from a sample: of a few answers it may give, how likely it finds each.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as ModelInput from "effect-tinker/ModelInput"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Effect from "effect/Effect"
import * as Environment from "./Environment.js"
import * as Statistics from "./Statistics.js"
import type * as Trajectory from "./Trajectory.js"

/**
 * Two answers to one prompt.
 *
 * @since 0.1.0
 * @category models
 */
export interface Comparison {
  readonly prompt: ReadonlyArray<Message.Message>
  readonly a: string
  readonly b: string
}

/**
 * Says which of two answers is better: 1 when it is `a`, -1 when it is `b`, and anything between them.
 *
 * @since 0.1.0
 * @category models
 */
export type Judge<E = never, R = never> = (comparison: Comparison) => Effect.Effect<number, E, R>

/**
 * A model that is asked.
 *
 * @since 0.1.0
 * @category models
 */
export interface Model {
  readonly sampler: SamplingClient.Service
  readonly renderer: Renderer.Renderer
}

/**
 * How a model may fail to judge.
 *
 * @since 0.1.0
 * @category errors
 */
export type JudgeError = TinkerError.TinkerError | RenderFailed | ChatTemplateFailed

/**
 * How likely a model finds each of a few answers to a question, as shares of 1.
 *
 * @since 0.1.0
 * @category combinators
 */
export const probabilities = Effect.fnUntraced(function*(
  { renderer, sampler }: Model,
  question: ReadonlyArray<Message.Message>,
  answers: ReadonlyArray<string>
) {
  const prompt = yield* renderer.generationPrompt(question)
  const scores = yield* Effect.forEach(answers, (answer) => {
    const tokens = renderer.tokenizer.encode(answer, { addSpecialTokens: false, parseSpecial: "none" })
    return Effect.map(
      sampler.computeLogprobs(ModelInput.fromInts(Int32Array.from([...prompt, ...tokens])), { lastN: tokens.length }),
      (logprobs) => logprobs.subarray(-tokens.length).reduce((sum, logprob) => sum + logprob, 0)
    )
  }, { concurrency: "unbounded" })
  const highest = Math.max(...scores)
  const weights = scores.map((score) => Math.exp(score - highest))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
})

/**
 * A judge that is a model: `ask` writes the question for a comparison, and the answers it may give name the better one.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromModel = (model: Model, options: {
  readonly ask: (comparison: Comparison) => ReadonlyArray<Message.Message>
  /** Answer that means `a` is better. Defaults to `A`. */
  readonly a?: string | undefined
  /** Answer that means `b` is better. Defaults to `B`. */
  readonly b?: string | undefined
  /** Answer that means neither is. Defaults to nothing. */
  readonly tie?: string | undefined
}): Judge<JudgeError> =>
(comparison) =>
  Effect.map(
    probabilities(model, options.ask(comparison), [
      options.a ?? "A",
      options.b ?? "B",
      ...(options.tie === undefined ? [] : [options.tie])
    ]),
    ([a = 0, b = 0]) => a - b
  )

/**
 * The mean of a judge's verdicts on both orders, so that the place of an answer does not count.
 *
 * @since 0.1.0
 * @category combinators
 */
export const symmetric = <E, R>(judge: Judge<E, R>): Judge<E, R> => (comparison) =>
  Effect.zipWith(
    judge(comparison),
    judge({ ...comparison, a: comparison.b, b: comparison.a }),
    (forth, back) => (forth - back) / 2,
    { concurrent: true }
  )

/**
 * How a model grades an answer: the mean of the grades by how likely it finds each. For a rubric, add up several.
 *
 * @since 0.1.0
 * @category constructors
 */
export const grade = (
  model: Model,
  question: ReadonlyArray<Message.Message>,
  /** Score of each answer of the model, e.g. `{ Yes: 1, No: 0 }`. */
  grades: Readonly<Record<string, number>>
): Effect.Effect<number, JudgeError> =>
  Effect.map(
    probabilities(model, question, Object.keys(grades)),
    (shares) => Object.values(grades).reduce((sum, value, i) => sum + value * (shares[i] ?? 0), 0)
  )

/**
 * A comparison that a person has decided.
 *
 * @since 0.2.0
 * @category models
 */
export interface Decided extends Comparison {
  readonly preferred: "a" | "b" | "tie"
}

/**
 * Agreement of a judge with people beyond chance: Cohen's kappa over comparisons that people have decided.
 *
 * @since 0.2.0
 * @category combinators
 */
export const agreement = <E, R>(
  judge: Judge<E, R>,
  decided: ReadonlyArray<Decided>,
  options?: Statistics.Options & {
    /** Verdicts from `-tie` to `tie` are ties. Defaults to 0. */
    readonly tie?: number | undefined
    /** Comparisons at once. Defaults to 64. */
    readonly concurrency?: number | undefined
  }
): Effect.Effect<Statistics.Agreement, E, R> => {
  const tie = options?.tie ?? 0
  return Effect.map(
    Effect.forEach(
      decided,
      (comparison) =>
        Effect.map(judge(comparison), (verdict): Statistics.Graded<Decided["preferred"]> => ({
          first: comparison.preferred,
          second: verdict > tie ? "a" : verdict < -tie ? "b" : "tie"
        })),
      { concurrency: options?.concurrency ?? 64 }
    ),
    (pairs) => Statistics.agreement(pairs, options)
  )
}

/**
 * A tournament: every answer meets every other one, and is worth the mean of its verdicts, from -1 to 1.
 *
 * @since 0.1.0
 * @category combinators
 */
export const tournament = <E, R>(
  judge: Judge<E, R>,
  prompt: ReadonlyArray<Message.Message>,
  answers: ReadonlyArray<string>,
  options?: {
    /** Comparisons at once. Defaults to 64. */
    readonly concurrency?: number | undefined
  }
): Effect.Effect<ReadonlyArray<number>, E, R> => {
  const matches = answers.flatMap((a, i) => answers.slice(i + 1).map((b, n) => ({ a, b, i, j: i + 1 + n })))
  return Effect.map(
    Effect.forEach(matches, ({ a, b, i, j }) =>
      // Equal answers need no judge.
      Effect.map(a === b ? Effect.succeed(0) : judge({ prompt, a, b }), (verdict) => ({ i, j, verdict })), {
      concurrency: options?.concurrency ?? 64
    }),
    (verdicts) => {
      const totals = answers.map(() => 0)
      for (const { i, j, verdict } of verdicts) {
        totals[i] = (totals[i] ?? 0) + verdict
        totals[j] = (totals[j] ?? 0) - verdict
      }
      return totals.map((total) => answers.length < 2 ? 0 : total / (answers.length - 1))
    }
  )
}

const answerOf = ({ turns }: Trajectory.Trajectory): string => {
  const message = turns[turns.length - 1]?.message
  return message === undefined ? "" : Message.text(message)
}

/**
 * A question whose answers have no reward by themselves: those of a group are compared with each other by a tournament.
 *
 * @since 0.1.0
 * @category constructors
 */
export const problem = <E, R>(options: {
  readonly question: string | ReadonlyArray<Message.Message>
  readonly judge: Judge<E, R>
  /** A reward on top of the tournament's. Defaults to none. */
  readonly check?: ((answer: string) => number) | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}): Environment.Group<E | RenderFailed | ChatTemplateFailed, R> => {
  const question = typeof options.question === "string" ? [Message.user(options.question)] : options.question
  const one = Environment.problem<E, R>({
    question,
    check: (answer) => options.check?.(answer) ?? 0,
    tags: options.tags
  })
  return { ...one, compare: (trajectories) => tournament(options.judge, question, trajectories.map(answerOf)) }
}
