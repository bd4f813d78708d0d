import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Trajectory } from "@effect-tinker/cookbook"
import { assert, describe, layer } from "@effect/vitest"
import { generateText, Output, stepCountIs, streamText, tool, ToolLoopAgent } from "ai"
import { Effect, Layer, Redacted } from "effect"
import { SamplingClient } from "effect-tinker"
import OpenAI from "openai"
import { z } from "zod"
import { chatRenderer, Local } from "./support/chat.js"

/** The gateway over `local/chat`, behind a port. */
const Model = Layer.unwrapScoped(Effect.gen(function*() {
  const client = yield* SamplingClient.make({ baseModel: "local/chat" })
  return AgentModel.layer({
    renderer: yield* chatRenderer,
    sampler: Sampler.fromClient(client),
    contextWindow: 1024,
    jsonInstruction: () => "", // the model has never read a JSON Schema
    defaults: { maxTokens: 64, temperature: 0 }
  })
}))

const Live = NodeGateway.layer({ model: "local/chat" }).pipe(
  Layer.provideMerge(Model),
  Layer.provideMerge(Recorder.layer()),
  Layer.provide(Local)
)

const connect = Effect.fnUntraced(function*(rollout: string) {
  const gateway = yield* NodeGateway.NodeGateway
  return { baseURL: gateway.rolloutUrl(rollout), apiKey: Redacted.value(yield* gateway.rolloutKey(rollout)) }
})

const openai = (rollout: string) => Effect.map(connect(rollout), (options) => new OpenAI({ ...options, maxRetries: 0 }))

const aiSdk = (rollout: string) =>
  Effect.map(
    connect(rollout),
    (options) =>
      createOpenAICompatible({ name: "gateway", supportsStructuredOutputs: true, includeUsage: true, ...options })(
        "local/chat"
      )
  )

const callsOf = (rollout: string) =>
  Effect.flatMap(Recorder.Recorder, (recorder) => Effect.map(recorder.rollout(rollout), ({ calls }) => calls))

/** Whether all calls are one row, trained on exactly what was sampled. */
const assertOneRow = (calls: ReadonlyArray<Recorder.Call>) => {
  const summary = Recorder.summarize(calls)
  assert.deepStrictEqual(summary, {
    calls: calls.length,
    roots: 1,
    spliced: calls.length - 1,
    forked: {},
    rejected: 0
  })
  const rows = Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1)
  assert.strictEqual(rows.length, 1)
  assert.strictEqual(
    rows[0]?.mask.reduce((sum, one) => sum + one, 0),
    calls.reduce((sum, { turn }) => sum + turn.completion.length, 0)
  )
}

const priceParameters = { type: "object", properties: { item: { type: "string" } }, required: ["item"] }

const getPrice = tool({
  description: "Get the price of an item.",
  inputSchema: z.object({ item: z.string() }),
  execute: () => Promise.resolve({ value: 496 })
})

const question = "What is the price of the lamp?"

