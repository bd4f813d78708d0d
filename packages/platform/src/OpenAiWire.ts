/**
 * Completions and chats of OpenAI's API, as far as every server of them agrees: fields of requests that mean the same
 * everywhere, the head and usage of responses, and the end of a stream. What a server refuses, and in which words, is its own.
 *
 * @since 0.2.0
 */
import * as Schema from "effect/Schema"
import * as ServerSentEvents from "./ServerSentEvents.js"

/**
 * A field that may be absent or `null`.
 *
 * @since 0.2.0
 * @category combinators
 */
export const maybe = <A, I, R>(
  schema: Schema.Schema<A, I, R>
): Schema.optional<Schema.NullOr<Schema.Schema<A, I, R>>> => Schema.optional(Schema.NullOr(schema))

/**
 * Fields of a request for completions or a chat.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Common extends Schema.Struct({
  seed: maybe(Schema.Int),
  stop: maybe(Schema.Union(Schema.String, Schema.Array(Schema.String))),
  stream: maybe(Schema.Boolean),
  stream_options: maybe(Schema.Struct({ include_usage: maybe(Schema.Boolean) })),
  /** An addition of vLLM's, for clients that keep exact tokens. */
  return_token_ids: maybe(Schema.Boolean)
}) {}

/**
 * Texts that end a completion, where a request names any.
 *
 * @since 0.2.0
 * @category getters
 */
export const stopsOf = ({ stop }: Pick<typeof Common.Type, "stop">): ReadonlyArray<string> | undefined =>
  typeof stop === "string" ? [stop] : stop ?? undefined

/**
 * Whether a stream ends with an event that holds the usage.
 *
 * @since 0.2.0
 * @category getters
 */
export const wantsUsage = ({ stream_options: options }: Pick<typeof Common.Type, "stream_options">): boolean =>
  options?.include_usage === true

/**
 * Fields with which every response and every chunk of one begins.
 *
 * @since 0.2.0
 * @category models
 */
export interface Head {
  readonly id: string
  /** Seconds since the epoch. */
  readonly created: number
  readonly model: string
}

/**
 * Tokens of a prompt and of all its completions.
 *
 * @since 0.2.0
 * @category models
 */
export interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/**
 * Usage of a response.
 *
 * @since 0.2.0
 * @category constructors
 */
export const usage = (prompt: number, completion: number): Usage => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion
})

/**
 * The event that ends a stream.
 *
 * @since 0.2.0
 * @category constants
 */
export const done: string = ServerSentEvents.text("[DONE]")
