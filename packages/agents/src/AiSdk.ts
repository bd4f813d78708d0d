/**
 * A recorded model for the AI SDK: `generateText`, `streamText`, `ToolLoopAgent` and everything else that takes a
 * `LanguageModel`. It implements version 3 of the provider specification, which `ai` 6 and 7 accept.
 *
 * Results carry `providerMetadata.tinker`: the call's id, how it continues earlier ones, and the sampled ids.
 *
 * @since 0.1.0
 */
import type {
  JSONObject,
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3FinishReason,
  LanguageModelV3Message,
  LanguageModelV3StreamPart,
  LanguageModelV3ToolResultOutput,
  LanguageModelV3Usage,
  SharedV3ProviderMetadata,
  SharedV3Warning
} from "@ai-sdk/provider"
import * as Message from "@effect-tinker/tokenizer/Message"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Runtime from "effect/Runtime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Agent from "./Agent.js"
import type * as AgentModel from "./AgentModel.js"
import * as Blocks from "./internal/blocks.js"

// =============================================================================
// models
// =============================================================================

/**
 * How the model presents itself to the AI SDK.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /** Defaults to the name of the model's chat format. */
  readonly modelId?: string | undefined
}

/**
 * The prompt has something in it that the model cannot be given, such as an image.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnsupportedPrompt
  extends Schema.TaggedError<UnsupportedPrompt>("@effect-tinker/agents/AiSdk/UnsupportedPrompt")("UnsupportedPrompt", {
    description: Schema.String
  })
{
  override get message(): string {
    return this.description
  }
}

// =============================================================================
// constructors
// =============================================================================

/**
 * The model for the AI SDK. Its calls run in the runtime of this Effect. An abort signal interrupts the call it was given
 * to; a rollout other than the model's own is chosen with `providerOptions: { tinker: { rollout } }`.
 *
 * @example
 * ```ts
 * import { AgentModel } from "@effect-tinker/agents"
 * import * as AiSdk from "@effect-tinker/agents/AiSdk"
 * import { generateText } from "ai"
 * import { Effect } from "effect"
 *
 * const program = Effect.gen(function*() {
 *   const model = yield* AiSdk.make(yield* AgentModel.AgentModel)
 *   const { text } = yield* Effect.promise((abortSignal) =>
 *     generateText({ model, prompt: "Who are you?", abortSignal })
 *   )
 *   return text
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (model: AgentModel.Service, options?: Options): Effect.Effect<LanguageModelV3> =>
  Effect.map(Effect.runtime<never>(), (runtime) => fromRuntime(runtime, model, options))

/**
 * {@link make} with a runtime at hand.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromRuntime = (
  runtime: Runtime.Runtime<never>,
  model: AgentModel.Service,
  options?: Options
): LanguageModelV3 => {
  const modelId = options?.modelId ?? model.renderer.name
  return {
    specificationVersion: "v3",
    provider: "tinker",
    modelId,
    supportedUrls: {},
    doGenerate: async (call) => {
      const exit = await Runtime.runPromiseExit(
        runtime,
        Effect.gen(function*() {
          const { request, warnings } = yield* requestOf(call)
          const reply = yield* model.generate(request)
          return { reply, warnings, time: yield* Clock.currentTimeMillis }
        }),
        call.abortSignal === undefined ? {} : { signal: call.abortSignal }
      )
      if (Exit.isFailure(exit)) throw errorOf(exit.cause, call.abortSignal)
      const { reply, time, warnings } = exit.value
      return {
        content: contentOf(reply),
        finishReason: finishReasonOf(reply),
        usage: usageOf(reply),
        providerMetadata: metadataOf(reply),
        response: { id: reply.callId, modelId, timestamp: new Date(time) },
        warnings
      }
    },
    doStream: async (call) => ({
      stream: Stream.toReadableStreamRuntime(partsFor(model, modelId, call), runtime)
    })
  }
}

/**
 * Context of a run of the agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunContext {
  readonly model: LanguageModelV3
  /** Aborted when the run is over before the agent is. */
  readonly signal: AbortSignal
}

