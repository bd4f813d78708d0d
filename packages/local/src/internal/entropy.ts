/**
 * Randomness nobody can guess, for ids and secrets. Effect's `Random` is a generator whose seed can be recovered from
 * what it made; it stays in use for what is no secret.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/**
 * Where ids, keys and download addresses come from: the platform's cryptographic generator, unless a test fixes it.
 *
 * @since 0.1.0
 * @category services
 */
export class Entropy extends Context.Reference<Entropy>()("@effect-tinker/local/Entropy", {
  defaultValue: (): { readonly bytes: (count: number) => Effect.Effect<Uint8Array> } => ({
    bytes: (count) => Effect.sync(() => crypto.getRandomValues(new Uint8Array(count)))
  })
}) {}

/** @internal */
export const hex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

/** A UUID (version 4). @internal */
export const randomId: Effect.Effect<string> = Effect.gen(function*() {
  const entropy = yield* Entropy
  const bytes = Uint8Array.from(yield* entropy.bytes(16))
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const digits = hex(bytes)
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join(
    "-"
  )
})

/** 256 bits, for what opens something without a key. @internal */
export const randomToken: Effect.Effect<string> = Effect.gen(function*() {
  const entropy = yield* Entropy
  return hex(yield* entropy.bytes(32))
})
