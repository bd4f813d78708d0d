/**
 * Completions: text or ids in, text out, without a chat format.
 */
import * as OpenAiWire from "@effect-tinker/platform/OpenAiWire"
import * as ServerSentEvents from "@effect-tinker/platform/ServerSentEvents"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as AgentModel from "../../AgentModel.js"
import { usageOf } from "./chat.js"
import type { Refused } from "./common.js"
import { decoder, invalid, sampling, tokenOf, unsupported } from "./common.js"

const isIds = (u: unknown): u is ReadonlyArray<number> =>
  Array.isArray(u) && u.length > 0 && u.every((id) => Number.isSafeInteger(id) && id >= 0)

const Ids = Schema.declare(isIds, { title: "ReadonlyArray<int>" })

const CompletionRequest = Schema.Struct({
  ...sampling,
  ...OpenAiWire.Common.fields,
  prompt: Schema.Union(Schema.String, Ids, Schema.Array(Schema.Union(Schema.String, Ids))),
  max_tokens: OpenAiWire.maybe(Schema.Positive),
  n: OpenAiWire.maybe(Schema.Int.pipe(Schema.between(1, 128))),
  best_of: OpenAiWire.maybe(Schema.Int),
  echo: OpenAiWire.maybe(Schema.Boolean),
  suffix: OpenAiWire.maybe(Schema.String),
  logprobs: OpenAiWire.maybe(Schema.Int.pipe(Schema.between(0, 20)))
})

/** @internal */
export type CompletionRequest = typeof CompletionRequest.Type

/** @internal */
export const decode = decoder(CompletionRequest)

/** @internal */
export const toRequest = (
  request: CompletionRequest,
  rollout: string
): Effect.Effect<AgentModel.CompletionRequest, Refused> => {
  if (request.echo === true) return unsupported("echo", "echo is not supported")
  if ((request.suffix ?? "") !== "") return unsupported("suffix", "suffix is not supported")
  if ((request.best_of ?? 1) !== 1) return unsupported("best_of", "best_of is not supported")
  const { prompt } = request
  const single = typeof prompt === "string" || isIds(prompt) ? prompt : prompt.length === 1 ? prompt[0] : undefined
  if (single === undefined) return unsupported("prompt", "several prompts in one request are not supported")
  if (single.length === 0) return invalid("the prompt is empty", { param: "prompt" })
  return Effect.succeed({
    rollout,
    prompt: single,
    maxTokens: request.max_tokens ?? 16,
    temperature: request.temperature ?? undefined,
    topK: request.top_k ?? undefined,
    topP: request.top_p ?? undefined,
    seed: request.seed ?? undefined,
    stop: OpenAiWire.stopsOf(request),
    topLogprobs: request.logprobs ?? undefined
  })
}

const logprobsOf = (request: CompletionRequest, renderer: Renderer.Renderer, reply: AgentModel.Reply) => {
  if (request.logprobs === undefined || request.logprobs === null) return null
  const tokens = Array.from(reply.sampledIds, (id) => tokenOf(renderer, id).token)
  let offset = 0
  return {
    tokens,
    token_logprobs: Array.from(reply.logprobs),
    top_logprobs: (reply.topLogprobs ?? []).map((candidates) =>
      Object.fromEntries(candidates.map(([id, logprob]) => [tokenOf(renderer, id).token, logprob]))
    ),
    text_offset: tokens.map((token) => {
      const at = offset
      offset += token.length
      return at
    })
  }
}

/** @internal */
export const whole = (
  head: OpenAiWire.Head,
  request: CompletionRequest,
  renderer: Renderer.Renderer,
  replies: ReadonlyArray<AgentModel.Reply>
) => ({
  ...head,
  object: "text_completion",
  choices: replies.map((reply, index) => ({
    index,
    text: reply.text,
    finish_reason: reply.finishReason,
    logprobs: logprobsOf(request, renderer, reply),
    ...(request.return_token_ids === true
      ? { token_ids: Array.from(reply.sampledIds), prompt_token_ids: Array.from(reply.promptIds) }
      : {})
  })),
  usage: usageOf(replies)
})

/** @internal */
export const chunks = function*(
  head: OpenAiWire.Head,
  request: CompletionRequest,
  renderer: Renderer.Renderer,
  replies: ReadonlyArray<AgentModel.Reply>
): Iterable<string> {
  const chunk = (choices: ReadonlyArray<unknown>, more: object = {}) =>
    ServerSentEvents.json({ ...head, object: "text_completion", choices, ...more })
  for (const [index, reply] of replies.entries()) {
    for (const delta of reply.deltas) {
      if (delta._tag === "Text") yield chunk([{ index, text: delta.text, finish_reason: null, logprobs: null }])
    }
    const logprobs = logprobsOf(request, renderer, reply)
    yield chunk([{ index, text: "", finish_reason: reply.finishReason, logprobs }])
  }
  if (OpenAiWire.wantsUsage(request)) yield chunk([], { usage: usageOf(replies) })
  yield OpenAiWire.done
}
