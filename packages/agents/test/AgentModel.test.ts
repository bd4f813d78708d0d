import { AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import { Trajectory } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message, TokenizerError } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Ref, Stream } from "effect"
import { SamplingClient } from "effect-tinker"
import { add, callOf, chatRenderer, Local, scripted } from "./support/chat.js"

const model = (texts: ReadonlyArray<string>, options?: Partial<AgentModel.Options>) =>
  Effect.gen(function*() {
    const renderer = yield* chatRenderer
    return yield* AgentModel.make({ renderer, sampler: yield* scripted(renderer, texts), ...options })
  })

describe("AgentModel", () => {
  it.scopedLive("keeps ids and logprobs of real samples", () =>
    Effect.gen(function*() {
      const client = yield* SamplingClient.make({ baseModel: "local/chat" })
      const renderer = yield* chatRenderer
      const agent = yield* AgentModel.make({ renderer, sampler: Sampler.fromClient(client), rollout: "r" })
      const messages = [Message.user("What is the capital of France?")]
      const reply = yield* agent.generate({ messages, maxTokens: 24, seed: 3 })
      const scored = yield* client.computeLogprobs([...reply.promptIds, ...reply.sampledIds])
      assert.deepStrictEqual(reply.promptIds, yield* renderer.generationPrompt(messages))
      assert.strictEqual(reply.logprobs.length, reply.sampledIds.length)
      reply.logprobs.forEach((logprob, i) => assert.closeTo(logprob, scored[reply.promptIds.length + i] ?? NaN, 1e-5))
      const { calls: [call] } = yield* (yield* Recorder.Recorder).rollout("r")
      assert.deepStrictEqual(call?.turn.completion, reply.sampledIds)
      assert.deepStrictEqual(call?.origin, { _tag: "Root" })
    }).pipe(Effect.provide([Recorder.layer(), Local])))

  it.effect("splices a tool turn whose arguments come back re-serialised", () =>
    Effect.gen(function*() {
      const agent = yield* model([`${callOf("{\"a\": 1,  \"b\": 2.0}")}`, "3"])
      const messages = [Message.system("Be brief."), Message.user("1+2?")]
      const first = yield* agent.generate({ messages, tools: [add] })
      const [call] = first.toolCalls
      assert.deepInclude(call, { name: "add", arguments: "{\"a\": 1,  \"b\": 2.0}" })
      assert.strictEqual(first.finishReason, "tool_calls")
      const echoed: Message.Message = {
        role: "assistant",
        content: "",
        toolCalls: [{ id: call?.id, name: "add", arguments: "{\"b\":2,\"a\":1}" }]
      }
      const result: Message.Message = { role: "tool", content: "3", toolCallId: call?.id, name: "add" }
      const second = yield* agent.generate({ messages: [...messages, echoed, result], tools: [add] })
      assert.deepInclude(second.origin, { _tag: "Continued", parent: first.callId, messages: 3 })
      const spliced = [...first.promptIds, ...first.sampledIds]
      assert.deepStrictEqual([...second.promptIds.subarray(0, spliced.length)], spliced)
      assert.strictEqual(second.usage.cachedTokens, spliced.length)
      const { calls } = yield* (yield* Recorder.Recorder).release(agent.rollout)
      const rows = Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1)
      assert.strictEqual(rows.length, 1)
      assert.deepStrictEqual(Recorder.summarize(calls), { calls: 2, roots: 1, spliced: 1, forked: {}, rejected: 0 })
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("starts a new row with the reason when the history was edited", () =>
    Effect.gen(function*() {
      const agent = yield* model(["One.", "Two."])
      const first = yield* agent.generate({ messages: [Message.user("a")] })
      const second = yield* agent.generate({
        messages: [Message.user("a"), Message.assistant("One!"), Message.user("b")]
      })
      assert.deepInclude(second.origin, { _tag: "Forked", parent: first.callId })
      const { calls } = yield* (yield* Recorder.Recorder).rollout(agent.rollout)
      assert.deepStrictEqual(Recorder.summarize(calls).forked, { AnswerDiffers: 1 })
      assert.strictEqual(Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1).length, 2)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("where a format does not continue, a history written as it was sampled does, and no other one", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const encode = (text: string) => [...renderer.tokenizer.encode(text, { parseSpecial: "all" })]
      const end = Number(renderer.stop[0])
      /** What the second call continues, by the tokens of the first one's answer, all of which say `One.`. */
      const origin = Effect.fnUntraced(function*(answer: ReadonlyArray<number>, rollout: string) {
        const answers = [answer, encode("Two.")]
        const sampler: Sampler.Sampler = {
          sample: () =>
            Effect.sync(() => {
              const tokens = Int32Array.from([...answers.shift() ?? [], end])
              return [{ tokens, logprobs: new Float32Array(tokens.length), stopReason: "stop", policyVersion: 0 }]
            })
        }
        const refusing: Renderer.Renderer = {
          ...renderer,
          continue: () =>
            Either.left(
              new TokenizerError.CannotContinue({
                renderer: "test",
                reason: "HistoryRewritten",
                index: 1,
                description: "it is written anew"
              })
            )
        }
        const agent = yield* AgentModel.make({ renderer: refusing, sampler, rollout })
        const first = yield* agent.generate({ messages: [Message.user("a")] })
        assert.strictEqual(first.text, "One.")
        const messages = [Message.user("a"), first.message, Message.user("b")]
        return (yield* agent.generate({ messages })).origin._tag
      })
      const written = encode("One.")
      const letters = ["O", "n", "e", "."].flatMap(encode)
      assert.notDeepEqual(letters, written)
      assert.strictEqual(yield* origin(written, "written"), "Continued")
      assert.strictEqual(yield* origin(letters, "letters"), "Forked")
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("what was drawn behind a stop text is dropped, with its log probabilities", () =>
    Effect.gen(function*() {
      const agent = yield* model(["One. Two. Three."])
      const { tokenizer } = yield* chatRenderer
      const reply = yield* agent.generate({ messages: [Message.user("a")], stop: ["Two"] })
      assert.strictEqual(reply.text, "One. ")
      const kept = tokenizer.decode(reply.sampledIds)
      assert.isTrue("One. Two. Three.".startsWith(kept) && kept.includes("Two") && !kept.includes("Three"), kept)
      // the sampler of the test gives -1, -2, -3 and so on
      assert.deepStrictEqual([...reply.logprobs], Array.from(reply.sampledIds, (_, i) => -1 - i))
      const { calls: [call] } = yield* (yield* Recorder.Recorder).rollout(agent.rollout)
      assert.strictEqual(call?.turn.completion.length, reply.sampledIds.length)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("asks for JSON in words of one's own", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const agent = yield* model(["{}", "{}"], { jsonInstruction: (schema) => `Only JSON: ${JSON.stringify(schema)}` })
      const plain = yield* model(["{}"])
      const prompted = (of: typeof agent) =>
        Effect.map(
          of.generate({ messages: [Message.user("a")], responseFormat: { _tag: "Json", schema: { type: "object" } } }),
          ({ promptIds }) => renderer.tokenizer.decode(promptIds)
        )
      assert.include(yield* prompted(agent), "Only JSON: {\"type\":\"object\"}")
      assert.notInclude(yield* prompted(plain), "Only JSON")
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("a change of tools forks, and says so", () =>
    Effect.gen(function*() {
      const agent = yield* model(["One.", "Two."])
      const messages = [Message.user("a")]
      const first = yield* agent.generate({ messages, tools: [add] })
      yield* agent.generate({
        messages: [...messages, first.message, Message.user("b")],
        tools: [{ ...add, name: "sum" }]
      })
      const { calls } = yield* (yield* Recorder.Recorder).rollout(agent.rollout)
      assert.deepStrictEqual(Recorder.summarize(calls).forked, { ToolsChanged: 1 })
      assert.notStrictEqual(calls[0]?.toolsHash, calls[1]?.toolsHash)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("rollouts do not continue each other", () =>
    Effect.gen(function*() {
      const agent = yield* model(["One.", "Two."])
      const messages = [Message.user("a")]
      const first = yield* agent.generate({ messages, rollout: "x" })
      const second = yield* agent.generate({
        messages: [...messages, first.message, Message.user("b")],
        rollout: "y"
      })
      assert.deepInclude(second.origin, { _tag: "Forked" })
      assert.notProperty(second.origin, "parent")
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("interleaved conversations of one rollout become one row each", () =>
    Effect.gen(function*() {
      const agent = yield* model(["A1", "B1", "A2", "B2"])
      const a = [Message.user("a")]
      const b = [Message.user("b")]
      const a1 = yield* agent.generate({ messages: a })
      const b1 = yield* agent.generate({ messages: b })
      yield* agent.generate({ messages: [...a, a1.message, Message.user("more")] })
      yield* agent.generate({ messages: [...b, b1.message, Message.user("more")] })
      const { calls } = yield* (yield* Recorder.Recorder).rollout(agent.rollout)
      assert.strictEqual(Recorder.summarize(calls).spliced, 2)
      const rows = Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1)
      assert.strictEqual(rows.length, 2)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("two continuations of one answer train it once", () =>
    Effect.gen(function*() {
      const agent = yield* model(["One", "Two", "Three"])
      const messages = [Message.user("a")]
      const first = yield* agent.generate({ messages })
      yield* agent.generate({ messages: [...messages, first.message, Message.user("b")] })
      yield* agent.generate({ messages: [...messages, first.message, Message.user("c")] })
      const { calls } = yield* (yield* Recorder.Recorder).rollout(agent.rollout)
      const rows = Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 1 }), 1)
      const trained = rows.reduce((sum, { mask }) => sum + mask.reduce((a, b) => a + b, 0), 0)
      assert.strictEqual(rows.length, 2)
      assert.strictEqual(trained, calls.reduce((sum, { turn }) => sum + turn.completion.length, 0))
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("samples again until the answer is the JSON that was asked for", () =>
    Effect.gen(function*() {
      const agent = yield* model(["Paris", "{\"city\": 1}", "{\"city\": \"Paris\"}"])
      const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
      const reply = yield* agent.generate({
        messages: [Message.user("Capital?")],
        responseFormat: { _tag: "Json", schema }
      })
      assert.strictEqual(reply.text, "{\"city\": \"Paris\"}")
      const { calls } = yield* (yield* Recorder.Recorder).rollout(agent.rollout)
      assert.strictEqual(Recorder.summarize(calls).rejected, 2)
      // what was not handed out is not trained on
      assert.strictEqual(Recorder.toTrajectory(calls, { reward: 1 }).turns.length, 1)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("gives up after the last attempt, with the reason", () =>
    Effect.gen(function*() {
      const agent = yield* model(["no", "no", "no", callOf("{}")])
      const error = yield* Effect.flip(
        agent.generate({ messages: [Message.user("a")], tools: [add], toolChoice: "required" })
      )
      assert.deepInclude(error, { _tag: "ReplyRejected", attempts: 3 })
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("asks once where every draw would be the same", () =>
    Effect.gen(function*() {
      const agent = yield* model(["no", "no", "no", callOf("{}"), "no", "no", "no"])
      const ask = { messages: [Message.user("a")], tools: [add], toolChoice: "required" } as const
      assert.deepInclude(yield* Effect.flip(agent.generate({ ...ask, temperature: 0 })), { attempts: 1 })
      // The second and the third are no calls, the fourth is one.
      assert.strictEqual((yield* agent.generate({ ...ask, temperature: 1 })).toolCalls.length, 1)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("ends at a stop text, and records only what was before its end", () =>
    Effect.gen(function*() {
      const agent = yield* model(["one two END three"])
      const reply = yield* agent.generate({ messages: [Message.user("a")], stop: ["END"] })
      assert.strictEqual(reply.text, "one two ")
      assert.strictEqual(reply.finishReason, "stop")
      const decoded = agent.renderer.tokenizer.decode(reply.sampledIds)
      assert.include(decoded, "END")
      assert.notInclude(decoded, "three")
      assert.strictEqual(reply.deltas.map((delta) => delta._tag === "Text" ? delta.text : "").join(""), reply.text)
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("streams the pieces, then the reply", () =>
    Effect.gen(function*() {
      const agent = yield* model([`<think>\nhm\n</think>\n\nLet me add. ${callOf("{\"a\":1,\"b\":2}")}`])
      const parts = yield* Stream.runCollect(agent.stream({ messages: [Message.user("a")], tools: [add] }))
      const tags = new Set(Array.from(parts, ({ _tag }) => _tag))
      assert.deepStrictEqual([...tags], ["Reasoning", "Text", "ToolCall", "Reply"])
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("refuses a prompt that leaves no room, before it samples", () =>
    Effect.gen(function*() {
      const agent = yield* model(["x"], { contextWindow: 4 })
      const error = yield* Effect.flip(agent.generate({ messages: [Message.user("a long question")] }))
      assert.strictEqual(error._tag, "ContextOverflow")
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("the sampler can be replaced between calls", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const current = yield* Ref.make(yield* scripted(renderer, ["old"], 1))
      const agent = yield* AgentModel.make({ renderer, sampler: Sampler.fromEffect(Ref.get(current)) })
      const old = yield* agent.generate({ messages: [Message.user("a")] })
      yield* Ref.set(current, yield* scripted(renderer, ["new"], 2))
      const fresh = yield* agent.generate({ messages: [Message.user("a")] })
      assert.deepStrictEqual([old.policyVersion, fresh.policyVersion], [1, 2])
    }).pipe(Effect.provide(Recorder.layer())))

  it.effect("a full recorder refuses calls until a rollout is released", () =>
    Effect.gen(function*() {
      const agent = yield* model(["one", "two"])
      yield* agent.generate({ messages: [Message.user("a")], rollout: "x" })
      const error = yield* Effect.flip(agent.generate({ messages: [Message.user("a")], rollout: "y" }))
      assert.strictEqual(error._tag, "RecorderFull")
      yield* (yield* Recorder.Recorder).release("x")
      yield* agent.generate({ messages: [Message.user("a")], rollout: "y" })
    }).pipe(Effect.provide(Recorder.layer({ maxTokens: 1 }))))
})
