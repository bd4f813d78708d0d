/**
 * Answers that are not the one asked for: a status and what the service says about it.
 */
import * as Data from "effect/Data"

/** @internal */
export class HttpFailure extends Data.TaggedError("HttpFailure")<{
  readonly status: number
  /** A sentence, or the list of what does not fit a schema. */
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
export const forbidden = status(403)

/** @internal */
export const notFound = status(404)

/** Nothing here is in conflict for a moment only, and clients that try a 409 again would do so for minutes. @internal */
export const conflict = (detail: string): HttpFailure =>
  new HttpFailure({ status: 409, detail, headers: { "x-should-retry": "false" } })

/** @internal */
export const gone = status(410)

/** @internal */
export const tooMany = (detail: string): HttpFailure =>
  new HttpFailure({ status: 429, detail, headers: { "retry-after": "1" } })

/** The body of a request does not fit its schema; in the words and the shape of the service. @internal */
export const unprocessable = (message: string): HttpFailure =>
  new HttpFailure({ status: 422, detail: [{ type: "value_error", loc: ["body"], msg: message }] })