/**
 * An agent written with the AI SDK, to be trained: its `model` is the one it takes from the run.
 *
 * @example
 * ```ts
 * import * as AiSdk from "@effect-tinker/agents/AiSdk"
 * import { ToolLoopAgent } from "ai"
 *
 * export default AiSdk.agent({
 *   tasks: [{ question: "2+3", answer: "5" }],
 *   run: ({ question }, { model, signal }) =>
 *     new ToolLoopAgent({ model }).generate({ prompt: question, abortSignal: signal }),
 *   score: ({ answer }, { text }) => text.includes(answer)
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const agent = <Task, Result, E = never, R = never, ED = never, RD = never>(
  options: Agent.Definition<Task, Result, E, R, ED, RD> & Options & {
    readonly run: (task: Task, context: RunContext) => PromiseLike<Result>
  }
): Agent.Agent<Task, Result, E, R, ED, RD> =>
  Agent.make({
    ...options,
    run: (task, { model, signal }) =>
      Effect.flatMap(make(model, options), (wrapped) =>
        Effect.tryPromise({
          try: () => options.run(task, { model: wrapped, signal }),
          catch: Agent.failed("run")
        }))
  })

// =============================================================================
// prompts
// =============================================================================

const unsupported = (description: string) => Effect.fail(new UnsupportedPrompt({ description }))

const outputText = (output: LanguageModelV3ToolResultOutput): Effect.Effect<string, UnsupportedPrompt> => {
  switch (output.type) {
    case "text":
    case "error-text":
      return Effect.succeed(output.value)
    case "json":
    case "error-json":
      return Effect.succeed(JSON.stringify(output.value))
    case "execution-denied":
      return Effect.succeed(output.reason ?? "The tool was not run: permission was denied.")
    case "content":
      return Effect.map(
        Effect.forEach(output.value, (part) =>
          part.type === "text"
            ? Effect.succeed(part.text)
            : unsupported(`a tool answered with ${part.type}; only text can be given to the model`)),
        (texts) => texts.join("\n")
      )
  }
}

/** Arguments that could not be read as JSON come back as the text they are. */
const argumentsOf = (input: unknown): string => typeof input === "string" ? input : JSON.stringify(input)

type Assistant = Extract<LanguageModelV3Message, { readonly role: "assistant" }>

const assistantMessage = Effect.fnUntraced(function*({ content }: Assistant) {
  let [text, reasoning] = ["", ""]
  const toolCalls: Array<Message.ToolCall> = []
  for (const part of content) {
    if (part.type === "text") text += part.text
    else if (part.type === "reasoning") reasoning += part.text
    else if (part.type === "tool-call") {
      toolCalls.push({ id: part.toolCallId, name: part.toolName, arguments: argumentsOf(part.input) })
    } else return yield* unsupported(`an assistant's message has a part of type ${part.type}`)
  }
  return {
    ...Message.assistant(text, reasoning === "" ? undefined : reasoning),
    ...(toolCalls.length === 0 ? {} : { toolCalls })
  }
})

const messagesOf = (
  message: LanguageModelV3Message
): Effect.Effect<ReadonlyArray<Message.Message>, UnsupportedPrompt> => {
  switch (message.role) {
    case "system":
      return Effect.succeed([Message.system(message.content)])
    case "user":
      return Effect.map(
        Effect.forEach(message.content, (part) =>
          part.type === "text"
            ? Effect.succeed(part.text)
            : unsupported(`the prompt has a file of type ${part.mediaType}; the model takes text`)),
        (texts) => [Message.user(texts.join(""))]
      )
    case "assistant":
      return Effect.map(assistantMessage(message), (one) => [one])
    case "tool":
      return Effect.forEach(
        // an approval is between the agent and its user; the model is given the result
        message.content.filter((part) => part.type === "tool-result"),
        ({ output, toolCallId, toolName }) =>
          Effect.map(outputText(output), (content) => ({ role: "tool", content, toolCallId, name: toolName }))
      )
  }
}

const requestOf = Effect.fnUntraced(function*(call: LanguageModelV3CallOptions) {
  const warnings: Array<SharedV3Warning> = []
  for (const feature of ["presencePenalty", "frequencyPenalty"] as const) {
    if (call[feature] !== undefined) warnings.push({ type: "unsupported", feature })
  }
  const tools: Array<Message.ToolSpec> = []
  for (const tool of call.tools ?? []) {
    if (tool.type === "function") {
      const parameters = Object.fromEntries(Object.entries(tool.inputSchema).filter(([key]) => key !== "$schema"))
      tools.push({ name: tool.name, description: tool.description ?? "", parameters })
    } else warnings.push({ type: "unsupported", feature: `tool ${tool.id}`, details: "it runs at another provider" })
  }
  const { responseFormat, toolChoice } = call
  const { rollout } = call.providerOptions?.["tinker"] ?? {}
  const request: AgentModel.Request = {
    messages: (yield* Effect.forEach(call.prompt, messagesOf)).flat(),
    tools,
    toolChoice: toolChoice === undefined
      ? "auto"
      : toolChoice.type === "tool"
      ? { name: toolChoice.toolName }
      : toolChoice.type,
    responseFormat: responseFormat?.type === "json"
      ? { _tag: "Json", ...(responseFormat.schema === undefined ? {} : { schema: { ...responseFormat.schema } }) }
      : { _tag: "Text" },
    maxTokens: call.maxOutputTokens,
    temperature: call.temperature,
    topK: call.topK,
    topP: call.topP,
    seed: call.seed,
    stop: call.stopSequences,
    rollout: typeof rollout === "string" ? rollout : undefined
  }
  return { request, warnings }
})

