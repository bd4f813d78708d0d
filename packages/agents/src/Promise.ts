/**
 * Agents for plain async code: over a connection of `effect-tinker/Promise`. Agents themselves are plain async code
 * already: see `Agent.make`, and `AiSdk.agent` for those of the AI SDK.
 *
 * @since 0.1.0
 */
import type { RunOptions, Services, Step } from "@effect-tinker/cookbook/Promise"
import { logTo, rendererNamed, toStep } from "@effect-tinker/cookbook/Promise"
import type * as Reinforce from "@effect-tinker/cookbook/Reinforce"
import type * as Rollout from "@effect-tinker/cookbook/Rollout"
import type { Tinker } from "effect-tinker/Promise"
import * as Stream from "effect/Stream"
import * as Agent from "./Agent.js"

/**
 * An agent, and how its model is trained.
 *
 * @since 0.1.0
 * @category models
 */
export type TrainOptions<Task, Result> =
  & Reinforce.ConfigInput
  & RunOptions
  & Agent.EpisodeOptions<Task, Result>
  & Pick<
    Agent.TrainOptions<Task, Result>,
    "test" | "settings" | "concurrency" | "measureUpdate" | "record"
  >
  & {
    readonly agent: Agent.Agent<Task, Result, unknown, Services, unknown, Services>
    /** Limits of a run, on top of `Agent.defaultLimits`. */
    readonly limits?: Rollout.Limits | undefined
  }

/**
 * Trains the model of an agent: an async iterator of steps. Leaving the loop, or aborting the `signal`, ends the run after
 * a checkpoint has been saved; with `log`, the same call goes on from there.
 *
 * @example
 * ```ts
 * import { Agent } from "@effect-tinker/agents"
 * import { trainAgent } from "@effect-tinker/agents/Promise"
 * import { connectLocal } from "@effect-tinker/local/NodePromise"
 * import { Message } from "@effect-tinker/tokenizer"
 *
 * const adder = Agent.make({
 *   tasks: [{ question: "2+3", answer: "5" }],
 *   run: ({ question }, { model }) => model.generate({ messages: [Message.user(question)] }),
 *   score: ({ answer }, { text }) => text.includes(answer)
 * })
 *
 * const main = async () => {
 *   await using tinker = await connectLocal()
 *   const run = trainAgent(tinker, { agent: adder, model: "local/chat", learningRate: 1e-3, maxTokens: 32 })
 *   for await (const { detail, step } of run) console.log(step, detail.reward)
 * }
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const trainAgent = <Task, Result>(
  tinker: Tinker<Services>,
  { log, renderer, signal, ...options }: TrainOptions<Task, Result>
): AsyncIterable<Step<Reinforce.Detail>> =>
  tinker.iterate(
    Stream.map(Agent.train({ ...options, log: logTo(log), renderer: rendererNamed(renderer) }), toStep),
    { signal }
  )
