/**
 * A recorded model for `@effect/ai`: a `LanguageModel` with toolkits, structured output and streaming.
 *
 * The `finish` part of a response carries `metadata.tinker`: the call's id, how it continues earlier ones, and the sampled
 * ids.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import * as AiError from "@effect/ai/AiError"
import * as LanguageModel from "@effect/ai/LanguageModel"
import type * as Prompt from "@effect/ai/Prompt"
import type * as Response from "@effect/ai/Response"
import * as Tool from "@effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { dual } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Agent from "./Agent.js"
import * as AgentModel from "./AgentModel.js"
import * as Blocks from "./internal/blocks.js"

// =============================================================================
// settings
// =============================================================================

/**
 * How answers are drawn, beside what `@effect/ai` says.
 *
 * @since 0.1.0
 * @category models
 */
export type Settings = Pick<
  AgentModel.Request,
  "maxTokens" | "temperature" | "topK" | "topP" | "seed" | "stop" | "rollout"
>

/**
 * Settings of the calls of an Effect, on top of those of the model: see {@link withSettings}.
 *
 * @since 0.1.0
 * @category services
 */
export class CurrentSettings
  extends Context.Reference<CurrentSettings>()("@effect-tinker/agents/EffectAi/CurrentSettings", {
    defaultValue: (): Settings => ({})
  })
{}

/**
 * Runs an Effect whose calls of the model have these settings.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withSettings: {
  (settings: Settings): <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  <A, E, R>(self: Effect.Effect<A, E, R>, settings: Settings): Effect.Effect<A, E, R>
} = dual(
  2,
  <A, E, R>(self: Effect.Effect<A, E, R>, settings: Settings): Effect.Effect<A, E, R> =>
    Effect.flatMap(CurrentSettings, (outer) => Effect.provideService(self, CurrentSettings, { ...outer, ...settings }))
)

// =============================================================================
// constructors
// =============================================================================

/**
 * A recorded model as a `LanguageModel`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (model: AgentModel.Service, settings?: Settings): Effect.Effect<LanguageModel.Service> => {
  const request = Effect.fnUntraced(function*(options: LanguageModel.ProviderOptions) {
    return yield* requestOf(options, { ...settings, ...yield* CurrentSettings })
  })
  return LanguageModel.make({
    generateText: (options) =>
      request(options).pipe(
        Effect.flatMap((asked) => Effect.mapError(model.generate(asked), toAiError("generateText"))),
        Effect.flatMap(partsOf)
      ),
    streamText: (options) =>
      Stream.unwrap(
        Effect.map(request(options), (asked) =>
          streamPartsOf(Stream.mapError(model.stream(asked), toAiError("streamText"))))
      )
  })
}

/**
 * The model in the context as a `LanguageModel`.
 *
 * @example
 * ```ts
 * import { AgentModel } from "@effect-tinker/agents"
 * import * as EffectAi from "@effect-tinker/agents/EffectAi"
 * import { LanguageModel } from "@effect/ai"
 * import { Effect } from "effect"
 *
 * const program: Effect.Effect<string, unknown, AgentModel.AgentModel> = Effect.map(
 *   LanguageModel.generateText({ prompt: "Who are you?" }),
 *   ({ text }) => text
 * ).pipe(Effect.provide(EffectAi.layer({ temperature: 0 })))
 * ```
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (settings?: Settings): Layer.Layer<LanguageModel.LanguageModel, never, AgentModel.AgentModel> =>
  Layer.effect(LanguageModel.LanguageModel, Effect.flatMap(AgentModel.AgentModel, (model) => make(model, settings)))

/**
 * An agent written with `@effect/ai`, to be trained: the `LanguageModel` in its context is that of the run.
 *
 * @example
 * ```ts
 * import * as EffectAi from "@effect-tinker/agents/EffectAi"
 * import { LanguageModel } from "@effect/ai"
 *
 * export default EffectAi.agent({
 *   tasks: [{ question: "2+3", answer: "5" }],
 *   run: ({ question }) => LanguageModel.generateText({ prompt: question }),
 *   score: ({ answer }, { text }) => text.includes(answer)
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const agent = <Task, Result, E = never, R = never, ES = never, RS = never, ED = never, RD = never>(
  options: Agent.Definition<Task, Result, ES, RS, ED, RD> & {
    readonly settings?: Settings | undefined
    readonly run: (task: Task) => Effect.Effect<Result, E, R>
  }
): Agent.Agent<Task, Result, E | ES, Exclude<R, LanguageModel.LanguageModel> | RS, ED, RD> =>
  Agent.make<Task, Result, E | ES, Exclude<R, LanguageModel.LanguageModel> | RS, ED, RD>({
    ...options,
    run: (task, { model }) =>
      Effect.flatMap(
        make(model, options.settings),
        (service) => Effect.provideService(options.run(task), LanguageModel.LanguageModel, service)
      )
  })

// =============================================================================
// requests
// =============================================================================

const inputError = (description: string) =>
  new AiError.MalformedInput({ module: "EffectAi", method: "prompt", description })

const textOf = (value: unknown): string => typeof value === "string" ? value : JSON.stringify(value)

/** Arguments as a tool's schema decoded them, back in the form the model writes. */
const argumentsOf = (tools: ReadonlyArray<Tool.Any>, { name, params }: Prompt.ToolCallPart): string => {
  const tool = tools.find((one) => one.name === name)
  if (tool === undefined) return textOf(params)
  // `Tool.Any` says nothing about its parameters; a schema that needs services does not encode here and leaves them as is.
  const encode = Schema.encodeUnknownEither(Schema.make<unknown>(tool.parametersSchema.ast))
  return textOf(Either.getOrElse(encode(params), () => params))
}

