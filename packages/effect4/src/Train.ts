/**
 * Trainers: each run a Stream of optimizer steps. Where a stream is left, or interrupted, a checkpoint is saved first; with
 * `log`, the same run goes on from there.
 *
 * @since 0.1.0
 */
import * as Client from "@effect-tinker/promise"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { run } from "./internal/call.js"
import { Complete } from "./Tinker.js"
import type { TinkerError, TrainingFailed } from "./TinkerError.js"

/**
 * A run: its steps.
 *
 * @since 0.1.0
 * @category models
 */
export type Run<R = never> = Stream.Stream<Client.Step, TinkerError | TrainingFailed, Complete | R>

const trained = (
  make: (trainers: Client.Trainers, options: { readonly signal: AbortSignal }) => AsyncIterable<Client.Step>
): Run =>
  Stream.unwrap(
    Effect.map(Complete, ({ client }) => run((options) => make(Client.trainers(client), options)))
  )

/**
 * Supervised fine-tuning.
 *
 * @since 0.1.0
 * @category constructors
 */
export const supervised = (options: Omit<Client.SupervisedOptions, "signal">): Run =>
  trained((trainers, { signal }) => trainers.supervised({ ...options, signal }))

/**
 * Preferences.
 *
 * @since 0.1.0
 * @category constructors
 */
export const preference = (options: Omit<Client.PreferenceOptions, "signal">): Run =>
  trained((trainers, { signal }) => trainers.preference({ ...options, signal }))

/**
 * Distillation.
 *
 * @since 0.1.0
 * @category constructors
 */
export const distill = (options: Omit<Client.DistillOptions, "signal">): Run =>
  trained((trainers, { signal }) => trainers.distill({ ...options, signal }))

/**
 * Options of reinforcement learning. A reward may be an Effect; one that fails ends the run.
 *
 * @since 0.1.0
 * @category configuration
 */
export type ReinforceOptions<Problem, E, R> = Omit<Client.ReinforceOptions<Problem>, "reward" | "signal"> & {
  readonly reward: (
    problem: Problem,
    answer: string,
    message: Client.Message
  ) => number | boolean | Effect.Effect<number | boolean, E, R>
}

/**
 * Reinforcement learning: questions, and a reward for every answer.
 *
 * @since 0.1.0
 * @category constructors
 */
export const reinforce = <Problem, E = never, R = never>(
  { reward, ...options }: ReinforceOptions<Problem, E, R>
): Run<R> =>
  Stream.unwrap(
    Effect.map(Effect.context<R>(), (context) =>
      trained((trainers, { signal }) =>
        trainers.reinforce<Problem>({
          ...options,
          signal,
          reward: (problem, answer, message) => {
            const given = reward(problem, answer, message)
            return Effect.isEffect(given) ? Effect.runPromiseWith(context)(given, { signal }) : given
          }
        })
      ))
  )
