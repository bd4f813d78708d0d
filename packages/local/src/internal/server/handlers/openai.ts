/**
 * The surface that clients of OpenAI's API can use: completions and chat, streamed or whole.
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { Engine } from "../../../Engine.js"
import type { LocalModel } from "../../../LocalModel.js"
import type { Caller } from "../accounts.js"
import { Checkpoints } from "../checkpoints.js"
import type { OperationError } from "../futures.js"
import { Ledger } from "../ledger.js"
import { badRequest, HttpFailure, unprocessable } from "../message.js"
import { json, Reply } from "../message.js"
import * as openai from "../openai.js"
import type { Call } from "../router.js"
import { pattern } from "../router.js"
import { Samplers } from "../samplers.js"

const decode = <A, I>(schema: Schema.Schema<A, I>) => {
  const parse = ParseResult.decodeUnknown(Schema.parseJson(schema))
  return (call: Call) =>
    Effect.mapError(
      parse(new TextDecoder().decode(call.body)),
      (issue) => unprocessable(ParseResult.TreeFormatter.formatIssueSync(issue))
    )
}

const decodeCompletion = decode(openai.CompletionRequest)
const decodeChat = decode(openai.ChatRequest)

const toFailure = (error: OperationError): HttpFailure =>
  error._tag === "HttpFailure"
    ? error
    : new HttpFailure({
      status: error._tag === "StorageFailed" || error._tag === "ThreadLost" ? 500 : 400,
      detail: error.message
    })

/** The sampler a request names, and what it asks of it, in the tokens of its model. */
const open = Effect.fnUntraced(function*(
  request: openai.Common,
  promptOf: (codec: openai.TextCodec) => Effect.Effect<Int32Array, HttpFailure>,
  caller: Caller
) {
  const { models } = yield* Engine
  const samplers = yield* Samplers
  const isPath = request.model.startsWith("tinker://")
  const sampler = yield* samplers.open({
    id: request.model,
    owner: caller.urn,
    baseModel: isPath ? "" : request.model,
    modelPath: isPath ? request.model : undefined,
    ephemeral: false
  })
  const codec = openai.codecOf(models.find(({ name }) => name === sampler.baseModel))
  const prompt = yield* promptOf(codec)
  if (prompt.length === 0) return yield* badRequest("The prompt is empty")
  const stop = OpenAiWire.stopsOf(request)
  const stopIds = request.stop_token_ids ?? undefined
  if (stop !== undefined && stopIds !== undefined) {
    return yield* badRequest("Give either stop or stop_token_ids: a sequence ends at texts or at tokens")
  }
  return {
    sampler,
    codec,
    query: {
      prompt,
      numSamples: request.n ?? 1,
      params: {
        maxTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
        temperature: request.temperature ?? undefined,
        topP: request.top_p ?? undefined,
        seed: request.seed ?? undefined,
        stop: stop ?? stopIds
      }
    }
  }
})

const encoder = new TextEncoder()
const event = (data: unknown): Uint8Array => encoder.encode(ServerSentEvents.json(data))
const done = Stream.sync(() => encoder.encode(OpenAiWire.done))

