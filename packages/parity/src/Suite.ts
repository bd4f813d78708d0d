/**
 * A comparison with the official Python SDK: one module in `suites/`, one flag of `npm run parity`.
 */
import type { NodeContext } from "@effect/platform-node"
import { Context, Data, Effect } from "effect"

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

/**
 * What the suite that runs has been held against, with its version: the names that {@link against} was called with.
 */
export class Against extends Context.Reference<Against>()("@effect-tinker/parity/Against", {
  defaultValue: (): Set<string> => new Set()
}) {}

/** Notes what the running suite is held against, for the summary. */
export const against = (...versions: ReadonlyArray<string>): Effect.Effect<void> =>
  Effect.map(Against, (names) => {
    for (const version of versions) names.add(version)
  })

/** What came of a suite. */
export interface Outcome {
  readonly suite: Suite
  readonly against: ReadonlyArray<string>
  /** `undefined` where nothing differs. */
  readonly error: Differs | PythonFailed | PythonMissing | undefined
}

/** Runs a suite to its end, whatever that is. */
export const outcome = (
  suite: Suite,
  args: ReadonlyArray<string>
): Effect.Effect<Outcome, never, NodeContext.NodeContext> =>
  Effect.suspend(() => {
    const names = new Set<string>()
    return Effect.matchEffect(Effect.provideService(suite.run(args), Against, names), {
      onFailure: (error) => Effect.succeed<Outcome>({ suite, against: [...names], error }),
      onSuccess: () => Effect.succeed<Outcome>({ suite, against: [...names], error: undefined })
    })
  })

const resultOf = ({ error }: Outcome): string => {
  switch (error?._tag) {
    case undefined:
      return "same"
    case "Differs":
      return `${error.differences.length} different`
    case "PythonFailed":
      return `${error.program} failed`
    case "PythonMissing":
      return "not compared"
  }
}

/** One line for each suite: what was compared, with which version, with what result. */
export const summarize = (outcomes: ReadonlyArray<Outcome>): string => {
  const rows = [
    ["suite", "result", "against", "what was compared"],
    ...outcomes.map((one) => [
      one.suite.name,
      resultOf(one),
      one.against.length === 0 ? "ours alone" : one.against.join(", "),
      one.suite.summary
    ])
  ]
  const widths = [0, 1, 2].map((i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)))
  return rows.map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd()).join("\n")
}

/** Differences weigh more than suites that could not run. */
export const exitCodeOf = (outcomes: ReadonlyArray<Outcome>): number => {
  const tags = outcomes.map(({ error }) => error?._tag)
  if (tags.includes("Differs") || tags.includes("PythonFailed")) return exitCode.differs
  return tags.includes("PythonMissing") ? exitCode.pythonMissing : exitCode.same
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
