/**
 * Trainers: each run an async iterator of steps.
 *
 * A run starts with the loop over it. Leaving the loop, or aborting its `signal`, ends it after a checkpoint has been
 * saved; with `log`, the same call goes on from there.
 *
 * @since 0.1.0
 */
import type { Exchange, Message } from "./Chat.js"
import type { CallOptions, Duration } from "./Clients.js"
import type { Datum } from "./Data.js"

/**
 * The model to train, by its name or with its adapter.
 *
 * @since 0.1.0
 * @category configuration
 */
export type Model = string | {
  readonly baseModel: string
  /** Weights to begin with, as a `tinker://` path; the optimizer begins fresh. */
  readonly from?: string | undefined
  /** Rank of the adapter. Defaults to 32. */
  readonly rank?: number
  /** Seed of the adapter's first weights. Defaults to 0. */
  readonly seed?: number
}

/**
 * A learning rate, constant or with a schedule.
 *
 * @since 0.1.0
 * @category configuration
 */
export type LearningRate = number | {
  /** The highest rate. */
  readonly peak: number
  /** How it goes down from there to the end of the run. Defaults to `constant`. */
  readonly decay?: "constant" | "linear" | "cosine"
  /** Steps in which it rises from 0 to the peak. Defaults to 0. */
  readonly warmUp?: number
  /** Where it ends, as a share of the peak. Defaults to 0. */
  readonly floor?: number
}

/**
 * Options of all trainers.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface RunOptions extends CallOptions {
  readonly model: Model
  readonly learningRate: LearningRate
  readonly adam?: {
    /** Defaults to 0.9. */
    readonly beta1?: number
    /** Defaults to 0.95. */
    readonly beta2?: number
    /** Defaults to 1e-8. */
    readonly eps?: number
    /** Defaults to 0. */
    readonly weightDecay?: number
    /** Largest norm of the gradient; 0 does not clip. Defaults to 0. */
    readonly clip?: number
  }
  /** Number of passes over the data. Defaults to 1. */
  readonly epochs?: number
  /** Maximum number of steps. */
  readonly steps?: number | undefined
  /** Shuffle by this seed and the epoch. Defaults to no shuffle. */
  readonly shuffle?: number | undefined
  /** How conversations become tokens, by name. Defaults to the renderer recommended for the model. */
  readonly renderer?: string | undefined
  /** Checkpoints to resume from, every so many steps or so often, and how long they are kept. */
  readonly checkpoints?: {
    readonly periodic?: { readonly steps?: number | undefined; readonly interval?: Duration | undefined } | undefined
    readonly ttl?: Duration | undefined
  } | undefined
  /** `false` lets a run go on whose model breaks. */
  readonly guard?: false | undefined
  /** The directory in which the run is recorded, and from which it is resumed. Defaults to nowhere. */
  readonly log?: string | undefined
}

/**
 * Supervised fine-tuning: conversations, as the path of a JSONL file or in memory.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface SupervisedOptions extends RunOptions {
  readonly data: string | Iterable<Exchange | { readonly messages: ReadonlyArray<Message> } | Datum>
  /** Examples per step. Defaults to 32. */
  readonly batchSize?: number
  /** Fate of fewer rows than a batch at the end of an epoch. Defaults to `drop`. */
  readonly partial?: "drop" | "keep"
  /** Most tokens of an example. Defaults to no limit. */
  readonly maxLength?: number | undefined
}

/**
 * Preferences: answers that are better than others.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface PreferenceOptions extends RunOptions {
  readonly data:
    | string
    | Iterable<{
      readonly prompt: ReadonlyArray<Message>
      readonly chosen: ReadonlyArray<Message>
      readonly rejected: ReadonlyArray<Message>
    }>
  /** Examples per step. Defaults to 32. */
  readonly batchSize?: number
  /** Strength of the constraint to the reference. Defaults to 0.1. */
  readonly beta?: number
  /** The reference: the `tinker://` path of a sampler, or the name of a model. Defaults to the model as it begins. */
  readonly reference?: string | undefined
}

/**
 * Options of trainers that sample.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface RolloutOptions extends RunOptions {
  /** Most tokens of an answer. */
  readonly maxTokens: number
  /** Answers to each problem. Defaults to 8. */
  readonly groupSize?: number
  /** Problems of each step. Defaults to 16. */
  readonly groupsPerBatch?: number
  /** Defaults to 1. */
  readonly temperature?: number
  /** Of all draws. Defaults to 0. */
  readonly seed?: number
  /** Rollouts at a time. */
  readonly concurrency?: number | undefined
}

/**
 * The loss of reinforcement learning.
 *
 * @since 0.1.0
 * @category configuration
 */
export type ReinforceLoss = "importance_sampling" | "ppo" | "cispo" | "dapo" | "gspo" | "dro"

/**
 * Reinforcement learning: questions, and a reward for every answer.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface ReinforceOptions<Problem> extends RolloutOptions {
  readonly problems: Iterable<Problem>
  readonly question: (problem: Problem) => string | ReadonlyArray<Message>
  /** The reward of an answer: its text without reasoning, and the whole message. A rejection ends the run. */
  readonly reward: (
    problem: Problem,
    answer: string,
    message: Message
  ) => number | boolean | Promise<number | boolean>
  /** Defaults to `importance_sampling`. */
  readonly loss?: ReinforceLoss | undefined
  /** How rewards of a group become advantages. Defaults to `center`. */
  readonly advantage?: "center" | "standardize" | "leave_one_out" | undefined
  /** Train on groups whose rewards are all the same. Defaults to false. */
  readonly keepConstant?: boolean
}

/**
 * Distillation: prompts, and a teacher to answer them like.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface DistillOptions extends RolloutOptions {
  readonly prompts: Iterable<string | ReadonlyArray<Message>>
  /** The `tinker://` path of a sampler, or the name of a model. It must have the student's tokenizer. */
  readonly teacher: string
  /** Cost of a nat of difference. Defaults to 1. */
  readonly coefficient?: number | undefined
}

/**
 * One optimizer step.
 *
 * @since 0.1.0
 * @category models
 */
export interface Step {
  /** Optimizer steps the weights contain after it: the first step is 1. */
  readonly step: number
  readonly totalSteps: number | undefined
  readonly epoch: number
  /** Loss per trained token. */
  readonly loss: number
  /** Tokens the model read. */
  readonly tokens: number
  readonly learningRate: number
  readonly metrics: Readonly<Record<string, number>>
  /** With the last step of a run: the checkpoint of the final weights. */
  readonly final: {
    readonly checkpoint: {
      readonly name: string
      /** Weights and optimizer state, to resume from. */
      readonly statePath: string
      /** Weights to sample from. */
      readonly samplerPath?: string | undefined
    }
  } | undefined
}

/**
 * The trainers of a connection.
 *
 * @since 0.1.0
 * @category models
 */
export interface Trainers {
  readonly supervised: (options: SupervisedOptions) => AsyncIterable<Step>
  readonly preference: (options: PreferenceOptions) => AsyncIterable<Step>
  readonly reinforce: <Problem>(options: ReinforceOptions<Problem>) => AsyncIterable<Step>
  readonly distill: (options: DistillOptions) => AsyncIterable<Step>
}
