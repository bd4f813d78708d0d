import type { AgentModel } from "@effect-tinker/agents"
import { Message } from "@effect-tinker/tokenizer"
import type { Effect } from "effect"

/** Fields with which an answer begins. */
export const head = { id: "id", created: 1_790_000_000, model: "m" }

/** A call of a tool. */
export const call = { id: "c", name: "add", arguments: "{\"a\":1}" }

/** An answer; what a test is about is put in. */
export const reply = (more: Partial<AgentModel.Reply> = {}): AgentModel.Reply => ({
  callId: "call-1",
  rollout: "r",
  message: Message.assistant("Hi."),
  text: "Hi.",
  reasoning: "",
  toolCalls: [],
  finishReason: "stop",
  stopText: undefined,
  usage: { promptTokens: 7, completionTokens: 2, cachedTokens: 5 },
  promptIds: Int32Array.of(1, 2),
  sampledIds: Int32Array.of(72, 105),
  logprobs: Float32Array.of(-0.5, -0.25),
  topLogprobs: undefined,
  policyVersion: 0,
  origin: { _tag: "Root" },
  deltas: [{ _tag: "Text", text: "Hi." }],
  ...more
})

/** The data of events. */
export const textOf = (events: Iterable<string>) =>
  Array.from(events).flatMap((event) => event.split("\n").filter((line) => line.startsWith("data: ")))
    .map((line) => line.slice("data: ".length))

/** The data of events, as far as it is JSON. */
export const dataOf = (events: Iterable<string>) =>
  textOf(events).flatMap((data) => data === "[DONE]" ? [] : [JSON.parse(data)])

/** A value as a client sends it. */
export const read = <A>(decode: (text: string) => Effect.Effect<A, { readonly message: string }>, value: unknown) =>
  decode(JSON.stringify(value))
