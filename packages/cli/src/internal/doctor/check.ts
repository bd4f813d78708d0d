/**
 * A check of `tinker doctor`: what was found, and what to do about it.
 *
 * @since 0.2.0
 */

/** @internal */
export interface Check {
  readonly check: string
  readonly status: "ok" | "warning" | "failed" | "skipped"
  readonly detail: string
  readonly advice?: string | undefined
}

/** @internal */
export const ok = (check: string, detail: string): Check => ({ check, status: "ok", detail })

/** @internal */
export const skipped = (check: string, detail: string): Check => ({ check, status: "skipped", detail })

/** @internal */
export const warning = (check: string, detail: string, advice: string): Check => ({
  check,
  status: "warning",
  detail,
  advice
})

/** @internal */
export const failed = (check: string, detail: string, advice: string): Check => ({
  check,
  status: "failed",
  detail,
  advice
})
