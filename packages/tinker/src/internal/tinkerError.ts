/**
 * Fields and rendering shared by all errors.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"

/** @internal */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TinkerError")

/** @internal */
export type TypeId = typeof TypeId

/**
 * The fields every error has.
 *
 * @internal
 */
export const common = {
  /** Module of the operation that failed, e.g. `TrainingClient`. */
  module: Schema.String,
  /** Method of that module, e.g. `forwardBackward`. */
  method: Schema.String,
  /** What the server (or we) had to say about it. */
  description: Schema.optional(Schema.String),
  /** HTTP status, when a server answered. */
  status: Schema.optional(Schema.Number),
  /** The id of the server-side operation, or the id the server gave to the HTTP exchange. */
  requestId: Schema.optional(Schema.String),
  /** How long the server asked us to wait: only hints in (0 s, 60 s] are kept. */
  retryAfter: Schema.optional(Schema.DurationFromMillis),
  /** What the server (`x-should-retry`) or the endpoint's own rule says, where it overrides the kind of the error. */
  shouldRetry: Schema.optional(Schema.Boolean),
  /** Body of the answer, parsed when it was JSON; secrets we know are blanked. */
  body: Schema.optional(Schema.Unknown),
  cause: Schema.optional(Schema.Defect)
}

interface Common {
  readonly module: string
  readonly method: string
  readonly description?: string | undefined
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly retryAfter?: Duration.Duration | undefined
}

/** @internal */
export const render = (error: Common, what: string, advice: string): string => {
  const facts: Array<string> = []
  if (error.status !== undefined) facts.push(`status ${error.status}`)
  if (error.requestId !== undefined) facts.push(`request ${error.requestId}`)
  if (error.retryAfter !== undefined) facts.push(`retry after ${Duration.format(error.retryAfter)}`)
  const detail = error.description === undefined || error.description === "" ? "" : `: ${error.description}`
  return `${error.module}.${error.method}: ${what}${facts.length === 0 ? "" : ` (${facts.join(", ")})`}${detail}${
    advice === "" ? "" : `\n  ${advice}`
  }`
}

/** @internal */
export const id = <const Tag extends string>(tag: Tag) => `effect-tinker/TinkerError/${tag}` as const