const respond = Effect.fnUntraced(function*(
  request: openai.Common,
  shape: openai.Shape,
  promptOf: (codec: openai.TextCodec) => Effect.Effect<Int32Array, HttpFailure>,
  call: Call
) {
  const ledger = yield* Ledger
  const { codec, query, sampler } = yield* open(request, promptOf, call.caller)
  const { prompt } = query
  const charge = (kind: "sampling_prefill" | "sampling_sample", count: number) =>
    ledger.charge({ owner: call.caller.urn, baseModel: sampler.baseModel, kind, count })
  const created = Math.floor((yield* Clock.currentTimeMillis) / 1000)
  const head: OpenAiWire.Head = { id: `${shape.prefix}-${yield* Entropy.uuid}`, created, model: request.model }
  if (request.stream !== true) {
    const { sequences } = yield* sampler.sample(query)
    const sampled = sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
    yield* charge("sampling_prefill", prompt.length)
    yield* charge("sampling_sample", sampled)
    return json(200, {
      ...head,
      object: shape.object,
      choices: sequences.map((sequence, index) => shape.choice(request, sequence, index, codec)),
      usage: OpenAiWire.usage(prompt.length, sampled)
    })
  }
  // What can be refused has been when the first byte leaves.
  const slices = yield* sampler.stream(query)
  yield* charge("sampling_prefill", prompt.length)
  const chunk = (choices: ReadonlyArray<unknown>) => ({ ...head, object: shape.chunkObject, choices })
  const deltas = openai.makeDeltas(request, shape, codec)
  let sampled = 0
  const counted = Stream.tap(slices, ({ tokens }) => {
    sampled += tokens.length
    return charge("sampling_sample", tokens.length)
  })
  const text = Stream.mapConcat(counted, (slice) => deltas(slice).map((delta) => event(chunk([delta]))))
  const usage = Stream.sync(() => event({ ...chunk([]), usage: OpenAiWire.usage(prompt.length, sampled) }))
  return new Reply({
    status: 200,
    headers: { "content-type": ServerSentEvents.contentType, "cache-control": "no-cache" },
    body: text.pipe(
      Stream.concat(OpenAiWire.wantsUsage(request) ? usage : Stream.empty),
      // the status has left long ago
      Stream.catchAll(({ message }) => Stream.succeed(event({ error: { message, type: "server_error" } }))),
      Stream.concat(done)
    )
  })
}, (effect) => Effect.mapError(effect, toFailure))

const completion = Effect.fnUntraced(function*(call: Call) {
  const request = yield* decodeCompletion(call)
  const { prompt } = request
  const promptOf = (codec: openai.TextCodec) =>
    Effect.sync(() => typeof prompt === "string" ? codec.encode(prompt) : Int32Array.from(prompt))
  return yield* respond({ ...request, max_tokens: request.max_tokens ?? 16 }, openai.completion, promptOf, call)
})

/** The bundled model that was trained on chats. */
const chatModel = "local/chat"

/**
 * A model of random weights has nothing to say in a chat. Where one is named and the chat model is served, the chat model
 * answers, and says so in `model`; checkpoints and completions are of the model they name.
 */
const chatting = (name: string, models: ReadonlyArray<LocalModel>): string => {
  const named = models.find((model) => model.name === name)
  const isRandom = named !== undefined && named.weights === undefined
  return isRandom && models.some((model) => model.name === chatModel) ? chatModel : name
}

const chat = Effect.fnUntraced(function*(call: Call) {
  const asked = yield* decodeChat(call)
  const { models } = yield* Engine
  const request = { ...asked, model: chatting(asked.model, models) }
  return yield* respond(request, openai.chat, (codec) => codec.render(request.messages), call)
})

const models = Effect.fnUntraced(function*(call: Call) {
  const checkpoints = yield* Checkpoints
  const own = (yield* checkpoints.list).filter(({ kind, owner }) =>
    kind === "sampler_weights" && owner === call.caller.urn
  )
  return json(200, {
    object: "list",
    data: own.map(({ path, time }) => ({
      id: path,
      object: "model",
      created: Math.floor(time / 1000),
      owned_by: call.caller.urn
    }))
  })
})

const routeTo = <R>(
  name: string,
  method: "GET" | "POST",
  path: string,
  handle: (call: Call) => Effect.Effect<Reply, HttpFailure, R>
) => ({ name, method, pattern: pattern(`/oai/api/v1${path}`), params: [], auth: "bearer" as const, handle })

/** @internal */
export const openAiRoutes = [
  routeTo("oaiModels", "GET", "/models", models),
  routeTo("oaiCompletions", "POST", "/completions", completion),
  routeTo("oaiChatCompletions", "POST", "/chat/completions", chat)
]
