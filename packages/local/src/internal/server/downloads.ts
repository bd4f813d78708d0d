/**
 * Addresses that need no key: good for one content and some minutes.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StorageFailed } from "../../Storage.js"
import type { HttpFailure } from "./failure.js"
import { notFound } from "./failure.js"
import { randomId } from "./identity.js"

/** @internal */
export interface Download {
  readonly contentType: string
  readonly content: Effect.Effect<Uint8Array, StorageFailed>
}

/** @internal */
export interface DownloadsShape {
  /** The path below the server's base, and until when it is good. */
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
      const token = yield* randomId
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
