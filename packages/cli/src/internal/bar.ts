/**
 * Bars, as the quickstart draws them.
 *
 * @since 0.1.0
 */

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
