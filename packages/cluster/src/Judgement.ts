/**
 * Rewards that people give. A rollout asks for a grade and waits; the question is put where `tinker runs grade` and other
 * programs find it. The run may be killed and started again any number of times before the grade arrives.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Encoding from "effect/Encoding"
import * as Layer from "effect/Layer"

/**
 * Content shown to the person who grades.
 *
 * @since 0.1.0
 * @category models
 */
export interface Ask {
  readonly question: string
  readonly answer: string
}

/**
 * Where grades come from. A durable run provides it to the environments of its trainer.
 *
 * @since 0.1.0
 * @category services
 */
export class Judgements extends Context.Tag("@effect-tinker/cluster/Judgement/Judgements")<Judgements, {
  readonly ask: (question: Ask) => Effect.Effect<number>
}>() {}

/**
 * A person's grade of an answer. The same question about the same answer is asked once in a run.
 *
 * @example
 * ```ts
 * import { Judgement } from "@effect-tinker/cluster"
 * import { Environment } from "@effect-tinker/cookbook"
 *
 * const joke = Environment.problem({
 *   question: "Tell me a joke.",
 *   check: (answer) => Judgement.ask({ question: "How funny is this, from 0 to 1?", answer })
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const ask = (question: Ask): Effect.Effect<number, never, Judgements> =>
  Effect.flatMap(Judgements, (judgements) => judgements.ask(question))

/**
 * Grades from a function, for tests and for evaluations without people.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (grade: (question: Ask) => Effect.Effect<number>): Layer.Layer<Judgements> =>
  Layer.succeed(Judgements, { ask: grade })

/** The key of a question: the same in every process that asks it. @internal */
export const keyOf = ({ answer, question }: Ask): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() =>
      globalThis.crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify([question, answer])))
    ),
    (digest) => Encoding.encodeBase64Url(new Uint8Array(digest)).slice(0, 22)
  )
