import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as EffectAi from "@effect-tinker/agents/EffectAi"
import { Chat, LanguageModel, Prompt, Tool, Toolkit } from "@effect/ai"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Deferred, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { SamplingClient } from "effect-tinker"
import { callsOf } from "./support/calls.js"
import { callOf, chatRenderer, Local, scripted } from "./support/chat.js"

const toolkit = Toolkit.make(
  Tool.make("add", {
    description: "Adds two numbers",
    parameters: { a: Schema.Number, b: Schema.NumberFromString },
    success: Schema.Struct({ sum: Schema.Number }),
    failure: Schema.String,
    failureMode: "return"
  })
)

const Tools = toolkit.toLayer({
  add: ({ a, b }) => a < 0 ? Effect.fail("no negative numbers") : Effect.succeed({ sum: a + b })
})

/** A `LanguageModel` that writes these texts in turn, with its recorder. */
const writing = (texts: ReadonlyArray<string>, settings?: EffectAi.Settings) =>
  EffectAi.layer(settings).pipe(
    Layer.provideMerge(Layer.effect(
      AgentModel.AgentModel,
      Effect.gen(function*() {
        const renderer = yield* chatRenderer
        return yield* AgentModel.make({ renderer, sampler: yield* scripted(renderer, texts, 7), rollout: "r" })
      })
    )),
    Layer.provideMerge(Recorder.layer()),
    Layer.merge(Tools)
  )

const summary = Effect.gen(function*() {
  return Recorder.summarize(yield* callsOf("r"))
})

