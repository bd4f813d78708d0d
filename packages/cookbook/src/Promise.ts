/**
 * The trainers for plain async code: over a connection of `effect-tinker/Promise`, each run an async iterator of steps.
 *
 * - A run starts with the loop over it. Leaving the loop, or aborting its `signal`, ends it after a checkpoint has been
 *   saved; with `log`, the same call goes on from there.
 * - Files are named by their path. Rewards are plain functions, asynchronous or not.
 * - What the trainers fail with rejects as it is: `error._tag`, or `instanceof`.
 *
 * @since 0.1.0
 */
import * as Chat from "@effect-tinker/tokenizer/Chat"
import * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed, TokenizerError } from "@effect-tinker/tokenizer/TokenizerError"
import type { Tokenizers } from "@effect-tinker/tokenizer/Tokenizers"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Datum from "effect-tinker/Datum"
import type { CallOptions, Tinker } from "effect-tinker/Promise"
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Stream from "effect/Stream"
import type * as CheckpointPolicy from "./CheckpointPolicy.js"
import * as Dataset from "./Dataset.js"
import * as Distill from "./Distill.js"
import * as Environment from "./Environment.js"
import type * as Evaluator from "./Evaluator.js"
import * as Example from "./Example.js"
import type * as Guard from "./Guard.js"
import * as Preference from "./Preference.js"
import * as Reinforce from "./Reinforce.js"
import type * as Rollout from "./Rollout.js"
import * as RunLog from "./RunLog.js"
import * as Supervised from "./Supervised.js"
import type * as Trainer from "./Trainer.js"

/**
 * Services a connection must provide for its trainers: the tokenizers of its models, and files. `connectLocal` of
 * `@effect-tinker/local/NodePromise` has both.
 *
 * @since 0.1.0
 * @category models
 */
export type Services = Tokenizers | FileSystem.FileSystem

/**
 * One optimizer step: a `StepReport` of plain values.
 *
 * @since 0.1.0
 * @category models
 */
export interface Step<out Detail = unknown> extends Omit<Trainer.StepReport<Detail>, "totalSteps" | "final"> {
  readonly totalSteps: number | undefined
  /** With the last step of a run: the evaluation and the checkpoint of the final weights. */
  readonly final: Option.Option.Value<Trainer.StepReport["final"]> | undefined
}

/**
 * Options of all trainers, beside their configuration.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunOptions extends CallOptions {
  /** How conversations become tokens, by name. Defaults to the renderer recommended for the model. */
  readonly renderer?: string | undefined
  readonly evaluate?: ReadonlyArray<Evaluator.Evaluator<unknown, Services>> | undefined
  readonly evaluateEvery?: number | undefined
  readonly checkpoints?: CheckpointPolicy.CheckpointPolicy | undefined
  /** When the run is stopped because its model breaks; `false` turns it off. */
  readonly guard?: Guard.Guard | false | undefined
  /** The directory in which the run is recorded, and from which it is resumed. Defaults to nowhere. */
  readonly log?: string | undefined
}

/**
 * Rows: the path of a JSONL file, what is in memory, or a dataset.
 *
 * @since 0.1.0
 * @category models
 */
export type Rows<A> = string | Iterable<A> | Dataset.Dataset<A, unknown, Services>

/**
 * A conversation of two messages, or of any number.
 *
 * @since 0.1.0
 * @category models
 */
export type Conversation = Chat.Exchange | Example.Example | Datum.Datum

/**
 * Supervised fine-tuning.
 *
 * @since 0.1.0
 * @category models
 */
export type SupervisedOptions = Supervised.ConfigInput & RunOptions & {
  readonly data: Rows<Conversation>
  /** Steps kept in flight behind the one that is waited for. Defaults to 1. */
  readonly submitAhead?: number | undefined
}

/**
 * Preferences.
 *
 * @since 0.1.0
 * @category models
 */
export type PreferenceOptions = Preference.ConfigInput & RunOptions & { readonly data: Rows<Example.Preference> }

/** Options of the trainers with rollouts. */
type RolloutOptions = RunOptions & {
  /** Settings of environments, beside the context window. */
  readonly settings?: Omit<Environment.Settings, "renderer" | "contextWindow"> | undefined
  readonly limits?: Rollout.Limits | undefined
  readonly concurrency?: number | undefined
  readonly measureUpdate?: boolean | undefined
  readonly record?: Reinforce.Recording | undefined
}

/**
 * Reinforcement learning: questions, and a reward for every answer.
 *
 * @since 0.1.0
 * @category models
 */
export type ReinforceOptions<Problem> = Reinforce.ConfigInput & RolloutOptions & {
  readonly problems: Iterable<Problem>
  readonly question: (problem: Problem) => string | ReadonlyArray<Message.Message>
  /** The reward of an answer: its text without reasoning, and the whole message. A rejection ends the run. */
  readonly reward: (
    problem: Problem,
    answer: string,
    message: Message.Message
  ) => number | boolean | Promise<number | boolean>
}

/**
 * Distillation: prompts, and a teacher to answer them like.
 *
 * @since 0.1.0
 * @category models
 */
