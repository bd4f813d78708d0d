/**
 * Numbers that a program cannot guess. Effect's `Random` is seedable and stays in use for what is not a secret.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** The platform's cryptographic generator, unless a test fixes it. @internal */
export class Entropy extends Context.Reference<Entropy>()("@effect-tinker/cookbook/Entropy", {
  defaultValue: (): { readonly bytes: (count: number) => Effect.Effect<Uint8Array> } => ({
    bytes: (count) => Effect.sync(() => globalThis.crypto.getRandomValues(new Uint8Array(count)))
  })
}) {}

/** Hexadecimal digits of that many random bytes. @internal */
export const hex = (count: number): Effect.Effect<string> =>
  Effect.flatMap(
    Entropy,
    ({ bytes }) =>
      Effect.map(bytes(count), (random) => Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join(""))
  )
