/**
 * Ids, hashes and file names.
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

/** A random id in the form of a UUID. @internal */
export const randomId: Effect.Effect<string> = Effect.gen(function*() {
  const digits: Array<string> = []
  for (let i = 0; i < 8; i++) digits.push((yield* Random.nextIntBetween(0, 0x10000)).toString(16).padStart(4, "0"))
  const [a, b, c, d, e, ...rest] = digits
  return `${a}${b}-${c}-4${d?.slice(1)}-a${e?.slice(1)}-${rest.join("")}`
})

/** Tells two request bodies apart. @internal */
export const fingerprint = (bytes: Uint8Array): string => {
  let h1 = 0xdeadbeef ^ bytes.length
  let h2 = 0x41c6ce57
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] ?? 0
    h1 = Math.imul(h1 ^ byte, 2654435761)
    h2 = Math.imul(h2 ^ byte, 1597334677)
  }
  return `${(h1 >>> 0).toString(16)}${(h2 >>> 0).toString(16)}`
}

/** A name any file system takes, reversible. @internal */
export const fileName = (id: string): string =>
  id.replace(
    /[^A-Za-z0-9._-]|^\./g,
    (char) =>
      Array.from(new TextEncoder().encode(char), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(
        ""
      )
  )

/** Metadata as the service keeps it: texts. @internal */
export const stringMetadata = (
  metadata: Readonly<Record<string, unknown>> | undefined
): Readonly<Record<string, string>> | undefined =>
  metadata === undefined ? undefined : Object.fromEntries(
    Object.entries(metadata).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)])
  )
