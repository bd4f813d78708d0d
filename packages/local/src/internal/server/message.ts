/**
 * Requests and responses, independent of any HTTP implementation, and the failures that become responses.
 */
import * as Data from "effect/Data"
import type * as Stream from "effect/Stream"

/** @internal */
export interface Incoming {
  readonly method: string
  readonly url: URL
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** A stream is read only after the caller is known, and no further than the limit. */
  readonly body: Uint8Array | Stream.Stream<Uint8Array, Dropped>
}

/** The connection breaks instead of a response, or in the middle of one. @internal */
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

/** The parts of a body in one array, copied once. @internal */
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

/** A request that is refused: its status and what the service says about it. @internal */
export class HttpFailure extends Data.TaggedError("HttpFailure")<{
  readonly status: number
  /** A sentence, or a list of the fields that do not fit. */
  readonly detail: unknown
  readonly headers?: Readonly<Record<string, string>> | undefined
}> {
  override get message(): string {
    return typeof this.detail === "string" ? this.detail : JSON.stringify(this.detail)
  }
}

const status = (code: number) => (detail: string): HttpFailure => new HttpFailure({ status: code, detail })

/** @internal */
export const badRequest = status(400)

/** @internal */
export const unauthorized = status(401)

/** @internal */
export const notFound = status(404)

/**
 * Final: `x-should-retry` says so to clients that read it. The official one has an outer loop that retries every 409
 * for five minutes regardless, so a 409 is only for what the service documents as one.
 *
 * @internal
 */
export const conflict = (detail: string): HttpFailure =>
  new HttpFailure({ status: 409, detail, headers: { "x-should-retry": "false" } })

/** @internal */
export const gone = status(410)

/** @internal */
export const tooLarge = status(413)

/** @internal */
export const tooMany = (detail: string): HttpFailure =>
  new HttpFailure({ status: 429, detail, headers: { "retry-after": "1" } })

/** A field of the request does not fit, under its name on the wire. @internal */
export const invalidField = (field: ReadonlyArray<string | number>, message: string): HttpFailure =>
  new HttpFailure({ status: 422, detail: [{ type: "value_error", loc: ["body", ...field], msg: message }] })

const step = /^[\s│├└─]*\[("(?:[^"\\]|\\.)*"|\d+)\]\s*$/
const branch = /^[\s│]*[├└]─ /

/**
 * A body that does not fit its schema, as the service reports it: the path of the first wrong field in wire names, and
 * what is wrong with it. `problem` is a tree as `ParseResult.TreeFormatter` draws it, or one sentence.
 *
 * @internal
 */
export const unprocessable = (problem: string): HttpFailure => {
  const path: Array<string | number> = []
  let message = problem
  for (const line of problem.split("\n")) {
    const key = step.exec(line)?.[1]
    if (key !== undefined) path.push(JSON.parse(key))
    message = line.replace(branch, "").trim()
    if (/^(Expected|is missing|is unexpected)|, actual |^the /.test(message)) break
  }
  // What is left of a tree that was cut off names types of ours, which tells the reader nothing.
  const readable = message.length <= 300 && !/readonly |\(Encoded side\)| <-> /.test(message)
  return invalidField(path, readable ? message : "the value does not have the expected shape")
}
