/**
 * The chat format of a model.
 *
 * @since 0.1.0
 */
import * as Client from "@effect-tinker/promise"
import * as Effect from "effect/Effect"
import { call } from "./internal/call.js"
import { type Sampler, Tokenizing } from "./Tinker.js"
import type { TinkerError } from "./TinkerError.js"

/**
 * A conversation, or the one message it begins with.
 *
 * @since 0.1.0
 * @category models
 */
export type Input = string | Client.Message | ReadonlyArray<Client.Message>

/**
 * Settings of an answer.
 *
 * @since 0.1.0
 * @category models
 */
export type AnswerOptions = Omit<Client.AnswerOptions, "signal">

/**
 * The chat format of a model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Chat {
  /** Data to train on. */
  readonly supervised: (
    conversations: Iterable<Client.Exchange | ReadonlyArray<Client.Message>>
  ) => Effect.Effect<ReadonlyArray<Client.Datum>, TinkerError>
  readonly ask: (sampler: Sampler, input: Input, options?: AnswerOptions) => Effect.Effect<Client.Answer, TinkerError>
  /** Goes on from an answer with its exact tokens. */
  readonly reply: (
    sampler: Sampler,
    answer: Client.Answer,
    input: Input,
    options?: AnswerOptions
  ) => Effect.Effect<Client.Answer, TinkerError>
}

/**
 * The chat format of a model, by its name.
 *
 * @since 0.1.0
 * @category constructors
 */
export const forModel = (
  model: string,
  options?: { readonly renderer?: string | undefined }
): Effect.Effect<Chat, TinkerError, Tokenizing> =>
  Effect.flatMap(
    Tokenizing,
    ({ client }) =>
      Effect.map(call(({ signal }) => Client.chatFor(client, model, { ...options, signal })), (chat) => ({
        supervised: (conversations) =>
          call(async (options) => Client.fromExamples(await chat.supervised(conversations, options))),
        ask: (sampler, input, settings) =>
          call((options) => chat.ask(sampler.client, input, { ...settings, ...options })),
        reply: (sampler, answer, input, settings) =>
          call((options) => chat.reply(sampler.client, answer, input, { ...settings, ...options }))
      }))
  )
