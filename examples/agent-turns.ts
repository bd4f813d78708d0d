/**
 * The same conversations with a tool, by different clients: which of their turns continue the sampled tokens, and which do not,
 * and why.
 */
import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import * as EffectAi from "@effect-tinker/agents/EffectAi"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat, Message } from "@effect-tinker/tokenizer"
import { Chat as AiChat, LanguageModel, Tool, Toolkit } from "@effect/ai"
import type { ModelMessage } from "ai"
import { generateText, pruneMessages, stepCountIs, tool } from "ai"
import { Console, Effect, Redacted, Schema } from "effect"
import { SamplingClient } from "effect-tinker"
import OpenAI from "openai"
import { z } from "zod"

/** What the user says, conversation by conversation. */
const conversations = ["What is 137 + 63?", "What is 250 + 11?", "What is 480 + 19?"].map((question) => [
  question,
  "Thank you!"
])

const compute = (expression: string) => String(expression.split("+").reduce((sum, part) => sum + Number(part), 0))

const calculatorSpec = {
  name: "calculator",
  description: "Compute an expression.",
  parameters: { type: "object", properties: { expression: { type: "string" } }, required: ["expression"] }
}

/** Appends what was sampled to the history. */
const raw = Effect.fn(function*(model: AgentModel.Service, conversation: ReadonlyArray<string>) {
  const tools = [calculatorSpec]
  const messages: Array<Message.Message> = []
  for (const said of conversation) {
    messages.push(Message.user(said))
    for (let step = 0; step < 4; step++) {
      const { message, toolCalls } = yield* model.generate({ messages, tools })
      messages.push(message)
      if (toolCalls.length === 0) break
      for (const { arguments: json, id, name } of toolCalls) {
        messages.push({ role: "tool", content: compute(JSON.parse(json).expression), toolCallId: id, name })
      }
    }
  }
})

/** Knows nothing of us: it has a URL and a key. */
const openAi = Effect.fn(function*(recorded: AgentModel.Service, conversation: ReadonlyArray<string>) {
  const { apiKey, rolloutUrl } = yield* NodeGateway.serve({ model: "local/chat", onRollout: () => Effect.void }).pipe(
    Effect.provideService(AgentModel.AgentModel, recorded)
  )
  const client = new OpenAI({ baseURL: rolloutUrl(recorded.rollout), apiKey: Redacted.value(apiKey) })
  const messages: Array<OpenAI.ChatCompletionMessageParam> = []
  for (const content of conversation) {
    messages.push({ role: "user", content })
    for (let step = 0; step < 4; step++) {
      const { choices: [choice] } = yield* Effect.promise((signal) =>
        client.chat.completions.create({
          model: "local/chat",
          messages,
          tools: [{ type: "function", function: calculatorSpec }]
        }, { signal })
      )
      if (choice === undefined) break
      messages.push(choice.message)
      const calls = (choice.message.tool_calls ?? []).flatMap((call) => call.type === "function" ? [call] : [])
      if (calls.length === 0) break
      for (const { function: { arguments: json }, id } of calls) {
        messages.push({ role: "tool", content: compute(JSON.parse(json).expression), tool_call_id: id })
      }
    }
  }
}, Effect.scoped)

/** Parses arguments and serializes them again. With `prune`, it forgets old tool calls as long-running agents do. */
const aiSdk = (prune: boolean) =>
  Effect.fn(function*(recorded: AgentModel.Service, conversation: ReadonlyArray<string>) {
    const model = yield* AiSdk.make(recorded)
    const calculator = tool({
      description: "Compute an expression.",
      inputSchema: z.object({ expression: z.string() }),
      execute: ({ expression }) => compute(expression)
    })
    let messages: Array<ModelMessage> = []
    for (const content of conversation) {
      messages.push({ role: "user", content })
      const { response } = yield* Effect.promise((abortSignal) =>
        generateText({ model, messages, tools: { calculator }, stopWhen: stepCountIs(4), abortSignal })
      )
      messages.push(...response.messages)
      if (prune) messages = pruneMessages({ messages, toolCalls: "all", emptyMessages: "remove" })
    }
  })

/** Decodes arguments by their schema. */
const effectAi = Effect.fn(function*(recorded: AgentModel.Service, conversation: ReadonlyArray<string>) {
  const toolkit = Toolkit.make(
    Tool.make("calculator", {
      description: "Compute an expression.",
      parameters: { expression: Schema.String },
      success: Schema.String
    })
  )
  const talk = Effect.gen(function*() {
    const chat = yield* AiChat.empty
    for (const said of conversation) {
      let response = yield* chat.generateText({ prompt: said, toolkit })
      for (let step = 1; step < 4 && response.toolCalls.length > 0; step++) {
        response = yield* chat.generateText({ prompt: [], toolkit })
      }
    }
  })
  yield* talk.pipe(
    Effect.provide(toolkit.toLayer({ calculator: ({ expression }) => Effect.succeed(compute(expression)) })),
    Effect.provideServiceEffect(LanguageModel.LanguageModel, EffectAi.make(recorded))
  )
})

type Client = (
  model: AgentModel.Service,
  conversation: ReadonlyArray<string>
) => Effect.Effect<void, unknown, Recorder.Recorder>

const clients: Readonly<Record<string, Client>> = {
  "raw model": raw,
  "OpenAI client": openAi,
  "AI SDK": aiSdk(false),
  "AI SDK, pruned": aiSdk(true),
  "Effect AI": effectAi
}

const program = Effect.gen(function*() {
  const client = yield* SamplingClient.make({ baseModel: "local/chat" })
  const { renderer } = yield* Chat.forModel("local/chat")
  const recorder = yield* Recorder.Recorder
  yield* Console.log("client          turns  spliced  forked")
  for (const [name, talk] of Object.entries(clients)) {
    const sampler = Sampler.fromClient(client)
    const model = yield* AgentModel.make({ renderer, sampler, defaults: { temperature: 0, maxTokens: 64 } })
    yield* Effect.forEach(conversations, (conversation) => talk(model, conversation))
    const { calls } = yield* recorder.release(model.rollout)
    const { forked, spliced } = Recorder.summarize(calls)
    const reasons = Object.entries(forked).map(([reason, count]) => `${count} ${reason}`).join(", ") || "0"
    yield* Console.log(
      `${name.padEnd(16)}${String(calls.length).padStart(5)}${String(spliced).padStart(9)}  ${reasons}`
    )
  }
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide([Recorder.layer(), NodeTinkerLocal.layerInProcess()])))
