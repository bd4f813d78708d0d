/**
 * A language model as agents use it: messages and tools in, a message out. Every call is recorded with the exact tokens
 * that were sampled. The gateway, the AI SDK model and the `@effect/ai` layer are all built on it.
 *
 * Tinker samples whole answers: a stream delivers its parts as soon as the answer is complete, not while it is sampled.
 *
 * @since 0.1.0
 */
import { Validator } from "@cfworker/json-schema"
import * as RunConfig from "@effect-tinker/cookbook/RunConfig"
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import type * as TinkerError from "effect-tinker/TinkerError"
import type { Stop } from "effect-tinker/wire/SamplingParams"
import type * as TopkLogprobs from "effect-tinker/wire/TopkLogprobs"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Recorder from "./Recorder.js"
import type * as Sampler from "./Sampler.js"

// =============================================================================
// requests and replies
// =============================================================================

/**
 * Whether the model calls tools: as it likes, not at all, at least one, or the one named. Anything but `auto` is enforced
 * by sampling again.
 *
 * @since 0.1.0
 * @category models
 */
export type ToolChoice = "auto" | "none" | "required" | { readonly name: string }

/**
 * Text, or JSON: of any kind, or as a JSON Schema has it. JSON is enforced by sampling again; the prompt asks for it.
 *
 * @since 0.1.0
 * @category models
 */
export type ResponseFormat =
  | { readonly _tag: "Text" }
  | { readonly _tag: "Json"; readonly schema?: Readonly<Record<string, unknown>> | undefined }

/**
 * How an answer is drawn. What is left out is the model's own choice.
 *
 * @since 0.1.0
 * @category models
 */
export interface Drawing {
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topK?: number | undefined
  readonly topP?: number | undefined
  readonly seed?: number | undefined
  /** Texts to end at; they are not part of the answer. */
  readonly stop?: ReadonlyArray<string> | undefined
  readonly topLogprobs?: number | undefined
  /** Defaults to the model's own rollout. */
  readonly rollout?: string | undefined
}

/**
 * Request of an agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Request extends Drawing {
  /** The conversation, with the system's message first if there is one. Tools are declared by `tools` alone. */
  readonly messages: ReadonlyArray<Message.Message>
  readonly tools?: ReadonlyArray<Message.ToolSpec> | undefined
  /** Defaults to `auto`. */
  readonly toolChoice?: ToolChoice | undefined
  /** Whether one answer may call several tools. Defaults to true. */
  readonly parallelToolCalls?: boolean | undefined
  /** Defaults to text. */
  readonly responseFormat?: ResponseFormat | undefined
}

/**
 * Text or ids to go on from, without a chat format.
 *
 * @since 0.1.0
 * @category models
 */
export interface CompletionRequest extends Drawing {
  readonly prompt: string | ArrayLike<number>
}

/**
 * Why an answer ended.
 *
 * @since 0.1.0
 * @category models
 */
export type FinishReason = "stop" | "length" | "tool_calls"

/**
 * A call of a tool with the id its result refers to.
 *
 * @since 0.1.0
 * @category models
 */
export interface ToolCall extends Message.ToolCall {
  readonly id: string
}

/**
 * Answer of the model, with the exact tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface Reply {
  readonly callId: string
  readonly rollout: string
  /** The answer as a message to append to the conversation. */
  readonly message: Message.Message
  readonly text: string
  /** Empty when there is none. */
  readonly reasoning: string
  readonly toolCalls: ReadonlyArray<ToolCall>
  readonly finishReason: FinishReason
  /** The text of `stop` that ended the answer, when one did. */
  readonly stopText: string | undefined
  readonly usage: {
    readonly promptTokens: number
    readonly completionTokens: number
    /** Tokens of the prompt that continue an earlier call. */
    readonly cachedTokens: number
  }
  readonly promptIds: Int32Array
  readonly sampledIds: Int32Array
  /** One for each sampled id. */
  readonly logprobs: Float32Array
  readonly topLogprobs: ReadonlyArray<ReadonlyArray<TopkLogprobs.Candidate>> | undefined
  readonly policyVersion: number
  readonly origin: Recorder.Origin
  /** The answer in the pieces it was written in. */
  readonly deltas: ReadonlyArray<Delta>
}

/**
 * A piece of an answer.
 *
 * @since 0.1.0
 * @category models
 */