export type DistillOptions =
  & Omit<Reinforce.ConfigInput, "kl" | "advantage" | "keepConstant">
  & RolloutOptions
  & Pick<Distill.OnPolicyOptions, "teacher" | "coefficient">
  & { readonly prompts: Iterable<string | ReadonlyArray<Message.Message>> }

/**
 * The trainers of a connection. See the modules of the same names for what each option does.
 *
 * @since 0.1.0
 * @category models
 */
export interface Trainers {
  readonly supervised: (options: SupervisedOptions) => AsyncIterable<Step>
  readonly preference: (options: PreferenceOptions) => AsyncIterable<Step>
  readonly reinforce: <Problem>(options: ReinforceOptions<Problem>) => AsyncIterable<Step<Reinforce.Detail>>
  readonly distill: (options: DistillOptions) => AsyncIterable<Step<Reinforce.Detail>>
}

/**
 * The renderer of the model in training, by name or as recommended.
 *
 * @since 0.1.0
 * @category combinators
 */
export const rendererNamed = (renderer?: string) =>
(
  training: TrainingClient.Service
): Effect.Effect<
  Chat.Chat["renderer"],
  TinkerError.TinkerError | TokenizerError | RenderFailed | ChatTemplateFailed,
  Tokenizers
> => Effect.map(Chat.forModel(training, { renderer }), (chat) => chat.renderer)

/**
 * Where a run is recorded: a directory, or nowhere.
 *
 * @since 0.1.0
 * @category combinators
 */
export const logTo = (directory: string | undefined): RunLog.Target<FileSystem.FileSystem> =>
  directory === undefined ? RunLog.none : RunLog.directory(directory)

/**
 * A step of plain values.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toStep = <Detail>({ final, totalSteps, ...step }: Trainer.StepReport<Detail>): Step<Detail> => ({
  ...step,
  totalSteps: Option.getOrUndefined(totalSteps),
  final: Option.getOrUndefined(final)
})

const rowsOf = <A, B>(
  rows: Rows<A>,
  file: (path: string) => Dataset.Dataset<B, unknown, Services>
): Dataset.Dataset<A | B, unknown, Services> => typeof rows === "string" ? file(rows) : Dataset.from(rows)

const exampleOf = (row: Conversation): Datum.Datum | Example.Example => {
  if (!("user" in row)) return row
  const system = row.system === undefined ? [] : [Message.system(row.system)]
  return Example.conversation([...system, Message.user(row.user), Message.assistant(row.assistant)])
}

/** Options of all trainers, as the Effect API has them. */
const common = ({ checkpoints, evaluate, evaluateEvery, log, renderer }: RunOptions) => ({
  checkpoints,
  evaluate,
  evaluateEvery,
  log: logTo(log),
  renderer: rendererNamed(renderer)
})

/**
 * The trainers of a connection.
 *
 * @example
 * ```ts
 * import { trainers } from "@effect-tinker/cookbook/Promise"
 * import { connectLocal } from "@effect-tinker/local/NodePromise"
 *
 * const main = async () => {
 *   await using tinker = await connectLocal()
 *   const run = trainers(tinker).supervised({
 *     model: "local/chat",
 *     data: "chats.jsonl",
 *     learningRate: 1e-3,
 *     log: "runs/support"
 *   })
 *   for await (const { loss, step } of run) console.log(step, loss)
 * }
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const trainers = (tinker: Tinker<Services>): Trainers => ({
  supervised: ({ signal, ...options }) =>
    tinker.iterate(
      Stream.map(
        Supervised.train({
          ...options,
          ...common(options),
          data: Dataset.map(rowsOf(options.data, Example.chats), exampleOf)
        }),
        toStep
      ),
      { signal }
    ),
  preference: ({ signal, ...options }) =>
    tinker.iterate(
      Stream.map(
        Preference.train({ ...options, ...common(options), data: rowsOf(options.data, Example.preferences) }),
        toStep
      ),
      { signal }
    ),
  reinforce: ({ problems, question, reward, signal, ...options }) =>
    tinker.iterate(
      Stream.map(
        Reinforce.train({
          ...options,
          ...common(options),
          problems: Environment.problems(problems, {
            question,
            reward: (problem, answer, message) =>
              Effect.flatMap(
                Effect.try({
                  try: () => {
                    const given = reward(problem, answer, message)
                    // It may reject before the fiber comes to it.
                    if (Predicate.isPromise(given)) given.catch(() => undefined)
                    return given
                  },
                  catch: (error) => error
                }),
                (given) =>
                  Predicate.isPromise(given)
                    ? Effect.tryPromise({ try: () => given, catch: (error) => error })
                    : Effect.succeed(given)
              )
          })
        }),
        toStep
      ),
      { signal }
    ),
  distill: ({ prompts, signal, ...options }) =>
    tinker.iterate(
      Stream.map(
        Distill.onPolicy({ ...options, ...common(options), prompts: Dataset.fromIterable(prompts) }),
        toStep
      ),
      { signal }
    )
})
