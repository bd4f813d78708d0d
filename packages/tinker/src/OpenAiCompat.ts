/**
 * The OpenAI-compatible surface of the service: chat and text completions, whole or as a stream, for quick tries of
 * base models and sampler checkpoints (`tinker://…/sampler_weights/…`).
 *
 * Fields keep OpenAI's own names. What this module does not name passes through in both directions.
 *
 * @since 0.1.0
 */
import type * as Config from "effect/Config"
import type * as ConfigError from "effect/ConfigError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Credentials from "./Credentials.js"
import { pieces } from "./internal/sampling/completionStream.js"
import * as ApiClient from "./internal/transport/apiClient.js"
import type * as Calls from "./internal/transport/calls.js"
import * as TinkerConfig from "./TinkerConfig.js"
import type * as TinkerError from "./TinkerError.js"
import type * as TinkerTransport from "./TinkerTransport.js"
import * as Endpoint from "./wire/Endpoint.js"

const nullish = <A, I>(schema: Schema.Schema<A, I>) => Schema.optionalWith(schema, { nullable: true })

/**
 * A message of a conversation.
 *
 * @since 0.1.0
 * @category models
 */
export interface Message {
  readonly role: "system" | "user" | "assistant" | (string & {})
  readonly content: string
}

interface Common {
  /** A base model, or the path of sampler weights. */
  readonly model: string
  readonly max_tokens?: number | undefined
  readonly temperature?: number | undefined
  readonly top_p?: number | undefined
  readonly n?: number | undefined
  readonly seed?: number | undefined
  readonly stop?: string | ReadonlyArray<string> | undefined
  /** Anything else the surface understands, such as `reasoning_effort`. */
  readonly [field: string]: unknown
}

/**
 * Continue a conversation.
 *
 * @since 0.1.0
 * @category models
 */
export interface ChatRequest extends Common {
  readonly messages: ReadonlyArray<Message>
}

/**
 * Continue a text.
 *
 * @since 0.1.0
 * @category models
 */
export interface CompletionRequest extends Common {
  /** Text, several texts, or, where the server takes them, token ids. */
  readonly prompt: string | ReadonlyArray<string> | ReadonlyArray<number>
}

const Usage = Schema.Struct({
  prompt_tokens: nullish(Schema.Number),
  completion_tokens: nullish(Schema.Number),
  total_tokens: nullish(Schema.Number)
})

const Text = {
  role: nullish(Schema.String),
  content: nullish(Schema.String),
  reasoning_content: nullish(Schema.String)
}

const envelope = {
  id: nullish(Schema.String),
  model: nullish(Schema.String),
  created: nullish(Schema.Number),
  usage: nullish(Usage)
}

const choice = { index: nullish(Schema.Number), finish_reason: nullish(Schema.String) }

/**
 * A chat completion. The text is in `content`, in `reasoning_content`, or in both.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ChatCompletion extends Schema.Class<ChatCompletion>("effect-tinker/OpenAiCompat/ChatCompletion")({
  ...envelope,
  choices: Schema.Array(Schema.Struct({ ...choice, message: Schema.Struct(Text) }))
}) {}

/**
 * A piece of a streamed chat completion. The one that reports usage has no choices.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ChatChunk extends Schema.Class<ChatChunk>("effect-tinker/OpenAiCompat/ChatChunk")({
  ...envelope,
  choices: Schema.Array(Schema.Struct({ ...choice, delta: Schema.Struct(Text) }))
}) {}

/**
 * A text completion, or a piece of one. Servers with vLLM's `return_token_ids` give the tokens of the text too.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Completion extends Schema.Class<Completion>("effect-tinker/OpenAiCompat/Completion")({
  ...envelope,
  choices: Schema.Array(
    Schema.Struct({ ...choice, text: Schema.String, token_ids: nullish(Schema.Array(Schema.Number)) })
  )
}) {}

/**
 * The models one may name: one's own sampler checkpoints.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ModelList extends Schema.Class<ModelList>("effect-tinker/OpenAiCompat/ModelList")({
  data: Schema.Array(Schema.Struct({ id: Schema.String }))
}) {}

const settings = { pool: "rest", retry: "restRead", auth: "bearer" } as const

/** Completions are samples: long, paid for, and must not delay lookups. */
const sampling = { ...settings, pool: "sampling", timeout: "10 minutes", large: true } as const

/** Any JSON object, with every number in it finite. */
const body = <A extends Common>(): Endpoint.Codec<A> => ({
  contentType: "application/json",
  encode: (request) => {
    let broken = false
    const text = JSON.stringify(request, (_, value: unknown) => {
      if (typeof value === "number" && !Number.isFinite(value)) broken = true
      return value
    })
    return broken ? Either.left("a number is not finite") : Either.right(text)
  },
  decode: (bytes) =>
    Either.flatMap(Endpoint.parseJson(bytes), (json) =>
      typeof json === "object" && json !== null && "model" in json
        ? Either.right(json as A)
        : Either.left("not a completion request"))
})