const messagesOf = (tools: ReadonlyArray<Tool.Any>) =>
(
  message: Prompt.Message
): Effect.Effect<ReadonlyArray<Message.Message>, AiError.AiError> => {
  switch (message.role) {
    case "system":
      return Effect.succeed([Message.system(message.content)])
    case "user":
      return Effect.map(
        Effect.forEach(message.content, (part) =>
          part.type === "text"
            ? Effect.succeed(part.text)
            : Effect.fail(inputError(`the prompt has a file of type ${part.mediaType}; the model takes text`))),
        (texts) => [Message.user(texts.join(""))]
      )
    case "assistant": {
      let [text, reasoning] = ["", ""]
      const toolCalls: Array<Message.ToolCall> = []
      for (const part of message.content) {
        if (part.type === "text") text += part.text
        else if (part.type === "reasoning") reasoning += part.text
        else if (part.type === "tool-call") {
          toolCalls.push({ id: part.id, name: part.name, arguments: argumentsOf(tools, part) })
        } else return Effect.fail(inputError(`an assistant's message has a part of type ${part.type}`))
      }
      return Effect.succeed([{
        ...Message.assistant(text, reasoning === "" ? undefined : reasoning),
        ...(toolCalls.length === 0 ? {} : { toolCalls })
      }])
    }
    case "tool":
      return Effect.succeed(message.content.map(({ id, name, result }) => ({
        role: "tool",
        content: textOf(result),
        toolCallId: id,
        name
      })))
  }
}

const specOf = (tool: Tool.Any): Message.ToolSpec => {
  const { $schema: _, ...parameters } = { $schema: "", ...Tool.getJsonSchemaFromSchemaAst(tool.parametersSchema.ast) }
  return {
    name: tool.name,
    description: tool.description ?? Tool.getDescriptionFromSchemaAst(tool.parametersSchema.ast) ?? "",
    parameters
  }
}

const toolChoiceOf = (choice: LanguageModel.ToolChoice<string>): AgentModel.ToolChoice =>
  typeof choice === "string" ? choice : "tool" in choice ? { name: choice.tool } : choice.mode ?? "auto"