describe("official clients, only the URL changed", () => {
  layer(Live, { timeout: 60_000 })((it) => {
    it.effect("openai: a whole answer with logprobs and token ids", () =>
      Effect.gen(function*() {
        const client = yield* openai("openai-whole")
        const answer = yield* Effect.promise(() =>
          client.chat.completions.create({
            model: "gpt-of-the-day",
            messages: [{ role: "user", content: "Thank you very much" }],
            logprobs: true,
            top_logprobs: 2,
            // an extension, named as in vLLM
            ...{ return_token_ids: true }
          })
        )
        const [choice] = answer.choices
        assert.strictEqual(choice?.message.content, "You are welcome!")
        assert.strictEqual(choice?.finish_reason, "stop")
        const [call] = yield* callsOf("openai-whole")
        assert.deepNestedPropertyVal(answer, "choices[0].token_ids", Array.from(call?.turn.completion ?? []))
        assert.deepNestedPropertyVal(answer, "prompt_token_ids", Array.from(call?.turn.prompt ?? []))
        assert.deepStrictEqual(
          choice?.logprobs?.content?.map(({ logprob }) => Math.fround(logprob)),
          Array.from(call?.logprobs ?? [])
        )
        assert.strictEqual(choice?.logprobs?.content?.[0]?.top_logprobs.length, 2)
        assert.strictEqual(answer.usage?.completion_tokens, call?.turn.completion.length)
      }))

    it.effect("openai: a streamed answer, its usage, several choices", () =>
      Effect.gen(function*() {
        const client = yield* openai("openai-stream")
        const stream = yield* Effect.promise(() =>
          client.chat.completions.create({
            model: "local/chat",
            messages: [{ role: "user", content: "Thank you very much" }],
            stream: true,
            stream_options: { include_usage: true },
            n: 2
          })
        )
        const texts = ["", ""]
        const tokens: Array<number> = []
        yield* Effect.promise(async () => {
          for await (const { choices, usage } of stream) {
            for (const { delta, index } of choices) texts[index] += delta.content ?? ""
            if (usage !== null && usage !== undefined) tokens.push(usage.completion_tokens)
          }
        })
        assert.deepStrictEqual(texts, ["You are welcome!", "You are welcome!"])
        const calls = yield* callsOf("openai-stream")
        assert.deepStrictEqual(tokens, [calls.reduce((sum, { turn }) => sum + turn.completion.length, 0)])
      }))

    it.effect("openai: runTools loops over a tool, whole and streamed, and is one row", () =>
      Effect.gen(function*() {
        const messages = [{ role: "user" as const, content: question }]
        const runnable = {
          type: "function" as const,
          function: {
            name: "get_price",
            description: "Get the price of an item.",
            parameters: priceParameters,
            function: () => JSON.stringify({ value: 496 })
          }
        }
        for (const [rollout, stream] of [["openai-tools", false], ["openai-tools-stream", true]] as const) {
          const client = yield* openai(rollout)
          const text = yield* Effect.promise(() =>
            stream
              ? client.chat.completions.runTools({ model: "m", messages, tools: [runnable], stream }).finalContent()
              : client.chat.completions.runTools({ model: "m", messages, tools: [runnable] }).finalContent()
          )
          assert.include(text ?? "", "496")
          const calls = yield* callsOf(rollout)
          assert.strictEqual(calls.length, 2)
          assertOneRow(calls)
        }
      }))

    it.effect("openai: completions and models", () =>
      Effect.gen(function*() {
        const client = yield* openai("openai-text")
        const prompt = "<|im_start|>user\nThank you very much<|im_end|>\n<|im_start|>assistant\n"
        const answer = yield* Effect.promise(() => client.completions.create({ model: "m", prompt, logprobs: 1 }))
        assert.strictEqual(answer.choices[0]?.text, "You are welcome!")
        assert.strictEqual(answer.choices[0]?.logprobs?.tokens?.length, answer.usage?.completion_tokens)
        const models = yield* Effect.promise(() => client.models.list())
        assert.deepStrictEqual(models.data.map(({ id }) => id), ["local/chat"])
      }))

    it.effect("openai: the Responses API, whole and streamed, with a tool", () =>
      Effect.gen(function*() {
        const client = yield* openai("openai-responses")
        const tools = [{
          type: "function" as const,
          name: "get_price",
          description: "Get the price of an item.",
          parameters: priceParameters,
          strict: false
        }]
        const first = yield* Effect.promise(() => client.responses.create({ model: "m", input: question, tools }))
        const call = first.output.find((item) => item.type === "function_call")
        assert(call !== undefined)
        assert.deepStrictEqual(JSON.parse(call.arguments), { item: "lamp" })
        const input: Array<OpenAI.Responses.ResponseInputItem> = [
          { role: "user", content: question },
          call,
          { type: "function_call_output", call_id: call.call_id, output: JSON.stringify({ value: 496 }) }
        ]
        const stream = yield* Effect.promise(() =>
          Promise.resolve(client.responses.stream({ model: "m", input, tools }))
        )
        const final = yield* Effect.promise(() => stream.finalResponse())
        assert.include(final.output_text, "496")
        assertOneRow(yield* callsOf("openai-responses"))
      }))

    it.effect("AI SDK: generateText and streamText with a tool", () =>
      Effect.gen(function*() {
        const settings = { prompt: question, tools: { get_price: getPrice }, stopWhen: stepCountIs(4) }
        const whole = yield* aiSdk("ai-generate")
        const { steps, text } = yield* Effect.promise(() => generateText({ model: whole, ...settings }))
        assert.include(text, "496")
        assert.strictEqual(steps.length, 2)
        assertOneRow(yield* callsOf("ai-generate"))
        const streamed = yield* aiSdk("ai-stream")
        assert.include(yield* Effect.promise(async () => streamText({ model: streamed, ...settings }).text), "496")
        assertOneRow(yield* callsOf("ai-stream"))
      }))

    it.effect("AI SDK: a ToolLoopAgent over several prompts", () =>
      Effect.gen(function*() {
        const model = yield* aiSdk("ai-agent")
        const agent = new ToolLoopAgent({ model, tools: { get_price: getPrice } })
        const first = yield* Effect.promise(() => agent.generate({ prompt: question }))
        const messages = [
          { role: "user" as const, content: question },
          ...first.response.messages,
          { role: "user" as const, content: "Thank you very much" }
        ]
        const second = yield* Effect.promise(() => agent.generate({ messages }))
        assert.isAbove(second.text.length, 0)
        const calls = yield* callsOf("ai-agent")
        assert.isAtLeast(calls.length, 3)
        assertOneRow(calls)
      }))

    it.effect("AI SDK: structured output", () =>
      Effect.gen(function*() {
        const model = yield* aiSdk("ai-object")
        const { output } = yield* Effect.promise(() =>
          generateText({
            model,
            temperature: 1,
            // An answer that does not fit is drawn again, three times at most: by chance none would fit.
            seed: 1,
            prompt: "Write as JSON: pet cat, job baker",
            output: Output.object({ schema: z.object({ pet: z.string(), job: z.string() }) })
          })
        )
        assert.hasAllKeys(output, ["pet", "job"])
      }))
  })
})
