/**
 * Scorers of the shape `({ input, output, expected }) => { score }` with a score of 0 to 1, such as those of `autoevals`:
 * untouched, as rewards to train on and as measures to evaluate by.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Dataset from "./Dataset.js"
import * as Environment from "./Environment.js"

/**
 * Result of a scorer. A score of `null` is no opinion.
 *
 * @since 0.1.0
 * @category models
 */
export interface Score {
  readonly name: string
  readonly score: number | null
  readonly error?: unknown
}

/**
 * Scores an answer. It may be a plain function or a Promise, and may have a name.
 *
 * @since 0.1.0
 * @category models
 */
export type Scorer<Args> = (args: Args) => Score | Promise<Score>

/**
 * A scorer threw, or says that it failed.
 *
 * @since 0.1.0
 * @category errors
 */
export class ScorerFailed extends Schema.TaggedError<ScorerFailed>("@effect-tinker/cookbook/Scorer/ScorerFailed")(
  "ScorerFailed",
  { scorer: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return `${this.scorer}: ${this.description}`
  }
}

const describe = (error: unknown) => error instanceof Error ? error.message : String(error)

/**
 * Result of a scorer, with its failures as failures.
 *
 * @since 0.1.0
 * @category combinators
 */
export const score = <Args>(scorer: Scorer<Args>, args: Args): Effect.Effect<Score, ScorerFailed> =>
  Effect.tryPromise({
    try: async () => scorer(args),
    catch: (error) => new ScorerFailed({ scorer: scorer.name || "scorer", description: describe(error) })
  }).pipe(
    Effect.filterOrFail(
      ({ error }) => error === undefined || error === null,
      ({ error, name }) => new ScorerFailed({ scorer: name, description: describe(error) })
    )
  )

/**
 * A scorer as a reward, for `Environment.problem` and `Environment.problems`: no opinion is worth nothing.
 *
 * @example
 * ```ts
 * import { Environment, Scorer } from "@effect-tinker/cookbook"
 *
 * // any scorer of `autoevals` fits here
 * const exact = ({ expected, output }: { readonly expected: string; readonly output: string }) => ({
 *   name: "exact",
 *   score: output === expected ? 1 : 0
 * })
 *
 * const capitals = Environment.problems([{ land: "Norway", city: "Oslo" }], {
 *   question: ({ land }) => `What is the capital of ${land}?`,
 *   reward: Scorer.reward(exact, ({ city }, output) => ({ output, expected: city }))
 * })
 * ```
 *
 * @since 0.1.0
 * @category combinators
 */
export const reward = <Row, Args>(
  scorer: Scorer<Args>,
  args: (row: Row, output: string) => Args
): (row: Row, output: string) => Effect.Effect<number, ScorerFailed> =>
(row, output) => Effect.map(score(scorer, args(row, output)), (given) => given.score ?? 0)

/**
 * Questions judged by several scorers: the reward is the mean of their scores, and each is a metric by its name. For
 * training as for `Evaluator.rollouts`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const problems = <A, Args, ED = never, RD = never>(
  rows: Dataset.Dataset<A, ED, RD> | Iterable<A>,
  options: {
    readonly question: (row: A) => string | ReadonlyArray<Message.Message>
    readonly scorers: ReadonlyArray<Scorer<Args>>
    readonly args: (row: A, output: string) => Args
    readonly tags?: ((row: A) => ReadonlyArray<string>) | undefined
  }
): Dataset.Dataset<Environment.Group<ScorerFailed | RenderFailed | ChatTemplateFailed>, ED, RD> =>
  Dataset.map(Dataset.from(rows), (row) => {
    const question = options.question(row)
    const start = typeof question === "string" ? [Message.user(question)] : question
    return Environment.group((settings) =>
      Effect.succeed(Environment.messages({
        start,
        onMessage: (message) =>
          Effect.map(
            Effect.forEach(options.scorers, (scorer) => score(scorer, options.args(row, Message.text(message))), {
              concurrency: "unbounded"
            }),
            (scores) => {
              const opinions = scores.flatMap(({ name, score }) => score === null ? [] : [[name, score] as const])
              const total = opinions.reduce((sum, [, value]) => sum + value, 0)
              return Environment.done(opinions.length === 0 ? 0 : total / opinions.length, {
                metrics: Object.fromEntries(opinions)
              })
            }
          )
      }, settings)), { tags: options.tags?.(row), samePrompt: true })
  })
