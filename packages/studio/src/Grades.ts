/**
 * Grades that runs wait for a person to give. The studio shows what waits and hands over what the person decides; how a
 * run asks and how it learns of a grade is up to the implementation.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * An answer of a model that a person is to grade.
 *
 * @since 0.1.0
 * @category models
 */
export interface Question {
  readonly key: string
  readonly question: string
  readonly answer: string
  /** Milliseconds since 1970 at which it was first asked. */
  readonly time: number
}

/**
 * A question and the run that asks it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Waiting extends Question {
  readonly run: string
}

/**
 * A grade that a person gives.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Grade extends Schema.Class<Grade>("@effect-tinker/studio/Grades/Grade")({
  run: Schema.NonEmptyString.pipe(Schema.maxLength(4096)),
  key: Schema.NonEmptyString.pipe(Schema.maxLength(256)),
  grade: Schema.Finite
}) {}

/**
 * The grade was not taken: nothing waits under this key any more, or it cannot be stored.
 *
 * @since 0.1.0
 * @category errors
 */
export class GradeRefused extends Schema.TaggedError<GradeRefused>("@effect-tinker/studio/Grades/GradeRefused")(
  "GradeRefused",
  { key: Schema.String, description: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

/**
 * Finds questions and takes grades, by the directory of a run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** Grades a run waits for, oldest first. */
  readonly waiting: (directory: string) => Effect.Effect<ReadonlyArray<Question>>
  /** Grades an answer. A second grade replaces the first until the run has used it. */
  readonly give: (directory: string, key: string, grade: number) => Effect.Effect<void, GradeRefused>
}

/**
 * Where grades go. Without it the studio has no page for them.
 *
 * @since 0.1.0
 * @category services
 */
export class Grades extends Context.Tag("@effect-tinker/studio/Grades")<Grades, Service>() {}
