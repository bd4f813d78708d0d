/**
 * The first import of every entry point, so that a wrong Effect version is explained before anything else fails.
 *
 * Effect 4: Node links all imports before it runs a line, and `effect/Either` is not part of Effect 4. No code of ours
 * can run then; but this module is the first to miss it, so Node's message says "imported from …/requiresEffect3.js".
 * An Effect 3 that is too old links, and is refused here.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"

/** @internal */
export const oldest = "3.22.4"

/** @internal */
export const installLine = "npm install effect@3 @effect/platform@0.97 @effect/platform-node@0.108"

/**
 * The problem with this version of Effect, or `undefined`.
 *
 * @internal
 */
export const problem = (version: string): string | undefined => {
  const [required, found] = [oldest, version].map((text) => text.split("-")[0]?.split(".").map(Number) ?? [])
  const difference = required?.map((part, i) => (found?.[i] ?? 0) - part) ?? []
  const sameMajor = difference[0] === 0
  if (sameMajor && (difference.find((part) => part !== 0) ?? 0) >= 0) return undefined
  return `effect-tinker needs Effect 3, version ${oldest} or newer, and found ${version}. Install a set that fits: ${installLine}`
}

const found = problem(Effect.void[Effect.EffectTypeId]._V)
// Bundlers drop an import that nothing uses.
Either.getOrThrowWith(found === undefined ? Either.void : Either.left(found), (message) => new Error(message))