const requestOf = (
  { prompt, responseFormat, toolChoice, tools }: LanguageModel.ProviderOptions,
  settings: Settings
): Effect.Effect<AgentModel.Request, AiError.AiError> =>
  Effect.map(Effect.forEach(prompt.content, messagesOf(tools)), (messages) => ({
    ...settings,
    messages: messages.flat(),
    tools: tools.map(specOf),
    // without tools the choice is `none`, which an answer need not be checked against
    toolChoice: tools.length === 0 ? "auto" : toolChoiceOf(toolChoice),
    responseFormat: responseFormat.type === "json"
      ? { _tag: "Json", schema: { ...Tool.getJsonSchemaFromSchemaAst(responseFormat.schema.ast) } }
      : { _tag: "Text" }
  }))

// =============================================================================
// responses
// =============================================================================

const toAiError = (method: string) => (error: AgentModel.AgentModelError): AiError.AiError => {
  const fields = { module: "EffectAi", method, description: error.message, cause: error }
  switch (error._tag) {
    case "ReplyRejected":
      return new AiError.MalformedOutput(fields)
    case "ContextOverflow":
    case "RenderFailed":
    case "ChatTemplateFailed":
    case "InvalidInput":
      return new AiError.MalformedInput(fields)
    default:
      return new AiError.UnknownError(fields)
  }
}

const toolCallOf = (call: AgentModel.ToolCall): Effect.Effect<Response.ToolCallPartEncoded, AiError.AiError> =>
  Effect.mapBoth(Effect.try((): unknown => Tool.unsafeSecureJsonParse(call.arguments)), {
    onFailure: (cause) =>
      new AiError.MalformedOutput({
        module: "EffectAi",
        method: "toolCall",
        description: `the arguments of ${call.name} are not JSON: ${call.arguments}`,
        cause
      }),
    onSuccess: (params) => ({ type: "tool-call", id: call.id, name: call.name, params })
  })

const finishOf = (reply: AgentModel.Reply): Response.FinishPartEncoded => {
  const { cachedTokens, completionTokens, promptTokens } = reply.usage
  return {
    type: "finish",
    reason: reply.finishReason === "tool_calls" ? "tool-calls" : reply.finishReason,
    usage: {
      inputTokens: promptTokens,
      outputTokens: completionTokens,
      totalTokens: promptTokens + completionTokens,
      cachedInputTokens: cachedTokens
    },
    metadata: {
      tinker: {
        callId: reply.callId,
        rollout: reply.rollout,
        policyVersion: reply.policyVersion,
        origin: reply.origin,
        tokenIds: reply.sampledIds,
        logprobs: reply.logprobs
      }
    }
  }
}

const partsOf = (reply: AgentModel.Reply): Effect.Effect<Array<Response.PartEncoded>, AiError.AiError> =>
  Effect.map(Effect.forEach(reply.toolCalls, toolCallOf), (calls) => [
    ...(reply.reasoning === "" ? [] : [{ type: "reasoning" as const, text: reply.reasoning }]),
    ...(reply.text === "" ? [] : [{ type: "text" as const, text: reply.text }]),
    ...calls,
    finishOf(reply)
  ])

const streamPartsOf = (
  parts: Stream.Stream<AgentModel.Part, AiError.AiError>
): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> =>
  Stream.suspend(() => {
    const { close, write } = Blocks.make()
    return Stream.mapConcatEffect(
      parts,
      (part): Effect.Effect<ReadonlyArray<Response.StreamPartEncoded>, AiError.AiError> => {
        switch (part._tag) {
          case "Text":
          case "Reasoning":
            return Effect.sync(() => write(part))
          case "ToolCall": {
            const { arguments: delta, id, name } = part.call
            return Effect.map(toolCallOf(part.call), (call) => [
              ...close(),
              { type: "tool-params-start", id, name },
              { type: "tool-params-delta", id, delta },
              { type: "tool-params-end", id },
              call
            ])
          }
          case "Reply":
            return Effect.sync(() => [...close(), finishOf(part.reply)])
        }
      }
    )
  })
