/**
 * Rollouts of a run, from step to group to rollout to token.
 *
 * Rollouts are large and there are many of them, so what is kept in memory is an index: where each one lies in its file,
 * and its reward. A rollout is read in full when it is opened. Of several attempts at a step the last one counts.
 *
 * All text in here was written by a model, by tools, or by the author of the data: it is shown as text and never
 * interpreted.
 *
 * @since 0.1.0
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { journal as journalSource } from "./internal/rollouts/journal.js"
import { python as pythonSource } from "./internal/rollouts/python.js"
import type { Source } from "./internal/rollouts/source.js"

/**
 * The rollouts of a step in a line.
 *
 * @since 0.1.0
 * @category models
 */
export interface StepSummary {
  readonly step: number
  /** `train`, or the name of an evaluation. */
  readonly split: string
  /** `null` where the file has not been read yet. */
  readonly count: number | null
  readonly mean: number | null
}

/**
 * A rollout in a line.
 *
 * @since 0.1.0
 * @category models
 */
export interface Head {
  /** Its place among the rollouts of the step. */
  readonly index: number
  readonly group: number
  readonly member: number
  readonly reward: number | null
  readonly stop: string | null
  readonly tags: ReadonlyArray<string>
}

/**
 * A message as it is shown.
 *
 * @since 0.1.0
 * @category models
 */
export interface Message {
  readonly role: string
  readonly text: string
  readonly reasoning: string
  readonly toolCalls: ReadonlyArray<{ readonly name: string; readonly arguments: string }>
}

/**
 * The tokens of a turn: first those that the model was given since the last turn, then those it sampled.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tokens {
  readonly ids: ReadonlyArray<number>
  /** Text of each token; `null` without a tokenizer, empty for a token that ends inside a character. */
  readonly texts: ReadonlyArray<string> | null
  /** How many of them were given. */
  readonly given: number
  /** One for each sampled token. */
  readonly logprobs: ReadonlyArray<number | null>
  /** Tokens of the prompt before the first one here. */
  readonly offset: number
  /** Tokens that are left out at the start because there are too many to show. */
  readonly omitted: number
}

/**
 * A turn: what the model saw, what it said, and what came of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Turn {
  readonly before: ReadonlyArray<Message>
  readonly message: Message | null
  readonly tokens: Tokens | null
  readonly promptTokens: number
  readonly sampledTokens: number
  readonly reward: number | null
  /** Its tokens are not trained on. */
  readonly masked: boolean
  readonly policyVersion: number | null
  /** Why its prompt does not continue the tokens of the turn before: it is trained as a separate row. */
  readonly fork: { readonly reason: string; readonly description: string } | null
  readonly metrics: ReadonlyArray<readonly [string, number]>
  readonly logs: ReadonlyArray<readonly [string, string]>
}

/**
 * A rollout, the same for both kinds of run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rollout extends Head {
  readonly step: number
  readonly split: string
  /** How much better than its group it did, as the run computes it; `null` where the run uses another rule. */
  readonly advantage: number | null
  readonly turns: ReadonlyArray<Turn>
  readonly metrics: ReadonlyArray<readonly [string, number]>
}

/**
 * A rollout with a text that was searched for.
 *
 * @since 0.1.0
 * @category models
 */
export interface Match {
  readonly step: number
  readonly split: string
  readonly head: Head
  /** The text around it. */
  readonly excerpt: string
}

/**
 * Result of a search, and whether it looked at everything.
 *
 * @since 0.1.0
 * @category models
 */
export interface Found {
  readonly matches: ReadonlyArray<Match>
  readonly searched: number
  readonly complete: boolean
}

/**
 * There is no such rollout.
 *
 * @since 0.1.0
 * @category errors
 */
export class RolloutNotFound
  extends Schema.TaggedError<RolloutNotFound>("@effect-tinker/studio/Rollouts/RolloutNotFound")("RolloutNotFound", {
    step: Schema.Number,
    index: Schema.Number
  })
{
  override get message(): string {
    return `step ${this.step} has no rollout ${this.index}`
  }
}

type Failure = RolloutNotFound | PlatformError.PlatformError

/**
 * The rollouts of a run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Rollouts {
  /** Indexes what was appended, and yields whether there was anything. */
  readonly refresh: Effect.Effect<boolean, PlatformError.PlatformError, FileSystem.FileSystem>
  readonly steps: () => ReadonlyArray<StepSummary>
  /** How many lines could not be read. */
  readonly unreadable: () => number
  readonly list: (
    step: number,
    split: string
  ) => Effect.Effect<ReadonlyArray<Head>, PlatformError.PlatformError, FileSystem.FileSystem>
  /** One rollout; with a tokenizer, with what its tokens say. */
  readonly read: (
    step: number,
    split: string,
    index: number,
    tokenizer: Option.Option<Tokenizer.Tokenizer>
  ) => Effect.Effect<Rollout, Failure, FileSystem.FileSystem>
  /** Rollouts whose messages contain a text, whatever its case; the latest steps first. */
  readonly search: (
    text: string,
    limit: number
  ) => Effect.Effect<Found, PlatformError.PlatformError, FileSystem.FileSystem>
}

const fromSource = (source: Source): Rollouts => ({
  ...source,
  read: (step, split, index, tokenizer) =>
    Effect.flatMap(
      source.read(step, split, index, tokenizer),
      Option.match({ onNone: () => new RolloutNotFound({ step, index }), onSome: Effect.succeed })
    )
})

/**
 * The rollouts that `RunLog` records.
 *
 * @since 0.1.0
 * @category constructors
 */
export const journal = (
  path: string,
  run: () => { readonly config: unknown; readonly model: string }
): Rollouts => fromSource(journalSource(path, run))

/**
 * The rollouts that the Python cookbook exports, one file for each step and split. It records no tokens; where it wrote a
 * log tree beside them and every rollout of the file has its conversation in it, messages come from there.
 *
 * @since 0.1.0
 * @category constructors
 */
export const python = (directory: string): Rollouts => fromSource(pythonSource(directory))
