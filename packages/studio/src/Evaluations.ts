/**
 * Files of results that evaluations left, and two of them beside each other.
 *
 * @since 0.2.0
 */
import * as EvalResults from "@effect-tinker/cookbook/EvalResults"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/**
 * Which files to compare.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Request extends Schema.Class<Request>("@effect-tinker/studio/Evaluations/Request")({
  first: Schema.NonEmptyString.pipe(Schema.maxLength(4096)),
  second: Schema.NonEmptyString.pipe(Schema.maxLength(4096))
}) {}

/**
 * The files cannot be compared.
 *
 * @since 0.2.0
 * @category errors
 */
export class CompareFailed extends Schema.TaggedError<CompareFailed>("@effect-tinker/studio/Evaluations/CompareFailed")(
  "CompareFailed",
  { description: Schema.String }
) {
  override get message(): string {
    return this.description
  }
}

/**
 * A comparison as the page shows it: bounds that are not known are `null`, and of many changed examples there are the first.
 *
 * @since 0.2.0
 * @category models
 */
export interface Report extends Omit<EvalResults.Comparison, "difference"> {
  readonly difference: { readonly mean: number; readonly low: number | null; readonly high: number | null }
}

/**
 * Compares evaluations.
 *
 * @since 0.2.0
 * @category models
 */
export interface Service {
  readonly files: ReadonlyArray<string>
  /** Only the files above are ever opened. */
  readonly compare: (request: Request) => Effect.Effect<Report, CompareFailed>
}

/**
 * Where results of evaluations come from. Without it the studio has no page for them.
 *
 * @since 0.2.0
 * @category services
 */
export class Evaluations extends Context.Tag("@effect-tinker/studio/Evaluations")<Evaluations, Service>() {}

/** More changed examples than a person looks through, and characters of a text of them. */
const most = { examples: 500, text: 4000 }

const finite = (value: number): number | null => Number.isFinite(value) ? value : null

const cut = (text: string): string => text.length > most.text ? `${text.slice(0, most.text)}…` : text

const shown = (attempt: EvalResults.Attempt): EvalResults.Attempt => ({ ...attempt, answer: cut(attempt.answer) })

/**
 * Evaluations in these files.
 *
 * @since 0.2.0
 * @category layers
 */
export const layer = (files: ReadonlyArray<string>): Layer.Layer<Evaluations, never, FileSystem.FileSystem> =>
  Layer.effect(
    Evaluations,
    Effect.map(Effect.context<FileSystem.FileSystem>(), (context): Service => ({
      files,
      compare: ({ first, second }) =>
        Effect.gen(function*() {
          for (const file of [first, second]) {
            if (!files.includes(file)) {
              return yield* new CompareFailed({ description: `${file} was not given to the studio` })
            }
          }
          const found = EvalResults.compare(yield* EvalResults.read(first), yield* EvalResults.read(second))
          if (found.shared === 0) {
            return yield* new CompareFailed({ description: `${first} and ${second} have no examples in common` })
          }
          const { high, low, mean } = found.difference
          return {
            ...found,
            difference: { mean, low: finite(low), high: finite(high) },
            changed: found.changed.slice(0, most.examples).map((one) => ({
              id: one.id,
              input: cut(one.input),
              target: cut(one.target),
              first: shown(one.first),
              second: shown(one.second)
            }))
          }
        }).pipe(
          Effect.mapError((error) =>
            error._tag === "CompareFailed" ? error : new CompareFailed({ description: error.message })
          ),
          Effect.provide(context)
        )
    }))
  )