describe("EffectAi", () => {
  it.effect("generateText gives text, reasoning, usage, and the exact tokens", () =>
    Effect.gen(function*() {
      const response = yield* LanguageModel.generateText({
        prompt: [{ role: "system", content: "Be brief." }, { role: "user", content: [{ type: "text", text: "Hi" }] }]
      })
      assert.strictEqual(response.text, "Hello.")
      assert.strictEqual(response.reasoningText, "hm")
      assert.strictEqual(response.finishReason, "stop")
      const [call] = yield* callsOf("r")
      assert.deepStrictEqual(call?.turn.messages, [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" }
      ])
      assert.strictEqual(response.usage.inputTokens, call?.turn.prompt.length)
      const finish = response.content.find((part) => part.type === "finish")
      assert.deepInclude(finish?.metadata["tinker"], { callId: call?.id, tokenIds: call?.turn.completion })
    }).pipe(Effect.provide(writing(["<think>\nhm\n</think>\n\nHello."]))))

  it.effect("turns of a chat with a toolkit are spliced, although its schemas change the arguments", () =>
    Effect.gen(function*() {
      const chat = yield* Chat.fromPrompt("1+2, then -1+2")
      const first = yield* chat.generateText({ prompt: [], toolkit })
      assert.deepStrictEqual(first.toolResults.map(({ result }) => result), [{ sum: 3 }])
      const second = yield* chat.generateText({ prompt: [], toolkit })
      assert.deepStrictEqual(second.toolResults.map(({ isFailure, result }) => [isFailure, result]), [
        [true, "no negative numbers"]
      ])
      const third = yield* chat.generateText({ prompt: [], toolkit })
      assert.strictEqual(third.text, "Done.")
      assert.deepStrictEqual(yield* summary, { calls: 3, roots: 1, spliced: 2, forked: {}, rejected: 0 })
      const calls = yield* callsOf("r")
      assert.deepInclude(calls[2]?.turn.messages.at(-1), { role: "tool", content: "no negative numbers", name: "add" })
    }).pipe(
      Effect.provide(
        writing([`So.\n${callOf("{ \"a\":1,  \"b\":\"2\" }")}`, callOf("{\"a\": -1, \"b\": \"2\"}"), "Done."])
      )
    ))

  it.effect("structured output is checked, and sampled again where it does not fit", () =>
    Effect.gen(function*() {
      const { value } = yield* LanguageModel.generateObject({
        prompt: "Capital?",
        schema: Schema.Struct({ city: Schema.String })
      })
      assert.deepStrictEqual(value, { city: "Oslo" })
      assert.deepInclude(yield* summary, { calls: 3, rejected: 2 })
    }).pipe(Effect.provide(writing(["No.", "{\"city\": 3}", "{\"city\": \"Oslo\"}"]))))

  it.effect("streamText streams text, tool calls and their results", () =>
    Effect.gen(function*() {
      const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "1+2?", toolkit }))
      const types = Chunk.toReadonlyArray(parts).map(({ type }) => type)
      assert.deepStrictEqual(types.filter((type, i) => type !== types[i - 1]), [
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "tool-params-start",
        "tool-params-delta",
        "tool-params-end",
        "tool-call",
        "tool-result",
        "finish"
      ])
      // what was streamed is continued like what was not
      const prompt = Prompt.merge(Prompt.make("1+2?"), Prompt.fromResponseParts(Chunk.toReadonlyArray(parts)))
      yield* LanguageModel.generateText({ prompt, toolkit })
      assert.deepInclude(yield* summary, { calls: 2, spliced: 1 })
    }).pipe(Effect.provide(writing([`<think>\nadd\n</think>\n\nWait.${callOf("{\"a\":1,\"b\":\"2\"}")}`, "Three."]))))

  it.effect("tool choice: required, and one of them", () =>
    Effect.gen(function*() {
      const required = yield* LanguageModel.generateText({ prompt: "1+2?", toolkit, toolChoice: "required" })
      assert.strictEqual(required.toolCalls.length, 1)
      const named = yield* LanguageModel.generateText({ prompt: "1+2?", toolkit, toolChoice: { tool: "add" } })
      assert.strictEqual(named.toolCalls.length, 1)
      const none = yield* LanguageModel.generateText({ prompt: "1+2?", toolkit, toolChoice: { oneOf: ["add"] } })
      assert.strictEqual(none.text, "No.")
    }).pipe(
      Effect.provide(
        writing(["No.", callOf("{\"a\":1,\"b\":\"2\"}"), "No.", callOf("{\"a\":1,\"b\":\"2\"}"), "No."])
      )
    ))

  it.effect("settings of the layer, and of some calls", () =>
    Effect.gen(function*() {
      const cut = yield* LanguageModel.generateText({ prompt: "Hi" })
      assert.strictEqual(cut.finishReason, "length")
      const whole = yield* LanguageModel.generateText({ prompt: "Hi" }).pipe(
        EffectAi.withSettings({ rollout: "other", maxTokens: 100 })
      )
      assert.strictEqual(whole.text, "Hello there.")
      assert.strictEqual((yield* callsOf("other")).length, 1)
    }).pipe(Effect.provide(writing(["Hello there.", "Hello there."], { maxTokens: 2 }))))

  it.effect("failures are errors of @effect/ai: bad input, answers that do not fit, arguments that are no JSON", () =>
    Effect.gen(function*() {
      const file = yield* Effect.flip(LanguageModel.generateText({
        prompt: [{
          role: "user",
          content: [Prompt.makePart("file", { mediaType: "image/png", data: new Uint8Array([1]), fileName: undefined })]
        }]
      }))
      assert.strictEqual(file._tag, "MalformedInput")
      const schema = Schema.Struct({ city: Schema.String })
      const rejected = yield* Effect.flip(LanguageModel.generateObject({ prompt: "?", schema }))
      assert.strictEqual(rejected._tag, "MalformedOutput")
    }).pipe(Effect.provide(writing(["a", "b", "c"]))))

  it.effect("interruption interrupts the sample", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      const interrupted = yield* Deferred.make<void>()
      const agent = yield* AgentModel.make({
        renderer: yield* chatRenderer,
        sampler: {
          sample: () =>
            Deferred.succeed(started, void 0).pipe(
              Effect.zipRight(Effect.never),
              Effect.onInterrupt(() => Deferred.succeed(interrupted, void 0))
            )
        }
      })
      const model = yield* EffectAi.make(agent)
      const fiber = yield* Effect.fork(model.generateText({ prompt: "Hi" }))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      yield* Deferred.await(interrupted)
    }).pipe(Effect.provide(Recorder.layer())))

  it.scopedLive("a toolkit on local/chat", () =>
    Effect.gen(function*() {
      const client = yield* SamplingClient.make({ baseModel: "local/chat" })
      const agent = yield* AgentModel.make({
        renderer: yield* chatRenderer,
        sampler: Sampler.fromClient(client),
        rollout: "r"
      })
      const calculator = Toolkit.make(
        Tool.make("calculator", {
          description: "Compute an expression.",
          parameters: { expression: Schema.String },
          success: Schema.String
        })
      )
      const Calculator = calculator.toLayer({
        calculator: ({ expression }) => {
          const [a = NaN, b = NaN] = expression.split("+").map(Number)
          return Effect.succeed(String(a + b))
        }
      })
      const answer = Effect.gen(function*() {
        const chat = yield* Chat.fromPrompt("What is 137 + 63?")
        for (;;) {
          const { text, toolCalls } = yield* chat.generateText({ prompt: [], toolkit: calculator })
          if (toolCalls.length === 0) return text
        }
      })
      const text = yield* answer.pipe(
        Effect.provide(Calculator),
        Effect.provideServiceEffect(
          LanguageModel.LanguageModel,
          EffectAi.make(agent, { temperature: 0, maxTokens: 48 })
        )
      )
      assert.include(text, "200")
      assert.deepInclude(yield* summary, { calls: 2, spliced: 1 })
    }).pipe(Effect.provide([Recorder.layer(), Local])))
})
