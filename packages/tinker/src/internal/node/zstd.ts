/**
 * zstd from Node's own zlib, which has it since 22.15.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as zlib from "node:zlib"

type Compress = (body: Uint8Array, callback: (error: Error | null, packed: Uint8Array) => void) => void

const isCompress = (u: unknown): u is Compress => typeof u === "function"

const native: unknown = "zstdCompress" in zlib ? zlib.zstdCompress : undefined

/**
 * A body that cannot be compressed is a defect: any bytes can be.
 *
 * @internal
 */
export const compress: ((body: Uint8Array) => Effect.Effect<Uint8Array>) | undefined = isCompress(native)
  ? (body) =>
    Effect.async<Uint8Array>((resume) => {
      native(body, (error, packed) => resume(error === null ? Effect.succeed(packed) : Effect.die(error)))
    })
  : undefined
