/**
 * Randomness that nobody can guess, for ids and secrets. Effect's `Random` is a generator whose seed can be recovered from
 * what it made; it stays in use for everything that is not a secret.
 *
 * @since 0.2.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/**
 * The source of ids, keys and download addresses: the platform's cryptographic generator, unless a test fixes it.
 *
 * @since 0.2.0
 * @category services
 */
export class Entropy extends Context.Reference<Entropy>()("@effect-tinker/platform/Entropy", {
  defaultValue: (): { readonly bytes: (count: number) => Effect.Effect<Uint8Array> } => ({
    bytes: (count) => Effect.sync(() => globalThis.crypto.getRandomValues(new Uint8Array(count)))
  })
}) {}

/**
 * Bytes as hexadecimal digits.
 *
 * @since 0.2.0
 * @category combinators
 */
export const toHex = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")

/**
 * Hexadecimal digits of that many random bytes.
 *
 * @since 0.2.0
 * @category constructors
 */
export const hex = (count: number): Effect.Effect<string> =>
  Effect.flatMap(Entropy, ({ bytes }) => Effect.map(bytes(count), toHex))

/**
 * A UUID (version 4).
 *
 * @since 0.2.0
 * @category constructors
 */
export const uuid: Effect.Effect<string> = Effect.gen(function*() {
  const entropy = yield* Entropy
  const bytes = Uint8Array.from(yield* entropy.bytes(16))
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const digits = toHex(bytes)
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join(
    "-"
  )
})

/**
 * 256 bits, for what opens something without a key.
 *
 * @since 0.2.0
 * @category constructors
 */
export const token: Effect.Effect<string> = hex(32)
