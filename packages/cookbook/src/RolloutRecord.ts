/**
 * A rollout as `RunLog` records it: what was said turn by turn, every token with what is known about it, and what came of
 * it. Of a long rollout the record has an upper bound, whatever its environment says.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Either from "effect/Either"
import type { ParseError } from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { Metric, Metrics } from "./RunEntry.js"
import * as Trajectory from "./Trajectory.js"

// =============================================================================
// schemas
// =============================================================================

/**
 * A turn. Its tokens are `offset` tokens of the turns before it, then `prompt`, then the sampled `tokens`; only these last
 * have a logprob, and they are trained on unless the turn is `masked`.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Turn extends Schema.Class<Turn>("@effect-tinker/cookbook/RolloutRecord/Turn")({
  /** Messages of the environment since the turn before. */
  given: Schema.Array(Message.Message),
  /** Message of the policy, where it could be read. */
  message: Schema.optional(Message.Message),
  reward: Metric,
  masked: Schema.Boolean,
  /** Optimizer steps in the weights it was sampled from. */
  policyVersion: Schema.Int,
  /** `length`: cut off by a limit. */
  stopReason: Schema.Literal("stop", "length"),
  /** Why its prompt does not continue the turn before; it is then trained as a separate row. */
  fork: Schema.optional(Schema.Struct({ reason: Schema.String, description: Schema.String })),
  metrics: Metrics,
  /** Tokens of the turns before that the prompt begins with. */
  offset: Schema.NonNegativeInt,
  /** The rest of the prompt. */
  prompt: Schema.Array(Schema.Int),
  tokens: Schema.Array(Schema.Int),
  /** One for each sampled token. */
  logprobs: Schema.Array(Schema.Number),
  /** How many tokens the record leaves out because the rollout is too long: all of this turn, or none. */
  omitted: Schema.NonNegativeInt
}) {}

/**
 * A rollout.
 *
 * @since 0.1.0
 * @category schemas
 */
export class RolloutRecord extends Schema.Class<RolloutRecord>("@effect-tinker/cookbook/RolloutRecord")({
  /** The number of its group in the step. */
  group: Schema.NonNegativeInt,
  /** Its number in the group. */
  member: Schema.NonNegativeInt,
  tags: Schema.Array(Schema.String),
  /** Of all turns, of the rollout, and by comparison with its group. */
  reward: Metric,
  /** How much better than its group, by the rule of the run. */
  advantage: Metric,
  /** Whether the step was trained on it: a group whose rewards are all the same teaches nothing. */
  trained: Schema.Boolean,
  stop: Schema.String,
  metrics: Metrics,
  turns: Schema.Array(Turn)
}) {}

/**
 * Reads a record.
 *
 * @since 0.1.0
 * @category schemas
 */
export const decode: (rollout: unknown) => Either.Either<RolloutRecord, ParseError> = Schema.decodeUnknownEither(
  RolloutRecord
)

/**
 * All tokens of a recorded turn, its whole prompt included; empty where they were left out.
 *
 * @since 0.1.0
 * @category combinators
 */
export const tokensOf = (self: RolloutRecord, turn: number): ReadonlyArray<number> => {
  let tokens: ReadonlyArray<number> = []
  for (const { offset, omitted, prompt, tokens: sampled } of self.turns.slice(0, turn + 1)) {
    tokens = omitted > 0 ? [] : [...tokens.slice(0, offset), ...prompt, ...sampled]
  }
  return tokens
}

// =============================================================================
// constructors
// =============================================================================

/**
 * How much of a rollout is recorded.
 *
 * @since 0.1.0
 * @category models
 */
export interface Limits {
  /** Most tokens: the turns after those that fit are recorded without theirs. Defaults to 16,384. */
  readonly maxTokens?: number | undefined
  /** Most characters of one text, thought or tool call. Defaults to 10,000. */
  readonly maxText?: number | undefined
}

const shorten = (limit: number) => {
  const cut = (text: string) => text.length > limit ? `${text.slice(0, limit)}… (${text.length} characters)` : text
  return (message: Message.Message): Message.Message => ({
    ...message,
    content: typeof message.content === "string"
      ? cut(message.content)
      : message.content.map((part) => {
        switch (part.type) {
          case "text":
            return { ...part, text: cut(part.text) }
          case "thinking":
            return { ...part, thinking: cut(part.thinking) }
          case "image":
            return { ...part, image: cut(part.image) }
        }
      }),
    ...(message.toolCalls === undefined ? {} : {
      toolCalls: message.toolCalls.map((call) => ({ ...call, arguments: cut(call.arguments) }))
    }),
    ...(message.unparsedToolCalls === undefined ? {} : {
      unparsedToolCalls: message.unparsedToolCalls.map((call) => ({ ...call, rawText: cut(call.rawText) }))
    })
  })
}

const encodeMetric = Schema.encodeSync(Metric)
const encodeMetrics = Schema.encodeSync(Metrics)

/** An impossible token, as JSON can write it. */
const impossible = -9999

const turnsOf = (
  { turns }: Trajectory.Trajectory,
  limits: Limits | undefined
): ReadonlyArray<typeof Turn.Encoded> => {
  const short = shorten(limits?.maxText ?? 10_000)
  let room = limits?.maxTokens ?? 16_384
  let before: Trajectory.Turn | undefined
  return turns.map((turn) => {
    const { action, fork, given = [], masked, message, metrics, prompt, reward } = turn
    const continued = before === undefined || !Trajectory.continues(before, turn)
      ? 0
      : before.prompt.length + before.action.tokens.length
    before = turn
    const size = prompt.length - continued + action.tokens.length
    // What follows a turn without tokens could not be put together again.
    room = size <= room ? room - size : -1
    const kept = room >= 0
    return {
      given: given.map(short),
      ...(message === undefined ? {} : { message: short(message) }),
      reward: encodeMetric(reward),
      masked,
      policyVersion: action.policyVersion,
      stopReason: action.stopReason,
      ...(fork === undefined ? {} : { fork }),
      metrics: encodeMetrics(metrics),
      offset: continued,
      prompt: kept ? Array.from(prompt.subarray(continued)) : [],
      tokens: kept ? Array.from(action.tokens) : [],
      logprobs: kept
        ? Array.from(action.logprobs, (logprob) => Number.isFinite(logprob) ? Number(logprob.toFixed(4)) : impossible)
        : [],
      omitted: kept ? 0 : size
    }
  })
}

/**
 * The rollouts of a group, as JSON to record.
 *
 * @since 0.1.0
 * @category constructors
 */
export const fromGroup = (
  group: Trajectory.Group,
  options: {
    /** The number of the group in its step. */
    readonly index: number
    readonly advantage: Trajectory.Advantage
    readonly trained: boolean
    readonly limits?: Limits | undefined
  }
): ReadonlyArray<typeof RolloutRecord.Encoded> => {
  const rewards = Trajectory.rewardsOf(group)
  const advantages = options.advantage(rewards)
  return group.trajectories.map((trajectory, member) => ({
    group: options.index,
    member,
    tags: group.tags,
    reward: encodeMetric(rewards[member] ?? 0),
    advantage: encodeMetric(advantages[member] ?? 0),
    trained: options.trained,
    stop: trajectory.stop,
    metrics: encodeMetrics(trajectory.metrics),
    // Last: a reader that only wants the rest can stop here.
    turns: turnsOf(trajectory, options.limits)
  }))
}
