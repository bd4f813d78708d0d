/**
 * What the recorded model must do for the AI SDK, whichever version of it: version 6 is the workspace's own, version 7 is
 * installed beside the agents of the frameworks.
 */
import { Agent, AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import { Trajectory } from "@effect-tinker/cookbook"
import { assert, describe, it } from "@effect/vitest"
import type * as Ai from "ai"
import { Deferred, Effect } from "effect"
import { SamplingClient } from "effect-tinker"
import { z } from "zod"
import { callsOf } from "./calls.js"
import { callOf, chatRenderer, Local, scripted } from "./chat.js"

// warnings are among the results, and need not be printed
Reflect.set(globalThis, "AI_SDK_LOG_WARNINGS", false)

export const suite = (
  name: string,
  { generateText, Output, stepCountIs, streamText, tool, ToolLoopAgent }: typeof Ai
) => {
  const add = tool({
    description: "Adds two numbers",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => ({ sum: a + b })
  })

  /** A model of the AI SDK that writes these texts in turn. */
  const scriptedModel = (texts: ReadonlyArray<string>, options?: Partial<AgentModel.Options>) =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const sampler = yield* scripted(renderer, texts, 7)
      const agent = yield* AgentModel.make({ renderer, sampler, ...options })
      return { agent, model: yield* AiSdk.make(agent), calls: callsOf(agent.rollout) }
    })

  const promised = <A>(f: (signal: AbortSignal) => PromiseLike<A>) => Effect.tryPromise({ try: f, catch: (e) => e })

  describe(`AiSdk, ${name}`, () => {
    it.effect("has the name that it is given, or that of its format", () =>
      Effect.gen(function*() {
        const { agent, model } = yield* scriptedModel([])
        assert.deepStrictEqual([model.provider, model.modelId], ["tinker", agent.renderer.name])
        assert.strictEqual((yield* AiSdk.make(agent, { modelId: "mine" })).modelId, "mine")
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("generateText gives text, reasoning, usage, and the exact tokens", () =>
      Effect.gen(function*() {
        const { calls, model } = yield* scriptedModel(["<think>\nhm\n</think>\n\nHello."])
        const result = yield* promised(() =>
          generateText({ model, system: "Be brief.", prompt: "Hi", temperature: 0.5, presencePenalty: 1 })
        )
        assert.strictEqual(result.text, "Hello.")
        assert.strictEqual(result.reasoningText, "hm")
        assert.strictEqual(result.finishReason, "stop")
        const [call] = yield* calls
        assert.deepStrictEqual(call?.turn.messages, [
          { role: "system", content: "Be brief." },
          { role: "user", content: "Hi" }
        ])
        assert.strictEqual(result.usage.inputTokens, call?.turn.prompt.length)
        assert.strictEqual(result.usage.outputTokens, call?.turn.completion.length)
        assert.strictEqual(result.response.id, call?.id)
        assert.deepInclude(result.providerMetadata?.["tinker"], {
          callId: call?.id,
          policyVersion: 7,
          origin: { type: "root" },
          tokenIds: Array.from(call?.turn.completion ?? []),
          logprobs: Array.from(call?.logprobs ?? [])
        })
        assert.deepStrictEqual(result.warnings, [{ type: "unsupported", feature: "presencePenalty" }])
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("every turn of a ToolLoopAgent is spliced, although it re-serialises arguments", () =>
      Effect.gen(function*() {
        const { calls, model } = yield* scriptedModel([
          `Let me see.\n${callOf("{ \"a\":1,  \"b\":2 }")}`,
          `${callOf("{\"b\": 4, \"a\": 3}")}\n${callOf("{\"a\": 5.0, \"b\": 5}")}`,
          "It is 10."
        ])
        const agent = new ToolLoopAgent({ model, tools: { add } })
        const { steps, text } = yield* promised(() => agent.generate({ prompt: "1+2, then 3+4 and 5+5" }))
        assert.strictEqual(text, "It is 10.")
        assert.deepStrictEqual(steps.map(({ finishReason }) => finishReason), ["tool-calls", "tool-calls", "stop"])
        assert.deepStrictEqual(
          steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output)),
          [{ sum: 3 }, { sum: 7 }, { sum: 10 }]
        )
        const recorded = yield* calls
        assert.deepStrictEqual(Recorder.summarize(recorded), {
          calls: 3,
          roots: 1,
          spliced: 2,
          forked: {},
          rejected: 0
        })
        assert.strictEqual(Trajectory.toRows(Recorder.toTrajectory(recorded, { reward: 1 }), 1).length, 1)
        // a continued prompt is reported as read from a cache
        assert.strictEqual(
          steps[1]?.usage.inputTokenDetails.cacheReadTokens,
          (recorded[0]?.turn.prompt.length ?? 0) + (recorded[0]?.turn.completion.length ?? 0)
        )
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("an answer whose tool call cannot be read, and arguments that do not fit, go back to the model", () =>
      Effect.gen(function*() {
        const { calls, model } = yield* scriptedModel([callOf("{\"a\": \"one\"}"), "Sorry."])
        const { steps } = yield* promised(() =>
          generateText({ model, prompt: "1+2?", tools: { add }, stopWhen: stepCountIs(3) })
        )
        assert.strictEqual(steps.length, 2)
        assert.deepInclude(Recorder.summarize(yield* calls), { calls: 2, spliced: 1 })
        const [, second] = yield* calls
        assert.include(JSON.stringify(second?.turn.messages.at(-1)), "Invalid input")
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("streamText streams text, reasoning and tool calls", () =>
      Effect.gen(function*() {
        const { calls, model } = yield* scriptedModel([
          `<think>\nadd\n</think>\n\nWait.${callOf("{\"a\":1,\"b\":2}")}`,
          "Three it is."
        ])
        const result = streamText({ model, prompt: "1+2?", tools: { add }, stopWhen: stepCountIs(3) })
        const types = yield* promised(async () => {
          const seen: Array<string> = []
          for await (const { type } of result.fullStream) if (type !== seen.at(-1)) seen.push(type)
          return seen
        })
        assert.deepStrictEqual(types, [
          "start",
          "start-step",
          "reasoning-start",
          "reasoning-delta",
          "reasoning-end",
          "text-start",
          "text-delta",
          "text-end",
          "tool-input-start",
          "tool-input-delta",
          "tool-input-end",
          "tool-call",
          "tool-result",
          "finish-step",
          "start-step",
          "text-start",
          "text-delta",
          "text-end",
          "finish-step",
          "finish"
        ])
        assert.strictEqual(yield* promised(() => result.text), "Three it is.")
        assert.deepInclude(Recorder.summarize(yield* calls), { calls: 2, spliced: 1 })
        const metadata = yield* promised(() => result.providerMetadata)
        assert.deepInclude(metadata?.["tinker"], { callId: (yield* calls)[1]?.id })
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("structured output is checked, and sampled again where it does not fit", () =>
      Effect.gen(function*() {
        const { calls, model } = yield* scriptedModel(["No.", "{\"city\": 3}", "{\"city\": \"Oslo\"}"])
        const { output } = yield* promised(() =>
          generateText({ model, prompt: "Capital?", output: Output.object({ schema: z.object({ city: z.string() }) }) })
        )
        assert.deepStrictEqual(output, { city: "Oslo" })
        assert.deepInclude(Recorder.summarize(yield* calls), { calls: 3, rejected: 2 })
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("tool choice: required, none, one of them", () =>
      Effect.gen(function*() {
        const written = ["No.", callOf("{\"a\":1,\"b\":2}")]
        const ask = (texts: ReadonlyArray<string>, toolChoice: Ai.ToolChoice<{ add: typeof add }>) =>
          Effect.flatMap(scriptedModel(texts), ({ model }) =>
            promised(() => generateText({ model, prompt: "1+2?", tools: { add }, toolChoice })))
        assert.strictEqual((yield* ask(written, "required")).toolCalls.length, 1)
        assert.strictEqual((yield* ask(written, { type: "tool", toolName: "add" })).toolCalls.length, 1)
        assert.strictEqual((yield* ask(written, "auto")).text, "No.")
        assert.strictEqual((yield* ask([...written].reverse(), "none")).text, "No.")
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("images are refused, and failures of the model reach the caller", () =>
      Effect.gen(function*() {
        const { model } = yield* scriptedModel(["a"], { contextWindow: 5 })
        const image = yield* Effect.flip(promised(() =>
          generateText({
            model,
            messages: [{
              role: "user",
              content: [{ type: "image", image: new Uint8Array([1]), mediaType: "image/png" }]
            }]
          })
        ))
        assert.include(String(image), "image/png")
        const overflow = yield* Effect.flip(promised(() => generateText({ model, prompt: "Hi" })))
        assert.propertyVal(overflow, "_tag", "ContextOverflow")
        const errors: Array<unknown> = []
        const { fullStream } = streamText({ model, prompt: "Hi", onError: ({ error }) => void errors.push(error) })
        yield* promised(async () => {
          for await (const _ of fullStream);
        })
        assert.propertyVal(errors[0], "_tag", "ContextOverflow")
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("an abort interrupts the sample, whole and streamed", () =>
      Effect.gen(function*() {
        const renderer = yield* chatRenderer
        for (const streamed of [false, true]) {
          const started = yield* Deferred.make<void>()
          const interrupted = yield* Deferred.make<void>()
          const agent = yield* AgentModel.make({
            renderer,
            sampler: {
              sample: () =>
                Deferred.succeed(started, void 0).pipe(
                  Effect.zipRight(Effect.never),
                  Effect.onInterrupt(() => Deferred.succeed(interrupted, void 0))
                )
            }
          })
          const model = yield* AiSdk.make(agent)
          const controller = new AbortController()
          const options = { model, prompt: "Hi", abortSignal: controller.signal }
          let aborted = false
          const asked = streamed
            ? (async () => {
              const { fullStream } = streamText({ ...options, onAbort: () => void (aborted = true) })
              for await (const _ of fullStream);
            })()
            : generateText(options).then(() => undefined, (error: unknown) => {
              aborted = error instanceof Error && error.name === "AbortError"
            })
          yield* Deferred.await(started)
          controller.abort()
          yield* Deferred.await(interrupted)
          yield* promised(() => asked)
          assert.isTrue(aborted, streamed ? "streamed" : "whole")
        }
      }).pipe(Effect.provide(Recorder.layer())))

    it.effect("a rollout is chosen by provider options", () =>
      Effect.gen(function*() {
        const { model } = yield* scriptedModel(["a"])
        yield* promised(() => generateText({ model, prompt: "Hi", providerOptions: { tinker: { rollout: "other" } } }))
        assert.strictEqual((yield* callsOf("other")).length, 1)
      }).pipe(Effect.provide(Recorder.layer())))

    it.scopedLive("a ToolLoopAgent on local/chat", () =>
      Effect.gen(function*() {
        const client = yield* SamplingClient.make({ baseModel: "local/chat" })
        const agent = yield* AgentModel.make({ renderer: yield* chatRenderer, sampler: Sampler.fromClient(client) })
        const model = yield* AiSdk.make(agent)
        const calculator = tool({
          description: "Compute an expression.",
          inputSchema: z.object({ expression: z.string() }),
          execute: ({ expression }) => {
            const [a = NaN, b = NaN] = expression.split("+").map(Number)
            return String(a + b)
          }
        })
        const loop = new ToolLoopAgent({ model, tools: { calculator }, temperature: 0, maxOutputTokens: 48 })
        const { steps, text } = yield* promised((abortSignal) =>
          loop.generate({ prompt: "What is 137 + 63?", abortSignal })
        )
        assert.strictEqual(steps.length, 2)
        assert.include(text, "200")
        const calls = yield* callsOf(agent.rollout)
        assert.deepInclude(Recorder.summarize(calls), { calls: 2, spliced: 1 })
      }).pipe(Effect.provide([Recorder.layer(), Local])))
  })

  describe(`AiSdk.agent, ${name}`, () => {
    it("is an agent", () => {
      const agent = AiSdk.agent({
        tasks: ["a"],
        run: (prompt, { model, signal }) => generateText({ model, prompt, abortSignal: signal }),
        score: (_, { text }) => text === "a"
      })
      assert.isTrue(Agent.isAgent(agent))
    })
  })
}
