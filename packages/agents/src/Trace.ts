/**
 * The record of an agent in production: one conversation with its tools, scores, feedback, cost and session.
 *
 * A trace is a line of JSON. All importers write it, and everything made of traces reads it. A line with only `messages` is
 * a trace too.
 *
 * @since 0.2.0
 */
import * as DataFile from "@effect-tinker/cookbook/DataFile"
import type * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Duplicates from "@effect-tinker/cookbook/Duplicates"
import * as Example from "@effect-tinker/cookbook/Example"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Schema from "effect/Schema"

/**
 * Where a trace comes from.
 *
 * @since 0.2.0
 * @category schemas
 */
export const Source = Schema.Literal("otel", "langfuse", "braintrust", "openai", "langsmith", "gateway", "chat")

/**
 * Where a trace comes from.
 *
 * @since 0.2.0
 * @category models
 */
export type Source = typeof Source.Type

/**
 * The judgement of the person the agent worked for.
 *
 * @since 0.2.0
 * @category schemas
 */
export const Feedback = Schema.Struct({
  /** Higher is better, on the scale of the application. */
  value: Schema.optional(Schema.Number),
  comment: Schema.optional(Schema.String)
})

const Numbers = Schema.declare(
  (u): u is ReadonlyArray<number> => Array.isArray(u) && u.every((item) => typeof item === "number"),
  { identifier: "Numbers" }
)

/**
 * The tokens of a recorded conversation.
 *
 * @since 0.2.0
 * @category schemas
 */
export const Tokens = Schema.Struct({
  ids: Numbers,
  /** One for each token: 1 if the model sampled it. */
  sampled: Numbers,
  /** One for each token: its log probability when it was sampled, and 0 elsewhere. */
  logprobs: Numbers
})

/**
 * One conversation of an agent, the answers of the model included.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Trace extends Schema.Class<Trace>("@effect-tinker/agents/Trace")({
  /** Two traces with the same id are the same. */
  id: Schema.NonEmptyString,
  /** Group of traces that belong together: those of one session are held out together. Defaults to the id. */
  session: Schema.NonEmptyString,
  source: Source,
  /** The model that answered. */
  model: Schema.optional(Schema.String),
  /** Milliseconds since the epoch. */
  started_at: Schema.optional(Schema.Number),
  ended_at: Schema.optional(Schema.Number),
  /** Up to the last answer, which is the last message. Answers from before this trace have `trainable: false`. */
  messages: Schema.Array(Example.MessageFromJson),
  /** Tools that were declared. */
  tools: Schema.optional(Schema.Array(Message.ToolSpec)),
  /** Judgements by name, of evaluators and of the application. */
  scores: Schema.Record({ key: Schema.String, value: Schema.Number }),
  feedback: Schema.optional(Feedback),
  /** Calls of the model in it. */
  calls: Schema.Int,
  /** Tokens of all calls together. */
  usage: Schema.optional(Schema.Struct({ input: Schema.Number, output: Schema.Number })),
  /** Price of all calls together, in the currency of the source. */
  cost: Schema.optional(Schema.Number),
  tags: Schema.optional(Schema.Array(Schema.String)),
  /** The exact tokens, where a gateway recorded them. */
  tokens: Schema.optional(Tokens)
}) {}

// =============================================================================
// reading and writing
// =============================================================================

const MessagesRow = Schema.Struct({
  messages: Schema.Array(Example.MessageFromJson),
  tools: Schema.optional(Schema.NullOr(Schema.Array(Schema.Unknown)))
})

const decodeTools = Schema.decodeUnknownOption(
  Schema.Struct({ tools: Schema.Array(Message.ToolSpec) })
)

/** A line that has nothing but a conversation is a session of its own, known by what it says. */
const TraceFromChat: Schema.Schema<Trace, typeof MessagesRow.Encoded> = Schema.transform(
  MessagesRow,
  Schema.typeSchema(Trace),
  {
    strict: true,
    decode: ({ messages, tools }) => {
      const id = `chat-${Duplicates.hashOf(JSON.stringify(messages)).toString(16)}`
      const declared = decodeTools({ tools })
      return new Trace({
        id,
        session: id,
        source: "chat",
        messages,
        ...declared._tag === "Some" ? { tools: declared.value.tools } : {},
        scores: {},
        calls: messages.filter(({ role }) => role === "assistant").length
      })
    },
    encode: ({ messages }) => ({ messages })
  }
)

/**
 * A line of a file of traces.
 *
 * @since 0.2.0
 * @category schemas
 */
export const FromJson: Schema.Schema<Trace, unknown> = Schema.compose(
  Schema.Unknown,
  Schema.Union(Trace, TraceFromChat),
  { strict: false }
)

const encode = Schema.encodeSync(Trace)

/**
 * A trace as a line of a file, without the newline.
 *
 * @since 0.2.0
 * @category combinators
 */
export const toLine = (trace: Trace): string => JSON.stringify(encode(trace))

/**
 * The traces of a file of JSON lines. Lines that are none are skipped, with their reasons.
 *
 * @since 0.2.0
 * @category constructors
 */
export const jsonl = (
  path: string,
  options?: DataFile.Options
): Dataset.Dataset<Trace, PlatformError.PlatformError, FileSystem.FileSystem> => DataFile.jsonl(path, FromJson, options)

// =============================================================================
// parts
// =============================================================================

/**
 * The conversation before the first answer of this trace: what the agent was asked.
 *
 * @since 0.2.0
 * @category combinators
 */
export const opening = ({ messages }: Pick<Trace, "messages">): ReadonlyArray<Message.Message> => {
  const own = messages.findIndex(({ role, trainable }) => role === "assistant" && trainable !== false)
  return own < 0 ? messages : messages.slice(0, own)
}

/**
 * The text of the last answer.
 *
 * @since 0.2.0
 * @category combinators
 */
export const answer = ({ messages }: Pick<Trace, "messages">): string => {
  const last = messages.at(-1)
  return last?.role === "assistant" ? Message.text(last) : ""
}

/**
 * The worth of a trace: a score by name, or the feedback by the name `feedback`. Without a name it is the feedback, else the
 * score `reward`, else the only score there is; of several others, nobody can say which counts. `undefined` where it is not
 * known.
 *
 * @since 0.2.0
 * @category combinators
 */
export const worth = (trace: Pick<Trace, "feedback" | "scores">, score?: string): number | undefined => {
  if (score === "feedback") return trace.feedback?.value
  if (score !== undefined) return Object.hasOwn(trace.scores, score) ? trace.scores[score] : undefined
  if (trace.feedback?.value !== undefined) return trace.feedback.value
  if (Object.hasOwn(trace.scores, "reward")) return trace.scores["reward"]
  const values = Object.values(trace.scores)
  return values.length === 1 ? values[0] : undefined
}
