/**
 * Request bodies: read no further than a limit, decompressed no further than the same limit, copied once, and never for
 * long on the event loop.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Decompress } from "fzstd"
import type { Dropped, Incoming } from "./message.js"
import { concat, HttpFailure, tooLarge } from "./message.js"

const exceeds = (limit: number): HttpFailure =>
  tooLarge(`The request body is larger than ${limit} bytes; send less data per request`)

const malformed = (encoding: string): HttpFailure =>
  new HttpFailure({ status: 400, detail: `The body is not valid ${encoding}` })

/** Lets other work run: fibers first, then the event loop. */
const yieldToEventLoop = Effect.zipRight(Effect.yieldNow(), Effect.sleep(0))

/** Memory of a body while it is read: the length it declares, or anything up to the limit. @internal */
export const reservation = (headers: Incoming["headers"], limit: number): number => {
  const declared = Number(headers["content-length"])
  const packed = headers["content-encoding"] !== undefined && headers["content-encoding"] !== "identity"
  return Number.isSafeInteger(declared) && !packed ? Math.min(Math.max(declared, 1), limit) : limit
}

/** @internal */
export const readBody = (incoming: Incoming, limit: number): Effect.Effect<Uint8Array, HttpFailure | Dropped> => {
  const { body, headers } = incoming
  if (Number(headers["content-length"]) > limit) return Effect.fail(exceeds(limit))
  if (body instanceof Uint8Array) return body.length > limit ? Effect.fail(exceeds(limit)) : Effect.succeed(body)
  const parts: Array<Uint8Array> = []
  let size = 0
  return Stream.runForEach(body, (part) => {
    size += part.length
    parts.push(part)
    return size > limit ? Effect.fail(exceeds(limit)) : Effect.void
  }).pipe(
    Effect.map(() => concat(parts)),
    Effect.timeoutFail({
      duration: "2 minutes",
      onTimeout: () => new HttpFailure({ status: 408, detail: "The request body took longer than two minutes" })
    })
  )
}

const inflate = (encoding: "gzip" | "deflate", body: Uint8Array, limit: number) =>
  Effect.tryPromise({
    try: async (signal) => {
      const stream = new Blob([Uint8Array.from(body)]).stream().pipeThrough(new DecompressionStream(encoding))
      const reader = stream.getReader()
      const parts: Array<Uint8Array> = []
      let size = 0
      try {
        for (let next = await reader.read(); !next.done && !signal.aborted; next = await reader.read()) {
          size += next.value.length
          if (size > limit) throw exceeds(limit)
          parts.push(next.value)
        }
      } finally {
        reader.cancel().catch(() => {})
      }
      return concat(parts)
    },
    catch: (error) => error instanceof HttpFailure ? error : malformed(encoding)
  })

// A block of zstd holds this many bytes at most; many small ones cost far more time than they are worth.
const maxBlockBytes = 128 * 1024
const maxBlocks = 16_384

/** Blocks decompressed between two turns of the event loop: at most 1 MiB of output. */
const blocksPerSlice = 8

/**
 * Where to cut zstd frames so that each piece decompresses in little time. What frames and blocks say about their sizes
 * is checked first, because the decompressor allocates what a frame declares.
 */
const cutFrames = (body: Uint8Array, limit: number): ReadonlyArray<number> => {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength)
  const cuts: Array<number> = []
  let at = 0
  let blocks = 0
  let known = 0
  while (at < body.length) {
    const magic = view.getUint32(at, true)
    if (magic >= 0x184D2A50 && magic <= 0x184D2A5F) {
      at += 8 + view.getUint32(at + 4, true)
      continue
    }
    if (magic !== 0xFD2FB528) throw malformed("zstd")
    const flags = view.getUint8(at + 4)
    const single = (flags & 32) !== 0
    const sizeBytes = flags >> 6 === 0 ? (single ? 1 : 0) : 1 << (flags >> 6)
    let window = 0
    at += 5
    if (!single) {
      const descriptor = view.getUint8(at++)
      window = 2 ** (10 + (descriptor >> 3)) * (1 + (descriptor & 7) / 8)
    }
    at += [0, 1, 2, 4][flags & 3] ?? 0
    let content = 0
    for (let i = 0; i < sizeBytes; i++) content += view.getUint8(at + i) * 2 ** (8 * i)
    if (Math.max(content, window) > limit) throw exceeds(limit)
    at += sizeBytes
    for (let last = false; !last;) {
      const header = view.getUint16(at, true) | (view.getUint8(at + 2) << 16)
      const type = (header >> 1) & 3
      const size = header >> 3
      last = (header & 1) === 1
      if (type === 3 || size > maxBlockBytes || ++blocks > maxBlocks) throw malformed("zstd")
      // how much a compressed block holds is known when it is decompressed
      if (type !== 2) known += size
      if (known > limit) throw exceeds(limit)
      at += 3 + (type === 1 ? 1 : size)
      if (at > body.length) throw malformed("zstd")
      if (blocks % blocksPerSlice === 0) cuts.push(at)
    }
    if ((flags & 4) !== 0) at += 4
  }
  return [...cuts, body.length]
}

const unzstd = (body: Uint8Array, limit: number): Effect.Effect<Uint8Array, HttpFailure> =>
  Effect.gen(function*() {
    const failed = (error: unknown) => error instanceof HttpFailure ? error : malformed("zstd")
    const cuts = yield* Effect.try({ try: () => cutFrames(body, limit), catch: failed })
    const parts: Array<Uint8Array> = []
    let size = 0
    const decompressor = new Decompress((part) => {
      size += part.length
      if (size > limit) throw exceeds(limit)
      if (part.length > 0) parts.push(part.slice())
    })
    let from = 0
    for (const to of cuts) {
      yield* Effect.try({
        try: () => decompressor.push(body.subarray(from, to), to === body.length),
        catch: failed
      })
      from = to
      yield* yieldToEventLoop
    }
    return concat(parts)
  })

/** @internal */
export const unpack = (
  body: Uint8Array,
  encoding: string | undefined,
  limit: number
): Effect.Effect<Uint8Array, HttpFailure> => {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return Effect.succeed(body)
    case "zstd":
      return unzstd(body, limit)
    case "gzip":
      return inflate("gzip", body, limit)
    case "deflate":
      return inflate("deflate", body, limit)
    default:
      return Effect.fail(new HttpFailure({ status: 415, detail: `Content-Encoding ${encoding} is not supported` }))
  }
}
