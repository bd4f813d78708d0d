import { Agent } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import * as EffectAi from "@effect-tinker/agents/EffectAi"
import * as NodeGateway from "@effect-tinker/agents/NodeGateway"
import { Policy, Rollout, Trajectory } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message } from "@effect-tinker/tokenizer"
import { LanguageModel } from "@effect/ai"
import { assert, describe, it } from "@effect/vitest"
import { generateText } from "ai"
import { Deferred, Effect, Exit, Fiber, TestClock } from "effect"
import { TinkerError } from "effect-tinker"
import OpenAI from "openai"
import { chatRenderer } from "./support/chat.js"

/** A policy that answers the last words of a prompt by a function of them. */
const answering = (renderer: Renderer.Renderer, answer: (said: string) => string) =>
  Policy.make(({ maxTokens = Infinity, prompt }) =>
    Effect.sync((): Trajectory.Action => {
      const [end = 0] = renderer.stop
      const said = renderer.tokenizer.decode(prompt).split("user\n").at(-1)?.split("<|im_end|>")[0] ?? ""
      const whole = [...renderer.tokenizer.encode(answer(said)), Number(end)]
      const tokens = Int32Array.from(whole.slice(0, maxTokens))
      return {
        tokens,
        logprobs: new Float32Array(tokens.length),
        stopReason: tokens.length < whole.length ? "length" : "stop",
        policyVersion: 3
      }
    })
  )

const play = <Task, Result, E>(
  agent: Agent.Agent<Task, Result, E>,
  task: Task,
  options?: {
    readonly answer?: (said: string) => string
    readonly limits?: Rollout.Limits
    readonly policy?: Policy.Policy<TinkerError.TinkerError>
    readonly onRun?: (run: Agent.Run<Task, Result>) => Effect.Effect<void>
    readonly contextWindow?: number
  }
) =>
  Effect.gen(function*() {
    const renderer = yield* chatRenderer
    const policy = options?.policy ?? answering(renderer, options?.answer ?? ((said) => `${said}!`))
    const settings = { renderer, contextWindow: options?.contextWindow }
    const environment = yield* Agent.episode(agent, task, settings, { onRun: options?.onRun })
    return yield* Rollout.run(policy, environment, { limits: options?.limits })
  }).pipe(Effect.scoped)

const says = ({ turns }: Trajectory.Trajectory) => turns.map(({ message }) => Message.text(message ?? Message.user("")))

const ask = (model: Agent.RunContext["model"], ...history: ReadonlyArray<string>) =>
  model.generate({
    messages: history.map((text, i) => i % 2 === 0 ? Message.user(text) : Message.assistant(text))
  })

