import { Trace, TraceData } from "@effect-tinker/agents"
import type { Example } from "@effect-tinker/cookbook"
import { Dataset } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import { TensorData } from "effect-tinker"
import { chatRenderer } from "./support/chat.js"

const trace = (id: string, question: string, answer: string, thumb: number | undefined, session = id) =>
  new Trace.Trace({
    id,
    session,
    source: "otel",
    messages: [Message.user(question), { ...Message.assistant(answer), trainable: true }],
    scores: thumb === undefined ? {} : { length: answer.length },
    calls: 1,
    ...thumb === undefined ? {} : { feedback: { value: thumb } }
  })

const collected = <A>(data: Dataset.Dataset<A>) =>
  Effect.map(Stream.runCollect(Dataset.values(data)), Chunk.toReadonlyArray)

const answers = (conversations: ReadonlyArray<Example.Conversation>) =>
  conversations.map(({ messages }) => Message.text(messages.at(-1) ?? Message.user("")))

const traces = Dataset.fromIterable([
  trace("a", "1+1?", "3", 0),
  trace("b", "1+1?", "2", 1),
  trace("c", "1+1?", "two", 0.5),
  trace("d", "1+1?", "2", 1),
  trace("e", "2+2?", "4", 1),
  trace("f", "3+3?", "6", undefined)
])

describe("TraceData", () => {
  it("sessions are held out as a whole, by their names, in the share that was asked for", () => {
    const names = Array.from({ length: 10_000 }, (_, n) => `session-${n}`)
    const held = names.filter((name) => TraceData.isHeldOut(name, { share: 0.3 })).length
    // five standard deviations of a binomial distribution: sqrt(10,000 * 0.3 * 0.7) = 45.8
    assert.isBelow(Math.abs(held - 3000), 229)
    const other = names.filter((name) => TraceData.isHeldOut(name, { share: 0.3, seed: 1 }))
    const both = other.filter((name) => TraceData.isHeldOut(name, { share: 0.3 })).length
    assert.isBelow(Math.abs(both - 900), 150)
    assert.isTrue(
      names.every((name) => !TraceData.isHeldOut(name, { share: 0 }) && TraceData.isHeldOut(name, { share: 1 }))
    )
  })

  it.effect("split: no session is on both sides", () =>
    Effect.gen(function*() {
      const rows = Array.from({ length: 300 }, (_, n) => trace(`t${n}`, "?", "!", 1, `s${n % 60}`))
      const [train, held] = TraceData.split(Dataset.fromIterable(rows), { share: 0.5 })
      const [a, b] = [yield* collected(train), yield* collected(held)]
      assert.strictEqual(a.length + b.length, 300)
      const sessions = new Set(a.map(({ session }) => session))
      assert.isAbove(sessions.size, 10)
      assert.isAbove(b.length, 50)
      assert.isFalse(b.some(({ session }) => sessions.has(session)))
    }))

  it.effect("successes, and the best of those that were asked the same", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(answers(yield* collected(TraceData.successes(traces))), ["2", "2", "4"])
      assert.deepStrictEqual(
        answers(yield* collected(TraceData.successes(traces, { score: "length", atLeast: 2 }))),
        ["two"]
      )
      assert.deepStrictEqual(answers(yield* collected(yield* TraceData.best(traces))), ["2", "4"])
      assert.deepStrictEqual(
        answers(yield* collected(yield* TraceData.best(traces, { keep: 3, atLeast: 0.5 }))),
        ["2", "two", "2", "4"]
      )
    }))

  it.effect("pairs: the best with the worst, of one prompt, and never the same answer twice", () =>
    Effect.gen(function*() {
      const pairs = yield* collected(yield* TraceData.preferences(traces))
      assert.deepStrictEqual(
        pairs.map(({ chosen, prompt, rejected }) => [
          Message.text(prompt[0] ?? Message.user("")),
          ...[chosen, rejected].map((side) => Message.text(side[0] ?? Message.user("")))
        ]),
        [["1+1?", "2", "3"], ["1+1?", "2", "two"]]
      )
      assert.strictEqual((yield* collected(yield* TraceData.preferences(traces, { margin: 0.75 }))).length, 1)
    }))

  it.effect("feedback as reward: less the mean of the prompt; recorded tokens with their log probabilities", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const recorded = new Trace.Trace({
        ...trace("g", "1+1?", "2", 1),
        tokens: { ids: [5, 6, 7, 8], sampled: [0, 0, 1, 1], logprobs: [0, 0, -0.5, -0.25] }
      })
      const rewarded = yield* collected(
        yield* TraceData.rewarded(
          Dataset.fromIterable([
            trace("a", "1+1?", "3", 0),
            recorded,
            trace("b", "1+1?", "1", 0.75),
            trace("e", "2+2?", "4", 1)
          ]),
          { renderer }
        )
      )
      // of 0, 1 and 0.75 the mean is 7/12; of all four 11/16, which counts for the prompt that was asked once
      assert.deepStrictEqual(rewarded.map(({ loss }) => loss), [
        "importance_sampling",
        "cross_entropy",
        "cross_entropy"
      ])
      assert.approximately(rewarded[0]?.advantage ?? 0, 5 / 12, 1e-12)
      assert.approximately(rewarded[1]?.advantage ?? 0, 1 / 6, 1e-12)
      assert.approximately(rewarded[2]?.advantage ?? 0, 5 / 16, 1e-12)
      const inputs = rewarded[0]?.datum.lossFnInputs ?? {}
      const values = (name: string) => {
        const tensor = inputs[name]
        return tensor === undefined ? [] : Array.from(TensorData.toArray(tensor), Number)
      }
      assert.deepStrictEqual(values("target_tokens"), [6, 7, 8])
      assert.deepStrictEqual(values("logprobs"), [0, -0.5, -0.25])
      assert.deepStrictEqual(values("advantages"), [0, Math.fround(5 / 12), Math.fround(5 / 12)])
    }))

  it.effect("replay: what was asked is asked again", () =>
    Effect.gen(function*() {
      const problems = yield* collected(TraceData.replay(traces, { reward: ({ id }, answer) => answer === id }))
      assert.strictEqual(problems.length, 6)
      assert.isTrue(problems.every(({ samePrompt }) => samePrompt === true))
    }))
})
