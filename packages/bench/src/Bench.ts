/**
 * How things are measured: all variants of a bench run in turns within one process, so that what else the machine does
 * falls on all of them alike. Work is timed by the CPU it takes, which a busy machine disturbs least, and only ratios
 * are concluded from.
 */
import type { CommandExecutor, FileSystem, Path } from "@effect/platform"
import type { Scope } from "effect"
import { Data, Effect } from "effect"

/** A bench could not run, in a sentence. */
export class BenchFailed extends Data.TaggedError("BenchFailed")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

/** Whether only to show that a bench runs: its figures mean nothing then. */
export const isSmoke = process.argv.includes("--smoke")

/** How much of something, and how little of it shows that a bench runs. */
export const sized = <A>(full: A, smoke: A): A => isSmoke ? smoke : full

/** Rows for people, ratios for machines: the cost of another way relative to ours, so more is better. */
export interface Report {
  readonly table: ReadonlyArray<ReadonlyArray<string>>
  readonly ratios: Readonly<Record<string, number>>
  /** What to know about the figures, one sentence each. */
  readonly notes: ReadonlyArray<string>
}

export interface Bench {
  /** What is measured, in a line. */
  readonly summary: string
  readonly run: Effect.Effect<
    Report,
    BenchFailed,
    Scope.Scope | FileSystem.FileSystem | Path.Path | CommandExecutor.CommandExecutor
  >
}

/** One way to do the work. `once` does it and gives the milliseconds it took. */
export interface Variant<out E = never> {
  readonly name: string
  readonly once: Effect.Effect<number, E>
}

/** What came of a variant: milliseconds, and the cost relative to the first variant, as medians over the rounds. */
export interface Result {
  readonly ms: number
  readonly relative: number
}

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1000
}

/** Runs in a row, the best of which counts: the first one pays for the garbage of whoever ran before. */
const ATTEMPTS = sized(3, 1)

/**
 * Work that is done when the function returns, `times` in a row where once is too short to time. What it returns is
 * kept until then, so that it cannot be left out.
 */
export const sync = (name: string, work: () => unknown, times = 1): Variant => {
  let kept: unknown
  const attempt = (): number => {
    kept = undefined
    const start = cpu()
    for (let i = 0; i < times; i++) kept = work()
    return (cpu() - start) / times
  }
  return {
    name,
    once: Effect.suspend(() => {
      let best = Infinity
      for (let i = 0; i < ATTEMPTS; i++) best = Math.min(best, attempt())
      return kept === undefined ? Effect.dieMessage(`${name} gave nothing`) : Effect.succeed(best)
    })
  }
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? NaN)) / 2
}

/** Each variant by name, run in turns, the order reversed every other round. */
export const interleaved = Effect.fnUntraced(function*<E>(
  variants: ReadonlyArray<Variant<E>>,
  options: { readonly rounds: number; readonly warmup: number }
) {
  const times = variants.map((): Array<number> => [])
  const rounds = sized(options.rounds, 1)
  for (let round = -sized(options.warmup, 0); round < rounds; round++) {
    const order = variants.map((variant, i) => [variant, i] as const)
    for (const [variant, i] of round % 2 === 0 ? order : order.reverse()) {
      const took = yield* variant.once
      if (round >= 0) times[i]?.push(took)
    }
  }
  const base = times[0] ?? []
  return new Map(variants.map(({ name }, i): [string, Result] => {
    const own = times[i] ?? []
    return [name, { ms: median(own), relative: median(own.map((ms, round) => ms / (base[round] ?? NaN))) }]
  }))
})

/** Columns as wide as their widest cell; all but the first to the right. */
export const render = (table: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths: Array<number> = []
  for (const row of table) row.forEach((cell, i) => widths[i] = Math.max(widths[i] ?? 0, cell.length))
  return table.map((row) =>
    row.map((cell, i) => i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)).join("  ").trimEnd()
  ).join("\n")
}

/** Two decimals, as ratios are read. */
export const round = (ratio: number): number => Math.round(ratio * 100) / 100