export type Delta =
  | { readonly _tag: "Reasoning"; readonly text: string }
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "ToolCall"; readonly call: ToolCall }

/**
 * A piece of an answer, and at the end the reply.
 *
 * @since 0.1.0
 * @category models
 */
export type Part = Delta | { readonly _tag: "Reply"; readonly reply: Reply }

/**
 * The model never gave an answer of the kind that was asked for.
 *
 * @since 0.1.0
 * @category errors
 */
export class ReplyRejected extends Schema.TaggedError<ReplyRejected>("@effect-tinker/agents/AgentModel/ReplyRejected")(
  "ReplyRejected",
  { reason: Schema.String, attempts: Schema.Int, text: Schema.String }
) {
  /** Another draw may be of that kind. */
  get isRetryable(): boolean {
    return true
  }
  override get message(): string {
    return `no usable answer in ${this.attempts} attempts: ${this.reason}`
  }
}

/**
 * The prompt leaves no room for an answer.
 *
 * @since 0.1.0
 * @category errors
 */
export class ContextOverflow
  extends Schema.TaggedError<ContextOverflow>("@effect-tinker/agents/AgentModel/ContextOverflow")("ContextOverflow", {
    promptTokens: Schema.Int,
    contextWindow: Schema.Int
  })
{
  /** The same conversation is as long the next time. */
  get isRetryable(): boolean {
    return false
  }
  override get message(): string {
    return `the prompt has ${this.promptTokens} tokens; the model takes ${this.contextWindow} with the answer`
  }
}

/**
 * Failures of a call.
 *
 * @since 0.1.0
 * @category errors
 */
export type AgentModelError =
  | TinkerError.TinkerError
  | RenderFailed
  | ChatTemplateFailed
  | ReplyRejected
  | ContextOverflow
  | Recorder.RecorderFull
  | Recorder.RecordingFailed

// =============================================================================
// service
// =============================================================================

/**
 * A language model whose calls are recorded.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** The rollout of requests that name none. */
  readonly rollout: string
  readonly renderer: Renderer.Renderer
  /** One answer. */
  readonly generate: (request: Request) => Effect.Effect<Reply, AgentModelError>
  /** Several answers to the same prompt. */
  readonly generateMany: (
    request: Request,
    count: number
  ) => Effect.Effect<Arr.NonEmptyReadonlyArray<Reply>, AgentModelError>
  /** Goes on from text or ids. Ids that begin with those of an earlier completion continue it. */
  readonly complete: (
    request: CompletionRequest,
    count: number
  ) => Effect.Effect<Arr.NonEmptyReadonlyArray<Reply>, AgentModelError>
  /** Tokens of the prompt that a request would be answered after; nothing is sampled or recorded. */
  readonly countTokens: (request: Request) => Effect.Effect<number, AgentModelError>
  /** One answer in pieces; the last part is the reply. */
  readonly stream: (request: Request) => Stream.Stream<Part, AgentModelError>
}

/**
 * The model as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class AgentModel extends Context.Tag("@effect-tinker/agents/AgentModel")<AgentModel, Service>() {}

/**
 * How a model is called.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  readonly sampler: Sampler.Sampler
  /** The model's chat format: see `Renderers.forModel`. */
  readonly renderer: Renderer.Renderer
  /** The rollout of requests that name none. Defaults to a random one. */
  readonly rollout?: string | undefined
  /** Tokens a prompt and its answer may have together. Defaults to no limit of ours. */
  readonly contextWindow?: number | undefined
  /** Defaults of requests. */
  readonly defaults?:
    | Pick<Drawing, "maxTokens" | "temperature" | "topK" | "topP" | "seed">
    | undefined
  /** Draws before an answer that must be JSON or call a tool is given up. Defaults to 3. */
  readonly attempts?: number | undefined
  /**
   * Text added to the system message when JSON is asked for, given the JSON Schema if there is one; empty for nothing.
   * Defaults to a request for JSON with the schema.
   */
  readonly jsonInstruction?: ((schema: Readonly<Record<string, unknown>> | undefined) => string) | undefined
  /** How strictly a follow-up continues what was sampled. Defaults to the strictest. */
  readonly continuation?: Renderer.ContinueOptions | undefined
}

