/**
 * Addresses that need no key: each opens one file for some minutes. And the archive of a checkpoint, as one such file.
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StorageFailed } from "../../Storage.js"
import type { HttpFailure } from "./message.js"
import { notFound } from "./message.js"

/** @internal */
export interface Download {
  readonly contentType: string
  readonly content: Effect.Effect<Uint8Array, StorageFailed>
}

/** @internal */
export interface DownloadsShape {
  /** The path below the server's base, and when it expires. */
  readonly offer: (download: Download) => Effect.Effect<{ readonly path: string; readonly expires: number }>
  readonly open: (token: string) => Effect.Effect<Download, HttpFailure>
}

/** @internal */
export class Downloads extends Context.Tag("@effect-tinker/local/Downloads")<Downloads, DownloadsShape>() {}

const lifetime = Duration.minutes(15)

/** @internal */
export const template = "/api/v1/local/downloads/{token}"

/** @internal */
export const layer: Layer.Layer<Downloads> = Layer.sync(Downloads, () => {
  const offers = new Map<string, Download & { readonly expires: number }>()
  return Downloads.of({
    offer: Effect.fnUntraced(function*(download) {
      const now = yield* Clock.currentTimeMillis
      for (const [token, { expires }] of offers) if (expires <= now) offers.delete(token)
      const token = yield* Entropy.token
      const expires = now + Duration.toMillis(lifetime)
      offers.set(token, { ...download, expires })
      return { path: template.replace("{token}", token), expires }
    }),
    open: Effect.fnUntraced(function*(token) {
      const found = offers.get(token)
      return found !== undefined && found.expires > (yield* Clock.currentTimeMillis)
        ? found
        : yield* notFound("This address is unknown or has expired")
    })
  })
})

const block = 512
const utf8 = new TextEncoder()

const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, "0")}\0`

const header = (name: string, size: number, seconds: number): Uint8Array => {
  const bytes = new Uint8Array(block)
  const put = (at: number, text: string) => bytes.set(utf8.encode(text), at)
  put(0, name)
  put(100, octal(0o644, 8))
  put(108, octal(0, 8))
  put(116, octal(0, 8))
  put(124, octal(size, 12))
  put(136, octal(seconds, 12))
  // the checksum counts its own field as spaces
  put(148, "        ")
  put(156, "0")
  put(257, "ustar\0")
  put(263, "00")
  put(148, `${bytes.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `)
  return bytes
}

/** A tar archive in the format every tool reads. @internal */
export const tar = (files: ReadonlyMap<string, Uint8Array>, millis: number): Uint8Array => {
  const padded = (size: number) => Math.ceil(size / block) * block
  let total = 2 * block
  for (const content of files.values()) total += block + padded(content.length)
  const archive = new Uint8Array(total)
  let at = 0
  for (const [name, content] of files) {
    archive.set(header(name, content.length, Math.floor(millis / 1000)), at)
    archive.set(content, at + block)
    at += block + padded(content.length)
  }
  return archive
}
