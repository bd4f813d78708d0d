/**
 * Bodies that arrive compressed.
 */
import * as Effect from "effect/Effect"
import { decompress } from "fzstd"
import { HttpFailure } from "./failure.js"

const malformed = (encoding: string): HttpFailure =>
  new HttpFailure({ status: 400, detail: `The body is not valid ${encoding}` })

const inflate = (encoding: "gzip" | "deflate", body: Uint8Array) =>
  Effect.tryPromise({
    try: async () => {
      const stream = new Blob([Uint8Array.from(body)]).stream().pipeThrough(new DecompressionStream(encoding))
      return new Uint8Array(await new Response(stream).arrayBuffer())
    },
    catch: () => malformed(encoding)
  })

/** @internal */
export const unpack = (body: Uint8Array, encoding: string | undefined): Effect.Effect<Uint8Array, HttpFailure> => {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return Effect.succeed(body)
    case "zstd":
      return Effect.try({ try: () => decompress(body), catch: () => malformed("zstd") })
    case "gzip":
      return inflate("gzip", body)
    case "deflate":
      return inflate("deflate", body)
    default:
      return Effect.fail(new HttpFailure({ status: 415, detail: `Content-Encoding ${encoding} is not supported` }))
  }
}
