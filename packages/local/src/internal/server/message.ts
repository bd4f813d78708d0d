/**
 * Requests and answers, free of any HTTP implementation.
 */
import * as Data from "effect/Data"
import type * as Stream from "effect/Stream"

/** @internal */
export interface Incoming {
  readonly method: string
  readonly url: URL
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: Uint8Array
}

/** The connection breaks off instead of an answer, or in the middle of one. @internal */
export class Dropped extends Data.TaggedError("Dropped")<{}> {}

/** @internal */
export class Reply extends Data.Class<{
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | Stream.Stream<Uint8Array, Dropped> | undefined
}> {}

const utf8 = new TextEncoder()

/** @internal */
export const jsonText = (status: number, text: string, headers?: Readonly<Record<string, string>>): Reply =>
  new Reply({ status, headers: { "content-type": "application/json", ...headers }, body: utf8.encode(text) })

/** @internal */
export const json = (status: number, value: unknown, headers?: Readonly<Record<string, string>>): Reply =>
  jsonText(status, JSON.stringify(value), headers)

/** Pieces of a body in one. @internal */
export const concat = (chunks: Iterable<Uint8Array>): Uint8Array => {
  const parts = Array.from(chunks)
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}