/**
 * A model over a sampler, recorded by the recorder in the context.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options: Options) => Effect.Effect<Service, never, Recorder.Recorder> = Effect.fnUntraced(
  function*(options) {
    const recorder = yield* Recorder.Recorder
    const { contextWindow = Infinity, renderer } = options
    const ownRollout = options.rollout ?? `rollout-${yield* Entropy.hex(8)}`
    const attempts = Math.max(1, options.attempts ?? 3)

    /** Draws until there are as many answers without a problem as asked for, and records every draw. */
    const draw = Effect.fnUntraced(function*(
      request: Drawing,
      count: number,
      call: {
        readonly rollout: string
        readonly prompt: Recorder.Prompt
        readonly toolsHash: string
        readonly startedAt: number
        readonly stop: Stop | undefined
        readonly read: (callId: string, sample: Sampler.Sample) => Reply
        readonly problemOf: (reply: Reply) => string | undefined
      }
    ) {
      const { prompt, rollout } = call
      const room = contextWindow - prompt.ids.length
      if (room < 1) return yield* new ContextOverflow({ promptTokens: prompt.ids.length, contextWindow })
      const { defaults = {} } = options
      const maxTokens = Math.min(request.maxTokens ?? defaults.maxTokens ?? Infinity, room)
      const temperature = request.temperature ?? defaults.temperature
      const seed = request.seed ?? defaults.seed
      // Greedy draws repeat themselves.
      const draws = temperature === 0 ? 1 : attempts
      const accepted: Array<Reply> = []
      let reason = "the sampler drew nothing"
      let text = ""
      for (let n = 0; n < draws && accepted.length < count; n++) {
        const samples = yield* options.sampler.sample({
          prompt: prompt.ids,
          stop: call.stop,
          count: count - accepted.length,
          maxTokens: Number.isFinite(maxTokens) ? maxTokens : undefined,
          temperature,
          topK: request.topK ?? defaults.topK,
          topP: request.topP ?? defaults.topP,
          seed: seed === undefined ? undefined : seed + n,
          topLogprobs: request.topLogprobs
        })
        const endedAt = yield* Clock.currentTimeMillis
        for (const sample of samples) {
          const reply = call.read(`call-${yield* Entropy.hex(12)}`, sample)
          const rejected = call.problemOf(reply)
          yield* recorder.record({
            id: reply.callId,
            rollout,
            origin: prompt.origin,
            policyVersion: sample.policyVersion,
            toolsHash: call.toolsHash,
            turn: { messages: prompt.messages, prompt: prompt.ids, completion: reply.sampledIds },
            logprobs: reply.logprobs,
            stopReason: sample.stopReason,
            message: reply.message,
            rejected,
            startedAt: call.startedAt,
            endedAt
          })
          if (rejected === undefined) accepted.push(reply)
          else {
            reason = rejected
            text = reply.text
          }
        }
      }
      return Arr.isNonEmptyReadonlyArray(accepted) && accepted.length === count
        ? accepted
        : yield* new ReplyRejected({ reason, attempts: draws, text })
    })

    const promptFor = (request: Request, rollout: string) =>
      Effect.flatMap(
        conversationOf(renderer, request, options.jsonInstruction ?? askForJson),
        (conversation) => recorder.prompt(rollout, renderer, conversation, options.continuation)
      )

    const generateMany = Effect.fnUntraced(function*(request: Request, count: number) {
      const rollout = request.rollout ?? ownRollout
      const startedAt = yield* Clock.currentTimeMillis
      const tools = request.tools ?? []
      const toolsHash = tools.length === 0 ? "" : yield* RunConfig.hash(tools)
      const prompt = yield* promptFor(request, rollout)
      const [first] = renderer.stop
      return yield* draw(request, count, {
        rollout,
        prompt,
        toolsHash,
        startedAt,
        stop: typeof first === "string" ? [...renderer.stop.map(String), ...(request.stop ?? [])] : renderer.stop,
        read: (callId, sample) =>
          read((ids) => readDeltas(renderer, ids, callId), request, { prompt, rollout, callId }, sample),
        problemOf: (reply) => problemOf(request, reply)
      })
    })

    const complete = Effect.fnUntraced(function*(request: CompletionRequest, count: number) {
      const rollout = request.rollout ?? ownRollout
      const startedAt = yield* Clock.currentTimeMillis
      const { tokenizer } = renderer
      const ids = typeof request.prompt === "string"
        ? tokenizer.encode(request.prompt)
        : Int32Array.from(request.prompt)
      const prompt = yield* recorder.promptOfIds(rollout, ids)
      return yield* draw(request, count, {
        rollout,
        prompt,
        toolsHash: "",
        startedAt,
        stop: request.stop,
        read: (callId, sample) =>
          read((ids) => decodeDeltas(renderer, ids), request, { prompt, rollout, callId }, sample),
        problemOf: () => undefined
      })
    })

    const generate = (request: Request) => Effect.map(generateMany(request, 1), ([reply]) => reply)
    return {
      rollout: ownRollout,
      renderer,
      generate,
      generateMany,
      complete,
      countTokens: (request) => Effect.map(promptFor(request, request.rollout ?? ownRollout), ({ ids }) => ids.length),
      stream: (request) => Stream.unwrap(Effect.map(generate(request), (reply) => Stream.fromIterable(partsOf(reply))))
    }
  }
)

