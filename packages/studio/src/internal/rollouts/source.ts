/**
 * A format in which rollouts are kept.
 */
import type * as Tokenizer from "@effect-tinker/tokenizer/Tokenizer"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Rollout, Rollouts } from "../../Rollouts.js"

/** @internal */
export interface Source extends Omit<Rollouts, "read"> {
  /** One rollout; none where there is none of that place. */
  readonly read: (
    step: number,
    split: string,
    index: number,
    tokenizer: Option.Option<Tokenizer.Tokenizer>
  ) => Effect.Effect<Option.Option<Rollout>, PlatformError.PlatformError, FileSystem.FileSystem>
}