/**
 * `GET /models`.
 *
 * @since 0.1.0
 * @category models
 */
export const modelsEndpoint: Endpoint.Endpoint<{}, ModelList> = Endpoint.make(
  "oaiModels",
  "GET",
  "/oai/api/v1/models",
  { ...settings, request: Schema.Struct({}), response: Endpoint.json(ModelList) }
)

/**
 * `POST /chat/completions`.
 *
 * @since 0.1.0
 * @category models
 */
export const chatEndpoint: Endpoint.Endpoint<ChatRequest, ChatCompletion> = Endpoint.makeBody(
  "oaiChatCompletions",
  "POST",
  "/oai/api/v1/chat/completions",
  { ...sampling, request: body<ChatRequest>(), response: Endpoint.json(ChatCompletion) }
)

/**
 * `POST /completions`.
 *
 * @since 0.1.0
 * @category models
 */
export const completionsEndpoint: Endpoint.Endpoint<CompletionRequest, Completion> = Endpoint.makeBody(
  "oaiCompletions",
  "POST",
  "/oai/api/v1/completions",
  { ...sampling, request: body<CompletionRequest>(), response: Endpoint.json(Completion) }
)

/**
 * Completions, whole or as they are drawn.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  readonly models: Effect.Effect<ModelList, TinkerError.TinkerError>
  readonly chat: (request: ChatRequest) => Effect.Effect<ChatCompletion, TinkerError.TinkerError>
  /** Each run of the stream sends a new request. */
  readonly chatStream: (request: ChatRequest) => Stream.Stream<ChatChunk, TinkerError.TinkerError>
  readonly complete: (request: CompletionRequest) => Effect.Effect<Completion, TinkerError.TinkerError>
  readonly completeStream: (request: CompletionRequest) => Stream.Stream<Completion, TinkerError.TinkerError>
}

/**
 * The OpenAI-compatible surface as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class OpenAiCompat extends Context.Tag("effect-tinker/OpenAiCompat")<OpenAiCompat, Service>() {}

const from = (method: string) => ({ module: "OpenAiCompat", method })

const eventStream = { accept: "text/event-stream" }

/** @internal */
export const fromApi = ({ call, stream }: Calls.Calls): Service => ({
  models: call(modelsEndpoint, {}, { from: from("models") }),
  chat: (request) => call(chatEndpoint, request, { from: from("chat") }),
  complete: (request) => call(completionsEndpoint, request, { from: from("complete") }),
  chatStream: (request) =>
    pieces(
      "chatStream",
      ChatChunk,
      stream(chatEndpoint, { ...request, stream: true }, { from: from("chatStream"), headers: eventStream })
    ),
  completeStream: (request) =>
    pieces(
      "completeStream",
      Completion,
      stream(completionsEndpoint, { ...request, stream: true }, { from: from("completeStream"), headers: eventStream })
    )
})

/**
 * A client with the configuration and credential in the context.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: Effect.Effect<
  Service,
  never,
  TinkerConfig.TinkerConfig | Credentials.Credentials | TinkerTransport.TinkerTransport | Scope.Scope
> = Effect.suspend(() => Effect.map(ApiClient.make, fromApi))

const withConfig = <E, R>(
  config: Effect.Effect<TinkerConfig.Service, E, R>
): Layer.Layer<OpenAiCompat, E | TinkerError.ConfigurationError, R | TinkerTransport.TinkerTransport> =>
  Layer.scoped(OpenAiCompat, Effect.map(ApiClient.connect(config), ({ api }) => fromApi(api)))

/**
 * A client with the given configuration; the environment is not looked at.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: TinkerConfig.Options
): Layer.Layer<OpenAiCompat, TinkerError.ConfigurationError, TinkerTransport.TinkerTransport> =>
  withConfig(Effect.suspend(() => TinkerConfig.make(options)))

/**
 * A client whose configuration is described by `Config`s.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerConfig = (
  options: Config.Config.Wrap<TinkerConfig.Options>
): Layer.Layer<
  OpenAiCompat,
  TinkerError.ConfigurationError | ConfigError.ConfigError,
  TinkerTransport.TinkerTransport
> => withConfig(TinkerConfig.fromConfig(options))

/**
 * A client configured from the environment (`TINKER_API_KEY`, `TINKER_BASE_URL`, …), with what is given on top.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerFromEnv = (
  options: TinkerConfig.Options = {}
): Layer.Layer<
  OpenAiCompat,
  TinkerError.ConfigurationError | ConfigError.ConfigError,
  TinkerTransport.TinkerTransport
> => withConfig(TinkerConfig.fromEnv(options))
