/**
 * Runs of agents as data to fine-tune on: runs of every task, the best of them kept (rejection sampling), as rows of the
 * exact tokens that were sampled. And as JSON lines, for later runs and other programs.
 *
 * @since 0.1.0
 */
import * as DataFile from "@effect-tinker/cookbook/DataFile"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Environment from "@effect-tinker/cookbook/Environment"
import * as Example from "@effect-tinker/cookbook/Example"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Rollout from "@effect-tinker/cookbook/Rollout"
import * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import type * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Datum from "effect-tinker/Datum"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Order from "effect/Order"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Agent from "./Agent.js"
import * as Recorder from "./Recorder.js"

// =============================================================================
// collecting
// =============================================================================

/**
 * The runs of one task that the agent ended by itself.
 *
 * @since 0.1.0
 * @category models
 */
export interface Collected<out Task, out Result> {
  readonly task: Task
  readonly runs: ReadonlyArray<Agent.Run<Task, Result>>
}

/**
 * How runs are collected.
 *
 * @since 0.1.0
 * @category models
 */
export interface CollectOptions<Task, Result, E, R, ED, RD> extends Omit<Policy.SamplerOptions, "version"> {
  readonly agent: Agent.Agent<Task, Result, E, R, ED, RD>
  readonly sampler: SamplingClient.Service
  readonly renderer: Renderer.Renderer
  /** Runs of each task. Defaults to 8. */
  readonly groupSize?: number | undefined
  /** Limits of a run, on top of `Agent.defaultLimits`. */
  readonly limits?: Rollout.Limits | undefined
  /** Tasks at once. Defaults to 16. */
  readonly concurrency?: number | undefined
  /** Of all draws. Defaults to 0. */
  readonly seed?: number | undefined
  /** Where calls and rewards are recorded. Defaults to memory. */
  readonly recorder?: Recorder.Service | undefined
}

/**
 * Runs an agent several times at each of its tasks.
 *
 * @since 0.1.0
 * @category constructors
 */
export const collect = <Task, Result, E, R, ED, RD>(
  options: CollectOptions<Task, Result, E, R, ED, RD>
): Stream.Stream<
  Collected<Task, Result>,
  E | ED | Agent.RunFailure | TinkerError.TinkerError | Rollout.ActionTimedOut | Rollout.GroupFailed,
  R | RD
> => {
  const policy = Policy.fromSampler(options.sampler, options)
  const settings = { renderer: options.renderer, contextWindow: options.contextWindow }
  return Dataset.values(options.agent.tasks).pipe(
    Stream.zipWithIndex,
    Stream.mapEffect(([task, index]) =>
      Effect.gen(function*() {
        // By member, not by when they begin or end: the same seed gives the same runs in the same order.
        const runs = new Map<number, Agent.Run<Task, Result>>()
        const problem = Environment.group((settings) => {
          const onRun = (run: Agent.Run<Task, Result>) => Effect.sync(() => void runs.set(settings.member ?? 0, run))
          return Agent.problem(options.agent, task, { recorder: options.recorder, onRun }).make(settings)
        })
        yield* Rollout.group(policy, problem, {
          size: options.groupSize ?? 8,
          settings,
          limits: { ...Agent.defaultLimits, ...options.limits },
          // seeds of a group's members are derived from it by hashing
          seed: (options.seed ?? 0) * 1_000_003 + index
        })
        return { task, runs: Arr.sortBy(byMember)(runs).map(([, run]) => run) }
      }), { concurrency: options.concurrency ?? 16 })
  )
}

const byMember = Order.mapInput(Order.number, ([member]: readonly [number, unknown]) => member)

const byReward = Order.reverse(Order.mapInput(Order.number, ({ reward }: { readonly reward: number }) => reward))

/**
 * The runs with the highest rewards, of those that reach a minimum.
 *
 * @since 0.1.0
 * @category combinators
 */
export const best = <Run extends { readonly reward: number }>(
  runs: Iterable<Run>,
  options: {
    /** The least reward that is good enough. */
    readonly minimum: number
    /** Runs to keep. Defaults to 1. */
    readonly keep?: number | undefined
  }
): ReadonlyArray<Run> =>
  Arr.take(Arr.sort(Arr.filter(runs, ({ reward }) => reward >= options.minimum), byReward), options.keep ?? 1)

// =============================================================================
// data
// =============================================================================

/** Cross-entropy over the tokens that were sampled. */
const datumOf = ({ inputs, mask, targets }: Pick<Trajectory.Row, "inputs" | "mask" | "targets">) =>
  Datum.make({ modelInput: inputs, lossFnInputs: { target_tokens: targets, weights: mask } })

/**
 * The calls of one rollout as data for supervised fine-tuning: the exact tokens, of which those the model sampled are
 * trained on. There are several where conversations do not continue each other.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toData = (
  calls: ReadonlyArray<Recorder.Call>
): Effect.Effect<ReadonlyArray<Datum.Datum>, TinkerError.InvalidInput> =>
  Effect.forEach(Trajectory.toRows(Recorder.toTrajectory(calls, { reward: 0 }), 1), datumOf)

// =============================================================================
// JSON lines
// =============================================================================

/**
 * A line of an exported rollout: one conversation of it, in messages and in tokens. Chats are read from it with
 * `Example.chats`; {@link jsonl} reads the tokens as they were sampled.
 *
 * @since 0.1.0
 * @category models
 */
