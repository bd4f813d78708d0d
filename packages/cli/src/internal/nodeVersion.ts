/** The oldest version of Node that the command runs on, as `engines` of its package has it. */

/** @internal */
export const oldest = "20.18.1"

/**
 * Advice where a version of Node is too old, or `undefined`.
 *
 * @internal
 */
export const problem = (version: string): string | undefined => {
  const found = version.split(".").map(Number)
  const difference = oldest.split(".").map((part, i) => (found[i] ?? 0) - Number(part)).find((part) => part !== 0) ?? 0
  return difference >= 0
    ? undefined
    : `error: tinker needs Node ${oldest} or newer, and this is ${version}. Install a newer one: https://nodejs.org`
}
