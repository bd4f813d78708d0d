/**
 * A comparison with the official Python SDK: one module in `suites/`, one flag of `npm run parity`.
 */
import type { NodeContext } from "@effect/platform-node"
import { Data } from "effect"
import type { Effect } from "effect"

export interface Suite {
  /** The flag that runs it alone: `--NAME`. */
  readonly name: string
  /** What it compares, in one line. */
  readonly summary: string
  /** Runs it with the arguments that are not flags of suites. */
  readonly run: (
    args: ReadonlyArray<string>
  ) => Effect.Effect<void, Differs | PythonFailed | PythonMissing, NodeContext.NodeContext>
}

/** The two sides differ. */
export class Differs extends Data.TaggedError("Differs")<{
  readonly suite: string
  readonly differences: ReadonlyArray<string>
}> {
  override get message(): string {
    // a few of each kind: one cause often shows in hundreds of places
    const kinds = new Map<string, number>()
    const shown = this.differences.filter((difference) => {
      const kind = difference.slice(0, difference.indexOf(":"))
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      return (kinds.get(kind) ?? 0) <= 8
    })
    const rest = this.differences.length - shown.length
    return [
      `${this.suite}: ${this.differences.length} difference(s)`,
      ...shown,
      ...(rest > 0 ? [`… and ${rest} more of the same kinds`] : [])
    ].join("\n  ")
  }
}

/** Nothing was compared: there is no Python, or no way to install the official SDK. */
export class PythonMissing extends Data.TaggedError("PythonMissing")<{ readonly reason: string }> {
  override get message(): string {
    return `the official SDK is not available here: ${this.reason}`
  }
}

/** A program of the Python side failed. */
export class PythonFailed extends Data.TaggedError("PythonFailed")<{
  readonly program: string
  readonly reason: string
}> {
  override get message(): string {
    return `${this.program} failed: ${this.reason}`
  }
}

/** How the process ends. */
export const exitCode = { same: 0, differs: 1, usage: 2, pythonMissing: 3 } as const