/**
 * A model over a sampler, recorded by the recorder in the context.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options: Options): Layer.Layer<AgentModel, never, Recorder.Recorder> =>
  Layer.effect(AgentModel, make(options))

/**
 * A reply as the parts of a stream.
 *
 * @since 0.1.0
 * @category combinators
 */
export const partsOf = (reply: Reply): ReadonlyArray<Part> => [...reply.deltas, { _tag: "Reply", reply }]

// =============================================================================
// prompts
// =============================================================================

const askForJson = (schema: Readonly<Record<string, unknown>> | undefined): string =>
  schema === undefined
    ? "Answer with JSON only."
    : `Answer with JSON only, as this JSON Schema has it:\n${JSON.stringify(schema)}`

/** The messages with tools and response format in front, where the format has them. */
const conversationOf = (
  renderer: Renderer.Renderer,
  { messages, responseFormat, tools = [] }: Request,
  jsonInstruction: (schema: Readonly<Record<string, unknown>> | undefined) => string
): Effect.Effect<ReadonlyArray<Message.Message>, RenderFailed> => {
  const [first] = messages
  const isSystem = first?.role === "system"
  const instruction = responseFormat?._tag === "Json" ? jsonInstruction(responseFormat.schema) : ""
  if (tools.length === 0 && instruction === "") return Effect.succeed(messages)
  const system = [isSystem ? Message.text(first) : "", instruction].filter((text) => text !== "").join("\n\n")
  const rest = isSystem ? messages.slice(1) : messages
  return tools.length === 0
    ? Effect.succeed([Message.system(system), ...rest])
    : Effect.map(renderer.toolMessages(tools, system), (preamble) => [...preamble, ...rest])
}

// =============================================================================
// answers
// =============================================================================

const textOf = (deltas: ReadonlyArray<Delta>, tag: "Text" | "Reasoning"): string =>
  deltas.map((delta) => delta._tag === tag ? delta.text : "").join("")

/** Text of tokens, in the pieces they were written in. A tool call that cannot be read is text. */
const readDeltas = (renderer: Renderer.Renderer, ids: Int32Array, callId: string): ReadonlyArray<Delta> => {
  const parser = renderer.parser()
  const deltas: Array<Renderer.Delta> = []
  for (const id of ids) for (const delta of parser.push([id])) deltas.push(delta)
  deltas.push(...parser.end().deltas)
  let calls = 0
  return deltas.map((delta): Delta => {
    switch (delta._tag) {
      case "Text":
        return delta
      case "Thinking":
        return { _tag: "Reasoning", text: delta.thinking }
      case "ToolCall":
        return { _tag: "ToolCall", call: { ...delta.call, id: delta.call.id ?? `${callId}-${calls++}` } }
      case "UnparsedToolCall":
        return { _tag: "Text", text: delta.call.rawText }
    }
  })
}

/** Text of tokens without a chat format. */
const decodeDeltas = ({ tokenizer }: Renderer.Renderer, ids: Int32Array): ReadonlyArray<Delta> => {
  const decoder = tokenizer.decoder({ skipSpecialTokens: true })
  return [...Array.from(ids, (id) => decoder.push([id])), decoder.end()].flatMap((text) =>
    text === "" ? [] : [{ _tag: "Text", text }]
  )
}