// =============================================================================
// results
// =============================================================================

const contentOf = ({ reasoning, text, toolCalls }: AgentModel.Reply): Array<LanguageModelV3Content> => [
  ...(reasoning === "" ? [] : [{ type: "reasoning" as const, text: reasoning }]),
  ...(text === "" ? [] : [{ type: "text" as const, text }]),
  ...toolCalls.map(toolCallOf)
]

const toolCallOf = (call: AgentModel.ToolCall) => ({
  type: "tool-call" as const,
  toolCallId: call.id,
  toolName: call.name,
  input: call.arguments
})

const finishReasonOf = ({ finishReason }: AgentModel.Reply): LanguageModelV3FinishReason => ({
  unified: finishReason === "tool_calls" ? "tool-calls" : finishReason,
  raw: finishReason
})

const usageOf = (
  { usage: { cachedTokens, completionTokens, promptTokens } }: AgentModel.Reply
): LanguageModelV3Usage => ({
  inputTokens: {
    total: promptTokens,
    noCache: promptTokens - cachedTokens,
    cacheRead: cachedTokens,
    cacheWrite: undefined
  },
  outputTokens: { total: completionTokens, text: undefined, reasoning: undefined }
})

const originOf = ({ origin }: AgentModel.Reply): JSONObject => {
  switch (origin._tag) {
    case "Root":
      return { type: "root" }
    case "Continued":
      return { type: "continued", parent: origin.parent }
    case "Forked":
      return {
        type: "forked",
        reason: origin.fork.reason,
        description: origin.fork.description,
        ...(origin.parent === undefined ? {} : { parent: origin.parent })
      }
  }
}

const metadataOf = (reply: AgentModel.Reply): SharedV3ProviderMetadata => ({
  tinker: {
    callId: reply.callId,
    rollout: reply.rollout,
    policyVersion: reply.policyVersion,
    origin: originOf(reply),
    tokenIds: Array.from(reply.sampledIds),
    logprobs: Array.from(reply.logprobs)
  }
})

/** Reason with which an abort rejects: the signal's reason, which is an `AbortError` unless the caller chose another. */
const errorOf = (cause: Cause.Cause<unknown>, signal: AbortSignal | undefined): unknown =>
  signal?.aborted === true ? signal.reason : Cause.squash(cause)

// =============================================================================
// streams
// =============================================================================

const partsFor = (
  model: AgentModel.Service,
  modelId: string,
  call: LanguageModelV3CallOptions
): Stream.Stream<LanguageModelV3StreamPart, unknown> =>
  Stream.unwrap(Effect.map(requestOf(call), ({ request, warnings }) => {
    const { close, write } = Blocks.make()
    const toParts = (part: AgentModel.Part): Effect.Effect<ReadonlyArray<LanguageModelV3StreamPart>> =>
      Effect.map(Clock.currentTimeMillis, (time) => {
        switch (part._tag) {
          case "Text":
          case "Reasoning":
            return write(part)
          case "ToolCall": {
            const { arguments: delta, id, name } = part.call
            return [
              ...close(),
              { type: "tool-input-start", id, toolName: name },
              { type: "tool-input-delta", id, delta },
              { type: "tool-input-end", id },
              toolCallOf(part.call)
            ]
          }
          case "Reply":
            return [
              ...close(),
              { type: "response-metadata", id: part.reply.callId, modelId, timestamp: new Date(time) },
              {
                type: "finish",
                finishReason: finishReasonOf(part.reply),
                usage: usageOf(part.reply),
                providerMetadata: metadataOf(part.reply)
              }
            ]
        }
      })
    return Stream.concat(
      Stream.make<[LanguageModelV3StreamPart]>({ type: "stream-start", warnings }),
      Stream.mapConcatEffect(model.stream(request), toParts)
    )
  })).pipe(
    // Failures are parts of a stream; only an abort breaks it off.
    Stream.catchAll((error) => Stream.make<[LanguageModelV3StreamPart]>({ type: "error", error })),
    Stream.interruptWhen(aborted(call.abortSignal))
  )

/** Fails with the reason when the signal is aborted. */
const aborted = (signal: AbortSignal | undefined): Effect.Effect<never, unknown> =>
  signal === undefined ? Effect.never : Effect.async((resume) => {
    const abort = () => resume(Effect.fail(signal.reason))
    if (signal.aborted) return abort()
    signal.addEventListener("abort", abort, { once: true })
    return Effect.sync(() => signal.removeEventListener("abort", abort))
  })
