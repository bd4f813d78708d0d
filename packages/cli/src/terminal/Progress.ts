/**
 * Progress bars on stderr, shown only to a person at a terminal.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { Stdio } from "./Stdio.js"
import * as text from "./text.js"

/** @internal */
export const drawBar = (
  share: number,
  width: number,
  paint: { readonly full: (text: string) => string; readonly empty: (text: string) => string } = {
    full: (text) => text,
    empty: (text) => text
  }
): string => {
  const filled = Math.round(Math.min(1, Math.max(0, share)) * width)
  return paint.full("█".repeat(filled)) + paint.empty("░".repeat(width - filled))
}

/**
 * Progress of a command.
 *
 * @since 0.1.0
 * @category models
 */
export interface Progress {
  /** Draws the bar; a label given here takes the place of the one before. */
  readonly update: (done: number, total?: number | undefined, label?: string | undefined) => Effect.Effect<void>
  /** Removes the bar until the next update, to make room for a line. */
  readonly clear: Effect.Effect<void>
}

const interval = 100
const barWidth = 24

/** @internal */
export const render = (options: {
  readonly label: string
  readonly unit: "bytes" | "items"
  readonly done: number
  readonly total?: number | undefined
  readonly elapsed: number
  readonly columns: number
}): string => {
  const { done, elapsed, total } = options
  const amount = options.unit === "bytes" ? text.size : (n: number) => n.toLocaleString("en-US")
  const known = total !== undefined && total > 0
  const share = known ? Math.min(1, done / total) : 0
  const bar = known ? ` ${drawBar(share, barWidth)} ${Math.floor(share * 100)}%` : ""
  const position = known ? `${amount(done)}/${amount(total)}` : amount(done)
  const rate = elapsed > 500 && done > 0 ? done / (elapsed / 1000) : 0
  const speed = options.unit === "bytes" && rate > 0 ? `  ${text.size(Math.round(rate))}/s` : ""
  const left = known && rate > 0 && done < total ? `  ${text.duration(((total - done) / rate) * 1000)} left` : ""
  return text.truncate(`${options.label}${bar}  ${position}${speed}${left}`, options.columns - 1)
}

/**
 * A bar that is drawn in place and cleared at the end of the scope.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options: {
  readonly label: string
  readonly unit?: "bytes" | "items" | undefined
}) => Effect.Effect<Progress, never, Scope.Scope | Stdio> = Effect.fnUntraced(function*(options) {
  const { stderr } = yield* Stdio
  if (!stderr.isTTY) return { update: () => Effect.void, clear: Effect.void }
  const started = yield* Clock.currentTimeMillis
  let drawn = Number.NEGATIVE_INFINITY
  const clear = Effect.suspend(() => {
    if (drawn === Number.NEGATIVE_INFINITY) return Effect.void
    drawn = Number.NEGATIVE_INFINITY
    return stderr.write("\r\u001b[K")
  })
  yield* Effect.addFinalizer(() => clear)
  return {
    clear,
    update: Effect.fnUntraced(function*(done: number, total?: number | undefined, label?: string | undefined) {
      const now = yield* Clock.currentTimeMillis
      if (now - drawn < interval && done !== total) return
      drawn = now
      const line = render({
        label: label ?? options.label,
        unit: options.unit ?? "items",
        done,
        total,
        elapsed: now - started,
        columns: stderr.columns
      })
      yield* stderr.write(`\r${line}\u001b[K`)
    })
  }
})
