/**
 * Fingerprints of requests, file names of ids, and metadata as the service keeps it.
 */
import * as Effect from "effect/Effect"
import type { HttpFailure } from "./message.js"
import { badRequest } from "./message.js"
import { limits } from "./settings.js"

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

/** Metadata as the service keeps it, values as text; kept for as long as what it describes, so not without limit. @internal */
export const stringMetadata = (
  metadata: Readonly<Record<string, unknown>> | undefined
): Effect.Effect<Readonly<Record<string, string>> | undefined, HttpFailure> => {
  if (metadata === undefined) return Effect.succeed(undefined)
  const entries = Object.entries(metadata).map(([key, value]): [string, string] => [
    key,
    typeof value === "string" ? value : JSON.stringify(value)
  ])
  const size = entries.reduce((sum, [key, value]) => sum + key.length + value.length, 0)
  return size > limits.metadataBytes
    ? badRequest(`user_metadata has ${size} characters, at most ${limits.metadataBytes} are kept`)
    : Effect.succeed(Object.fromEntries(entries))
}