export interface Line {
  readonly rollout: string
  /** `null` where the rollout was not scored. */
  readonly reward: number | null
  /** The newest weights it was sampled from, in optimizer steps. */
  readonly policy_version: number
  /** As they were given to the model, tools included. Those that it wrote are marked `trainable`. */
  readonly messages: ReadonlyArray<typeof Example.MessageFromJson.Encoded>
  readonly tokens: ReadonlyArray<number>
  /** One for each token: 1 if it was sampled. */
  readonly weights: ReadonlyArray<number>
}

const encodeMessage = Schema.encodeSync(Example.MessageFromJson)

/** The calls of each row: a row ends with a call that no other continues. */
const conversations = (calls: ReadonlyArray<Recorder.Call>): ReadonlyArray<ReadonlyArray<Recorder.Call>> => {
  const chains = new Map<string, Array<Recorder.Call>>()
  for (const call of calls) {
    if (call.rejected !== undefined) continue
    const parent = call.origin._tag === "Continued" ? chains.get(call.origin.parent) : undefined
    // the key of a chain is its last call, so that a second continuation of the same call finds none
    if (parent === undefined) chains.set(call.id, [call])
    else if (call.origin._tag === "Continued") {
      chains.delete(call.origin.parent)
      chains.set(call.id, [...parent, call])
    }
  }
  return Array.from(chains.values())
}

/**
 * The calls of one rollout as lines, one for each conversation in it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toLines = (
  calls: ReadonlyArray<Recorder.Call>,
  reward: number | null
): ReadonlyArray<Line> =>
  conversations(calls).flatMap((chain) => {
    const last = chain.at(-1)
    if (last === undefined) return []
    const { completion, messages, prompt } = last.turn
    const written = new Set<Message.Message>(chain.map(({ message }) => message))
    const weights = new Uint8Array(prompt.length + completion.length)
    for (const { turn } of chain) weights.fill(1, turn.prompt.length, turn.prompt.length + turn.completion.length)
    return [{
      rollout: last.rollout,
      reward,
      policy_version: Math.max(...chain.map(({ policyVersion }) => policyVersion)),
      messages: [...messages, last.message].map((message) =>
        encodeMessage({ ...message, trainable: written.has(message) })
      ),
      tokens: [...prompt, ...completion],
      weights: Array.from(weights)
    }]
  })

/**
 * Writes rollouts to a file of JSON lines, replacing it: such as those of `CallStore.read`, or runs that were kept by
 * {@link best}.
 *
 * @since 0.1.0
 * @category destructors
 */
export const writeJsonl = <E, R>(
  path: string,
  rollouts: Stream.Stream<{ readonly calls: ReadonlyArray<Recorder.Call>; readonly reward: number | null }, E, R>
): Effect.Effect<void, E | PlatformError.PlatformError, R | FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    rollouts.pipe(
      Stream.map(({ calls, reward }) => toLines(calls, reward).map((line) => `${JSON.stringify(line)}\n`).join("")),
      Stream.encodeText,
      Stream.run(fs.sink(path))
    ))

/** One check for all numbers: a node of a schema for each would take longer than reading the file. */
const Numbers = Schema.declare(
  (u): u is ReadonlyArray<number> => Array.isArray(u) && u.every((item) => typeof item === "number"),
  { identifier: "Numbers" }
)

const Tokens = Schema.Struct({ tokens: Numbers, weights: Numbers })

/** A line's tokens as a datum. */
const DatumFromLine: Schema.Schema<Datum.Datum, typeof Tokens.Encoded> = Schema.transformOrFail(
  Tokens,
  Schema.declare(Datum.isDatum, { identifier: "Datum" }),
  {
    strict: true,
    decode: ({ tokens, weights }, _, ast) =>
      tokens.length < 2 || weights.length !== tokens.length
        ? ParseResult.fail(new ParseResult.Type(ast, tokens, "a row has two tokens or more, and as many weights"))
        : Either.mapLeft(
          datumOf({
            inputs: Int32Array.from(tokens).subarray(0, -1),
            targets: Int32Array.from(tokens).subarray(1),
            mask: Float32Array.from(weights).subarray(1)
          }),
          (error) => new ParseResult.Type(ast, tokens, error.message)
        ),
    encode: (datum, _, ast) => ParseResult.fail(new ParseResult.Forbidden(ast, datum, "rows are read, not written"))
  }
)

/**
 * The tokens of exported rollouts, as data for `Supervised.train`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const jsonl = (
  path: string,
  options?: DataFile.Options
): Dataset.Dataset<Datum.Datum, PlatformError.PlatformError, FileSystem.FileSystem> =>
  DataFile.jsonl(path, DatumFromLine, options)
