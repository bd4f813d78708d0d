/**
 * A format in which runs are kept: which files are followed, and what their lines mean.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as CostLedger from "effect-tinker/CostLedger"
import type * as Effect from "effect/Effect"
import type { Rollouts } from "../../Rollouts.js"
import type { Summary } from "../../RunDirectory.js"
import type { Table } from "../../Series.js"
import type { State } from "./state.js"

/** Where the lines of a run go. @internal */
export interface Reader {
  readonly path: string
  readonly state: State
  readonly table: Table
  readonly price: CostLedger.Price | undefined
  readonly join: (...parts: ReadonlyArray<string>) => string
}

/** @internal */
export interface Followed {
  readonly file: string
  /** The file was replaced: what it said before no longer counts. */
  readonly restarted: () => void
  readonly apply: (line: unknown) => void
}

/** @internal */
export interface Format {
  readonly name: Summary["format"]
  /** Number of its first step. */
  readonly firstStep: 0 | 1
  readonly follow: (reader: Reader) => ReadonlyArray<Followed>
  /** Reads the files beside the lines; `changed` when there were new ones. */
  readonly beside: (reader: Reader, changed: boolean) => Effect.Effect<void, never, FileSystem.FileSystem>
  /** Whether its process has ended without a word. */
  readonly isGone: (reader: Reader) => Effect.Effect<boolean, never, FileSystem.FileSystem>
  /** Whether a run that does not say so is at its end. */
  readonly isComplete: (reader: Reader) => boolean
  readonly rollouts: (reader: Reader) => Rollouts
}