/** The first stop in a text, and where it is. */
const stopIn = (
  text: string,
  stops: ReadonlyArray<string>
): { readonly at: number; readonly stop: string } | undefined => {
  let first: { readonly at: number; readonly stop: string } | undefined
  for (const stop of stops) {
    const at = stop === "" ? -1 : text.indexOf(stop)
    if (at >= 0 && (first === undefined || at < first.at)) first = { at, stop }
  }
  return first
}

/** The deltas up to a length of their text. */
const cutText = (deltas: ReadonlyArray<Delta>, length: number): ReadonlyArray<Delta> => {
  const kept: Array<Delta> = []
  let left = length
  for (const delta of deltas) {
    if (delta._tag !== "Text") kept.push(delta)
    else if (left > 0) {
      kept.push({ _tag: "Text", text: delta.text.slice(0, left) })
      left -= delta.text.length
    }
  }
  return kept
}

const read = (
  deltasOf: (ids: Int32Array) => ReadonlyArray<Delta>,
  request: Drawing,
  call: { readonly prompt: Recorder.Prompt; readonly rollout: string; readonly callId: string },
  sample: Sampler.Sample
): Reply => {
  const { callId, prompt, rollout } = call
  const stops = request.stop ?? []
  let length = sample.tokens.length
  let deltas = deltasOf(sample.tokens)
  const found = stopIn(textOf(deltas, "Text"), stops)
  if (found !== undefined) {
    // The sampler takes ids or texts to stop at, not both: what it drew after the text is dropped, id by id.
    let [low, high] = [1, length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (stopIn(textOf(deltasOf(sample.tokens.subarray(0, middle)), "Text"), stops) !== undefined) high = middle
      else low = middle + 1
    }
    length = low
    deltas = cutText(deltasOf(sample.tokens.subarray(0, length)), found.at)
  }
  const text = textOf(deltas, "Text")
  const reasoning = textOf(deltas, "Reasoning")
  const toolCalls = deltas.flatMap((delta) => delta._tag === "ToolCall" ? [delta.call] : [])
  const origin = prompt.origin
  return {
    callId,
    rollout,
    message: {
      ...Message.assistant(text, reasoning === "" ? undefined : reasoning),
      ...(toolCalls.length === 0 ? {} : { toolCalls })
    },
    text,
    reasoning,
    toolCalls,
    finishReason: toolCalls.length > 0
      ? "tool_calls"
      : found === undefined && sample.stopReason === "length"
      ? "length"
      : "stop",
    stopText: found?.stop,
    usage: {
      promptTokens: prompt.ids.length,
      completionTokens: length,
      cachedTokens: origin._tag === "Continued" ? origin.ids : 0
    },
    promptIds: prompt.ids,
    sampledIds: sample.tokens.subarray(0, length),
    logprobs: sample.logprobs.subarray(0, length),
    topLogprobs: sample.topLogprobs?.slice(0, length),
    policyVersion: sample.policyVersion,
    origin,
    deltas
  }
}

/** Why an answer is not what was asked for. */
const problemOf = (
  { parallelToolCalls = true, responseFormat, toolChoice = "auto" }: Request,
  reply: Reply
): string | undefined => {
  const { finishReason, text, toolCalls } = reply
  if (toolChoice === "none" && toolCalls.length > 0) return "it calls a tool although none is allowed"
  if (!parallelToolCalls && toolCalls.length > 1) return "it calls several tools although one at a time is allowed"
  if (toolChoice === "required" && toolCalls.length === 0) return "it calls no tool although one is required"
  if (typeof toolChoice === "object" && !toolCalls.some(({ name }) => name === toolChoice.name)) {
    return `it does not call ${toolChoice.name}`
  }
  if (responseFormat?._tag !== "Json" || toolCalls.length > 0) return undefined
  if (finishReason === "length") return "its JSON is cut short"
  const value = Either.try((): unknown => JSON.parse(text))
  if (Either.isLeft(value)) return "it is not JSON"
  if (responseFormat.schema === undefined) return undefined
  const { schema } = responseFormat
  // the schema is the client's: one with references that lead nowhere throws
  return Either.match(Either.try(() => new Validator(schema).validate(value.right)), {
    onLeft: (error) => `the JSON Schema cannot be used: ${String(error)}`,
    onRight: ({ errors, valid }) =>
      valid ? undefined : `its JSON does not match the schema: ${errors.at(-1)?.error ?? ""}`
  })
}