describe("Agent.episode", () => {
  it.effect("calls that continue each other are one row, with the score as the reward", () =>
    Effect.gen(function*() {
      const agent = Agent.make({
        tasks: ["a"],
        run: (task, { model }) =>
          Effect.gen(function*() {
            const { text } = yield* ask(model, task)
            return (yield* ask(model, task, text, "b")).text
          }),
        score: (task, result, calls) => ({
          score: result === "b!" ? 0.5 : 0,
          metrics: { words: task.length + calls.length }
        })
      })
      const runs: Array<Agent.Run<string, string>> = []
      const trajectory = yield* play(agent, "a", { onRun: (run) => Effect.sync(() => void runs.push(run)) })
      assert.deepStrictEqual(says(trajectory), ["a!", "b!"])
      assert.strictEqual(Trajectory.rewardOf(trajectory), 0.5)
      assert.strictEqual(trajectory.stop, "completed")
      assert.deepStrictEqual(trajectory.turns.map(({ action }) => action.policyVersion), [3, 3])
      assert.deepInclude(trajectory.turns[1]?.metrics, { words: 3, calls: 2, spliced: 1, agent_failed: 0, forked: 0 })
      assert.strictEqual(Trajectory.toRows(trajectory, 1).length, 1)
      assert.deepStrictEqual(runs.map(({ calls, result, reward }) => [calls.length, Exit.isSuccess(result), reward]), [
        [2, true, 0.5]
      ])
    }))

  it.effect("sub-agents that run at once, and a history that was compacted, are rows of one rollout", () =>
    Effect.gen(function*() {
      const agent = Agent.make({
        tasks: [""],
        run: (_, { model }) =>
          Effect.gen(function*() {
            const conversation = (name: string) =>
              Effect.gen(function*() {
                const { text } = yield* ask(model, name)
                return (yield* ask(model, name, text, `${name}2`)).text
              })
            const found = yield* Effect.all([conversation("x"), conversation("y")], { concurrency: "unbounded" })
            return (yield* ask(model, "summary", found.join(" "), "and?")).text
          }),
        score: () => true
      })
      const trajectory = yield* play(agent, "")
      assert.deepStrictEqual(says(trajectory), ["x!", "y!", "x2!", "y2!", "and?!"])
      assert.strictEqual(Trajectory.rewardOf(trajectory), 1)
      assert.deepStrictEqual(
        trajectory.turns.map(({ fork }) => fork?.reason),
        [undefined, undefined, undefined, undefined, "MessageEdited"]
      )
      const rows = Trajectory.toRows(trajectory, 1)
      assert.strictEqual(rows.length, 3)
      const sampled = trajectory.turns.reduce((sum, { action }) => sum + action.tokens.length, 0)
      assert.strictEqual(rows.reduce((sum, { mask }) => sum + mask.reduce((a, b) => a + b, 0), 0), sampled)
    }))

  it.effect("an agent that fails earns nothing, or fails the rollout", () =>
    Effect.gen(function*() {
      const failing = (failureReward?: number | "fail") =>
        AiSdk.agent({
          tasks: [""],
          run: async (prompt, { model }) => {
            await generateText({ model, prompt: `${prompt}?` })
            throw new Error("out of ideas")
          },
          score: () => 1,
          failureReward
        })
      const trajectory = yield* play(failing(), "")
      assert.strictEqual(Trajectory.rewardOf(trajectory), 0)
      assert.propertyVal(trajectory.turns[0]?.metrics, "agent_failed", 1)
      assert.strictEqual(Trajectory.rewardOf(yield* play(failing(-1), "")), -1)
      const error = yield* Effect.flip(play(failing("fail"), ""))
      assert.strictEqual(error.message, "the agent's run failed: out of ideas")
    }))

  it.effect("an agent that never asks has a score and nothing to train on", () =>
    Effect.gen(function*() {
      const agent = Agent.make({ tasks: [1], run: (n) => n + 1, score: (n, result) => result - n })
      const trajectory = yield* play(agent, 4)
      assert.deepStrictEqual(trajectory.turns, [])
      assert.strictEqual(Trajectory.rewardOf(trajectory), 1)
    }))

  it.effect("scores of autoevals, of no opinion, and failures of a scorer", () =>
    Effect.gen(function*() {
      const scored = (score: Agent.Score | Promise<Agent.Score>) =>
        play(Agent.make({ tasks: [0], run: () => 0, score: () => score }), 0)
      assert.strictEqual((yield* scored(Promise.resolve({ name: "Levenshtein", score: 0.75 }))).reward, 0.75)
      assert.strictEqual((yield* scored({ score: null })).reward, 0)
      assert.strictEqual((yield* scored(true)).reward, 1)
      const failure = yield* Effect.flip(scored({ score: null, error: new Error("no key") }))
      assert.strictEqual(failure.message, "the agent's score failed: no key")
      assert.include((yield* Effect.flip(scored(NaN))).message, "finite")
    }))

  it.effect("a limit ends the run: the signal is aborted, and calls that wait come to an end", () =>
    Effect.gen(function*() {
      const ended = yield* Deferred.make<string>()
      const agent = AiSdk.agent({
        tasks: [""],
        run: async (prompt, { model, signal }) => {
          const first = await generateText({ model, prompt: `${prompt}?` })
          await generateText({ model, prompt: first.text }).catch(() =>
            Deferred.unsafeDone(ended, Effect.succeed(signal.aborted ? "aborted" : "not aborted"))
          )
          return ""
        },
        score: () => 1
      })
      const trajectory = yield* play(agent, "", { limits: { maxTurns: 1 } })
      assert.deepStrictEqual([trajectory.stop, Trajectory.rewardOf(trajectory)], ["max_turns", 0])
      assert.strictEqual(yield* Deferred.await(ended), "aborted")
    }))

  it.effect("a policy that fails ends the run with its failure", () =>
    Effect.gen(function*() {
      const failure = new TinkerError.InvalidInput({ module: "Test", method: "act", description: "no" })
      const agent = Agent.make({ tasks: ["a"], run: (task, { model }) => ask(model, task), score: () => 1 })
      const error = yield* Effect.flip(play(agent, "a", { policy: Policy.make(() => Effect.fail(failure)) }))
      assert.strictEqual(error, failure)
    }))

  it.effect("an answer that nobody waits for any more is not trained on", () =>
    Effect.gen(function*() {
      const renderer = yield* chatRenderer
      const slow = Policy.make((request: Policy.Request) =>
        Effect.delay(answering(renderer, (said) => `${said}!`).act(request), "3 seconds")
      )
      const agent = Agent.make({
        tasks: [""],
        run: (_, { model }) =>
          Effect.zipRight(Effect.timeoutOption(ask(model, "first"), "1 second"), ask(model, "second")),
        score: (_, { text }) => text === "second!"
      })
      const fiber = yield* Effect.fork(play(agent, "", { policy: slow }))
      yield* TestClock.adjust("10 seconds")
      const trajectory = yield* Fiber.join(fiber)
      assert.deepStrictEqual(trajectory.turns.map(({ masked }) => masked), [true, false])
      assert.deepStrictEqual(says(trajectory), ["first!", "second!"])
      assert.strictEqual(Trajectory.rewardOf(trajectory), 1)
    }))

  it.effect("the agent's limit on tokens, and the context window, hold", () =>
    Effect.gen(function*() {
      const agent = EffectAi.agent({
        tasks: [""],
        settings: { maxTokens: 2 },
        run: () => LanguageModel.generateText({ prompt: "something long" }),
        score: (_, { finishReason }) => finishReason === "length"
      })
      const trajectory = yield* play(agent, "")
      assert.deepStrictEqual(trajectory.turns.map(({ action }) => action.tokens.length), [2])
      assert.strictEqual(Trajectory.rewardOf(trajectory), 1)
      const overflown = yield* play(agent, "", { contextWindow: 4 })
      assert.deepStrictEqual([overflown.turns.length, overflown.reward], [0, 0])
    }))

  it.live("an agent that only takes a URL", () =>
    Effect.gen(function*() {
      const agent = NodeGateway.agent({
        tasks: ["a"],
        run: async (task, { apiKey, baseURL, signal }) => {
          const client = new OpenAI({ apiKey, baseURL, maxRetries: 0 })
          const messages: Array<OpenAI.ChatCompletionMessageParam> = [{ role: "user", content: task }]
          for (const next of ["b", "c"]) {
            const { choices } = await client.chat.completions.create({ model: "gpt", messages }, { signal })
            messages.push({ role: "assistant", content: choices[0]?.message.content ?? "" })
            messages.push({ role: "user", content: next })
          }
          return messages.map(({ content }) => content).join(" ")
        },
        score: (_, said) => said === "a a! b b! c"
      })
      const trajectory = yield* play(agent, "a")
      assert.deepStrictEqual([trajectory.stop, Trajectory.rewardOf(trajectory)], ["completed", 1])
      assert.deepInclude(trajectory.turns[1]?.metrics, { calls: 2, spliced: 1 })
      assert.strictEqual(Trajectory.toRows(trajectory, 1).length, 1)
    }))
})
