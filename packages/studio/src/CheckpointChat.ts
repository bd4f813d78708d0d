/**
 * Talking to a model: a base model, or the weights of a checkpoint.
 *
 * @since 0.1.0
 */
import * as Chat from "@effect-tinker/tokenizer/Chat"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import * as ModelInput from "effect-tinker/ModelInput"
import * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Schema from "effect/Schema"
import * as Tokens from "./internal/tokens.js"

/**
 * Question, and the model to ask.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Question extends Schema.Class<Question>("@effect-tinker/studio/CheckpointChat/Question")({
  /** The name of a base model, or the `tinker://` path of weights to sample from. */
  model: Schema.NonEmptyString.pipe(Schema.maxLength(1024)),
  /** The conversation so far, the question last. */
  messages: Schema.NonEmptyArray(Schema.Struct({
    role: Schema.Literal("system", "user", "assistant", "tool"),
    content: Schema.String,
    toolCalls: Schema.optional(Schema.Array(Schema.Struct({ name: Schema.String, arguments: Schema.String })))
  })),
  /** Tools the model may call, as JSON Schema. Its calls are shown and nothing is run. Defaults to none. */
  tools: Schema.optional(
    Schema.Array(Schema.Struct({
      name: Schema.NonEmptyString,
      description: Schema.optionalWith(Schema.String, { default: () => "" }),
      parameters: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Unknown }), {
        default: () => ({ type: "object", properties: {} })
      })
    })).pipe(Schema.maxItems(64))
  ),
  /** Defaults to 256. */
  maxTokens: Schema.optionalWith(Schema.Int.pipe(Schema.between(1, 8192)), { default: () => 256 }),
  /** Defaults to 0.7. */
  temperature: Schema.optionalWith(Schema.Number.pipe(Schema.between(0, 4)), { default: () => 0.7 }),
  /** The same seed gives the same answer. Defaults to none. */
  seed: Schema.optional(Schema.Int)
}) {}

/**
 * Answer of a model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Answer {
  readonly text: string
  readonly reasoning: string
  readonly toolCalls: ReadonlyArray<{ readonly name: string; readonly arguments: string }>
  /** Why it ended. */
  readonly stop: string
  /** Text of each of its tokens, and how likely it was. */
  readonly tokens: ReadonlyArray<{ readonly text: string; readonly logprob: number | null }>
  readonly millis: number
}

/**
 * There is no answer.
 *
 * @since 0.1.0
 * @category errors
 */
export class ChatFailed
  extends Schema.TaggedError<ChatFailed>("@effect-tinker/studio/CheckpointChat/ChatFailed")("ChatFailed", {
    model: Schema.String,
    cause: Schema.Defect
  })
{
  override get message(): string {
    const reason = this.cause instanceof Error ? this.cause.message : String(this.cause)
    return `${this.model} gave no answer: ${reason}`
  }
}

/**
 * Answers questions.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly ask: (question: Question) => Effect.Effect<Answer, ChatFailed>
}

/**
 * Somebody to talk to.
 *
 * @since 0.1.0
 * @category services
 */
export class CheckpointChat extends Context.Tag("@effect-tinker/studio/CheckpointChat")<CheckpointChat, Service>() {}

/** A person is waiting. */
const patience = Duration.minutes(2)

const make = Effect.gen(function*() {
  const context = yield* Effect.context<ServiceClient.ServiceClient | Tokenizers.Tokenizers>()
  const tokenizers = yield* Tokenizers.Tokenizers
  // A sampler stays open between the turns of a conversation.
  const models = yield* RcMap.make({
    lookup: (model: string) =>
      Effect.gen(function*() {
        const sampler = yield* SamplingClient.make(
          model.startsWith("tinker://") ? { modelPath: model } : { baseModel: model }
        )
        const base = yield* sampler.baseModel
        return { sampler, chat: yield* Chat.forModel(base), tokenizer: yield* tokenizers.forModel(base) }
      }).pipe(Effect.provide(context)),
    idleTimeToLive: "10 minutes"
  })

  const ask: Service["ask"] = ({ maxTokens, messages, model, seed, temperature, tools = [] }) =>
    Effect.gen(function*() {
      const { chat, sampler, tokenizer } = yield* RcMap.get(models, model)
      const started = yield* Clock.currentTimeMillis
      // Tools are declared together with the system's message.
      const [first] = messages
      const system = first.role === "system" ? first.content : undefined
      const opened = yield* Chat.make(chat.renderer, { system, tools })
      const answer = yield* opened.ask(
        (prompt, params) => sampler.sample({ prompt: ModelInput.fromInts(prompt), ...params }),
        system === undefined ? messages : messages.slice(1),
        { maxTokens, temperature, seed }
      )
      return {
        text: answer.text,
        reasoning: Message.thinking(answer.message),
        toolCalls: (answer.message.toolCalls ?? []).map((call) => ({ name: call.name, arguments: call.arguments })),
        stop: Option.getOrElse(answer.stopReason, () => "stop"),
        tokens: Tokens.texts(tokenizer, Array.from(answer.turn.completion)).map((text, i) => ({
          text,
          logprob: answer.logprobs[i] ?? null
        })),
        millis: (yield* Clock.currentTimeMillis) - started
      }
    }).pipe(
      Effect.scoped,
      Effect.timeout(patience),
      Effect.mapError((cause) => new ChatFailed({ model, cause }))
    )
  return { ask }
})

/**
 * Talks to the models of a Tinker server, in the chat format of each.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer: Layer.Layer<CheckpointChat, never, ServiceClient.ServiceClient | Tokenizers.Tokenizers> = Layer
  .scoped(
    CheckpointChat,
    make
  )
