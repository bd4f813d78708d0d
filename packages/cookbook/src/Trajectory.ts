/**
 * Sampled turns as data: they become rows of tokens with logprobs, advantages and masks, token for token what the
 * sampler saw and drew. Everything here is a pure function over typed arrays.
 *
 * @since 0.1.0
 */
import type * as Message from "@effect-tinker/tokenizer/Message"
import * as Datum from "effect-tinker/Datum"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Either from "effect/Either"
import type * as Loss from "./Loss.js"

// =============================================================================
// models
// =============================================================================

/**
 * Why a rollout ended.
 *
 * @since 0.1.0
 * @category models
 */
export type StopReason =
  | "completed"
  | "tool_stopped"
  | "max_turns"
  | "max_tokens"
  | "max_sampled_tokens"
  | "max_tool_calls"
  | "context_overflow"
  | "parse_error"
  | "rollout_timeout"

/**
 * Sampled tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface Action {
  readonly tokens: Int32Array
  /** One for each token. */
  readonly logprobs: Float32Array
  /** `length`: the limit of tokens was reached before a stop. */
  readonly stopReason: "stop" | "length"
  /** Optimizer steps in the weights it was sampled from; at least so many, where they may have changed meanwhile. */
  readonly policyVersion: number
  /** At most so many. Defaults to `policyVersion`. */
  readonly policyVersionAtMost?: number | undefined
  /** Name by which training data refers to the sequence, where the server gave one. */
  readonly sequenceId?: string | undefined
  /** Tokens of the prompt that the server read for it. Defaults to all, none of them from its cache. */
  readonly prefill?: { readonly cached: number; readonly uncached: number } | undefined
}

/**
 * Why a prompt does not begin with the tokens of the turn before it: the renderer's reason, such as `HistoryRewritten`.
 * The turns from a fork on are trained as a separate row.
 *
 * @since 0.1.0
 * @category models
 */
export interface Fork {
  readonly reason: string
  readonly description: string
}

/**
 * One sample and what came of it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Turn {
  readonly prompt: Int32Array
  readonly action: Action
  readonly reward: number
  /** Its tokens are not trained on. */
  readonly masked: boolean
  /** Messages that its prompt adds to the turn before, where the environment speaks in messages. */
  readonly given?: ReadonlyArray<Message.Message> | undefined
  /** Message of the tokens, where they could be read as one. */
  readonly message?: Message.Message | undefined
  /** Why its prompt does not continue the tokens of the turn before, where it does not. */
  readonly fork?: Fork | undefined
  readonly metrics: Readonly<Record<string, number>>
}

/**
 * Whether the prompt of a turn begins with exactly the prompt and the answer of the turn before.
 *
 * @since 0.1.0
 * @category combinators
 */
export const continues = (before: Turn, { prompt }: Turn): boolean => {
  const answered = before.prompt.length
  const { tokens } = before.action
  return prompt.length >= answered + tokens.length &&
    before.prompt.every((token, i) => prompt[i] === token) &&
    tokens.every((token, i) => prompt[answered + i] === token)
}

/**
 * A rollout from beginning to end.
 *
 * @since 0.1.0
 * @category models
 */
export interface Trajectory {
  readonly turns: ReadonlyArray<Turn>
  readonly stop: StopReason
  /** A reward that belongs to no turn: a prompt that was too long, a grade given at the end. */
  readonly reward: number
  readonly metrics: Readonly<Record<string, number>>
}

/**
 * Rollouts of one problem, with the reward each has by comparison with the others.
 *
 * @since 0.1.0
 * @category models
 */
export interface Group {
  readonly trajectories: ReadonlyArray<Trajectory>
  /** One for each trajectory, on top of its own. */
  readonly groupRewards: ReadonlyArray<number>
  readonly tags: ReadonlyArray<string>
  /** Rollouts that failed and were left out or tried again. */
  readonly errors: ReadonlyArray<string>
}

/**
 * A row of training data: position `i` reads `inputs[i]` and predicts `targets[i]`.
 *
 * @since 0.1.0
 * @category models
 */
export interface Row {
  readonly inputs: Int32Array
  readonly targets: Int32Array
  /** Of sampled targets when they were sampled, 0 elsewhere. */
  readonly logprobs: Float32Array
  readonly advantages: Float32Array
  /** 1 for sampled targets that are trained on, 0 elsewhere. */
  readonly mask: Float32Array
  /** Where each token came from, the last one included; absent unless every sequence has a name. */
  readonly spans?: ReadonlyArray<Datum.ProvenanceSpan> | undefined
}

// =============================================================================
// rewards and advantages
// =============================================================================

const sum = (values: ArrayLike<number>): number => {
  let total = 0
  for (let i = 0; i < values.length; i++) total += values[i] ?? 0
  return total
}

const mean = (values: ReadonlyArray<number>): number => values.length === 0 ? 0 : sum(values) / values.length

/**
 * The rewards of all turns of a trajectory, and its own.
 *
 * @since 0.1.0
 * @category combinators
 */
export const rewardOf = (self: Trajectory): number => self.reward + sum(self.turns.map(({ reward }) => reward))

/**
 * The reward of each trajectory of a group.
 *
 * @since 0.1.0
 * @category combinators
 */
export const rewardsOf = (group: Group): ReadonlyArray<number> =>
  group.trajectories.map((trajectory, i) => rewardOf(trajectory) + (group.groupRewards[i] ?? 0))

/**
 * From the rewards of a group to how much better than expected each one is.
 *
 * @since 0.1.0
 * @category models
 */
export type Advantage = (rewards: ReadonlyArray<number>) => ReadonlyArray<number>

/**
 * The reward minus the mean of the group.
 *
 * @since 0.1.0
 * @category combinators
 */
export const center: Advantage = (rewards) => {
  const baseline = mean(rewards)
  return rewards.map((reward) => reward - baseline)
}

/**
 * Centred, and divided by the group's standard deviation.
 *
 * @since 0.1.0
 * @category combinators
 */
export const standardize: Advantage = (rewards) => {
  const centred = center(rewards)
  const deviation = Math.sqrt(mean(centred.map((value) => value * value)))
  return centred.map((value) => deviation < 1e-8 ? 0 : value / deviation)
}

/**
 * The reward minus the mean of the others.
 *
 * @since 0.1.0
 * @category combinators
 */
export const leaveOneOut: Advantage = (rewards) => {
  const total = sum(rewards)
  return rewards.map((reward) => rewards.length < 2 ? 0 : reward - (total - reward) / (rewards.length - 1))
}

/**
 * Whether all rewards of a group are the same, so that it teaches nothing.
 *
 * @since 0.1.0
 * @category combinators
 */
export const isConstant = (group: Group): boolean => {
  const [first, ...others] = rewardsOf(group)
  return others.every((reward) => reward === first)
}

/**
 * The groups that teach something; the first one when none does, so that a step is never empty.
 *
 * @since 0.1.0
 * @category combinators
 */
export const withoutConstant = (groups: ReadonlyArray<Group>): ReadonlyArray<Group> => {
  const rest = groups.filter((group) => !isConstant(group))
  return rest.length === 0 ? groups.slice(0, 1) : rest
}

// =============================================================================
// rows
// =============================================================================

/** Tokens of one row with what is known about each, before they are shifted. */
interface Draft {
  length: number
  readonly parts: Array<{ readonly tokens: Int32Array; readonly turn: Turn | undefined }>
}

const startsWith = (tokens: Int32Array, draft: Draft): boolean => {
  if (tokens.length < draft.length) return false
  let at = 0
  for (const { tokens: part } of draft.parts) {
    for (let i = 0; i < part.length; i++) if (tokens[at + i] !== part[i]) return false
    at += part.length
  }
  return true
}

/** A prompt is seen by the request that continues it: its tokens are positions of that request's prompt. */
const spansOf = ({ parts }: Draft): ReadonlyArray<Datum.ProvenanceSpan> | undefined => {
  const spans: Array<Datum.ProvenanceSpan> = []
  let at = 0
  for (const [i, { tokens, turn }] of parts.entries()) {
    const sequenceId = (turn ?? parts[i + 1]?.turn)?.action.sequenceId
    if (sequenceId === undefined) {
      if (tokens.length > 0) return undefined
    } else if (tokens.length > 0) {
      spans.push(
        turn === undefined
          ? { source: "prompt", sequenceId, offset: at, length: tokens.length }
          : { source: "sampled", sequenceId, offset: 0, length: tokens.length }
      )
    }
    at += tokens.length
  }
  return spans
}

const withoutFirst = (spans: ReadonlyArray<Datum.ProvenanceSpan>): ReadonlyArray<Datum.ProvenanceSpan> => {
  const [first, ...rest] = spans
  return first === undefined || first.length === 1
    ? rest
    : [{ ...first, offset: (first.offset ?? 0) + 1, length: first.length - 1 }, ...rest]
}

const withoutLast = (spans: ReadonlyArray<Datum.ProvenanceSpan>): ReadonlyArray<Datum.ProvenanceSpan> => {
  const last = spans.at(-1)
  const rest = spans.slice(0, -1)
  return last === undefined || last.length === 1 ? rest : [...rest, { ...last, length: last.length - 1 }]
}

const toRow = (draft: Draft, advantageOf: (turn: Turn) => number): Row => {
  // One piece of memory for all of them: a buffer costs more than what is in it.
  const memory = new ArrayBuffer(16 * draft.length)
  const floats = (column: number) => new Float32Array(memory, 4 * column * draft.length, draft.length)
  const tokens = new Int32Array(memory, 0, draft.length)
  const [logprobs, advantages, mask] = [floats(1), floats(2), floats(3)]
  let at = 0
  for (const { tokens: part, turn } of draft.parts) {
    tokens.set(part, at)
    if (turn !== undefined) {
      logprobs.set(turn.action.logprobs, at)
      if (!turn.masked) {
        advantages.fill(advantageOf(turn), at, at + part.length)
        mask.fill(1, at, at + part.length)
      }
    }
    at += part.length
  }
  const spans = spansOf(draft)
  return {
    ...(spans === undefined ? {} : { spans }),
    inputs: tokens.subarray(0, -1),
    targets: tokens.subarray(1),
    logprobs: logprobs.subarray(1),
    advantages: advantages.subarray(1),
    mask: mask.subarray(1)
  }
}

/**
 * The rows of a trajectory. A turn whose prompt begins with exactly the tokens of an earlier row extends that row, the
 * longest one if there are several; any other turn starts a new row. Conversations that take turns, such as those of
 * sub-agents, are one row each.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toRows = (
  self: Trajectory,
  advantage: number,
  /** Weight of the tokens of a turn. Defaults to 1. */
  weight: (turn: Turn) => number = () => 1
): ReadonlyArray<Row> => {
  const drafts: Array<Draft> = []
  for (const turn of self.turns) {
    let current: Draft | undefined
    for (const draft of drafts) {
      if (draft.length > (current?.length ?? 0) && startsWith(turn.prompt, draft)) current = draft
    }
    if (current === undefined) {
      current = { length: 0, parts: [] }
      drafts.push(current)
    }
    const added = turn.prompt.subarray(current.length)
    current.parts.push({ tokens: added, turn: undefined }, { tokens: turn.action.tokens, turn })
    current.length += added.length + turn.action.tokens.length
  }
  return drafts.filter(({ length }) => length >= 2).map((draft) => toRow(draft, (turn) => advantage * weight(turn)))
}

/**
 * How advantages are spread over tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface AssembleOptions {
  /** Defaults to {@link center}. */
  readonly advantage?: Advantage | undefined
  /** `rollout` divides advantages by the trained tokens of their rollout, so that long ones count no more. Defaults to `none`. */
  readonly normalize?: "none" | "rollout" | undefined
  /** `decay` to the power of how many steps the weights of a token are older than those that are trained. Defaults to 1. */
  readonly staleness?: { readonly decay: number; readonly step: number } | undefined
}

/**
 * A row, and where it comes from.
 *
 * @since 0.1.0
 * @category models
 */
export interface Assembled {
  readonly row: Row
  readonly group: number
  readonly trajectory: number
}

/**
 * The rows of groups.
 *
 * @since 0.1.0
 * @category combinators
 */
export const assemble = (groups: ReadonlyArray<Group>, options?: AssembleOptions): ReadonlyArray<Assembled> =>
  groups.flatMap((group, g) => {
    const staleness = options?.staleness
    const advantages = (options?.advantage ?? center)(rewardsOf(group))
    return group.trajectories.flatMap((trajectory, t) => {
      const rows = toRows(
        trajectory,
        advantages[t] ?? 0,
        staleness === undefined
          ? undefined
          : ({ action }) => staleness.decay ** Math.max(0, staleness.step - action.policyVersion)
      )
      const trained = options?.normalize === "rollout" ? sum(rows.map(({ mask }) => sum(mask))) : 0
      return rows.map((row): Assembled => ({
        group: g,
        trajectory: t,
        row: trained > 0 ? { ...row, advantages: row.advantages.map((value) => value / trained) } : row
      }))
    })
  })

/**
 * A row as a datum of a policy-gradient loss, with where its tokens came from if every sampled sequence has a name. GSPO also reads which tokens its ratio is the mean of: those that were
 * sampled.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toDatum = (
  row: Row,
  loss?: Pick<Loss.Loss, "name">
): Either.Either<Datum.Datum, TinkerError.InvalidInput> => {
  const { advantages, inputs: modelInput, logprobs, mask, spans, targets } = row
  const lossFnInputs = { target_tokens: targets, logprobs, advantages }
  const datum = loss?.name === "gspo"
    ? Datum.make({ modelInput, lossFnInputs: { ...lossFnInputs, sequence_ratio_mask: mask } })
    : Datum.make({ modelInput, lossFnInputs })
  const ofTargets = withoutFirst(spans ?? [])
  return ofTargets.some(({ source }) => source === "sampled")
    ? Either.flatMap(
      datum,
      Datum.withProvenance({ modelInput: withoutLast(spans ?? []), lossFnInputs: ofTargets })
    )
    : datum
}

/**
 * The tokens of a row as one sequence, to have them scored.
 *
 * @since 0.1.0
 * @category combinators
 */
export const tokensOf = ({ inputs, targets }: Row): Int32Array => {
  const tokens = new Int32Array(inputs.length + 1)
  tokens.set(inputs)
  tokens.set(targets.subarray(-1), inputs.length)
  return tokens
}

// =============================================================================
// divergences
// =============================================================================

/**
 * How far two policies are apart on sampled tokens: the mean difference of logprobs, half the mean square of it, and the
 * entropy of the sampler. Healthy between sampler and trainer is below 0.01.
 *
 * @since 0.1.0
 * @category models
 */
export interface Divergence {
  readonly v1: number
  readonly v2: number
  readonly entropy: number
  /** Tokens it is the mean of. */
  readonly tokens: number
}

/**
 * The divergence of other logprobs of the same targets from those of sampling. Of the weights that are trained: the
 * sampler's and trainer's KL. Of the weights after the step: how far the step went.
 *
 * @since 0.1.0
 * @category combinators
 */
export const divergence = (rows: ReadonlyArray<Row>, others: ReadonlyArray<ArrayLike<number>>): Divergence => {
  let tokens = 0
  let v1 = 0
  let v2 = 0
  let sampled = 0
  rows.forEach(({ logprobs, mask }, n) => {
    const other = others[n]
    if (other === undefined) return
    for (let i = 0; i < mask.length; i++) {
      if ((mask[i] ?? 0) <= 0) continue
      const logprob = logprobs[i] ?? 0
      const difference = logprob - (other[i] ?? 0)
      tokens++
      v1 += difference
      v2 += difference * difference
      sampled += logprob
    }
  })
  return tokens === 0
    ? { v1: 0, v2: 0, entropy: 0, tokens }
    : { v1: v1 / tokens, v2: v2 / tokens / 2, entropy: -sampled / tokens, tokens }
}

/**
 * Adds to the advantages what keeps the policy near a reference: `coefficient · (mean difference - difference)` for each
 * sampled token, by the reference's logprobs of the targets. With a discount, a token also answers for those after it.
 *
 * @since 0.1.0
 * @category combinators
 */
export const penalize = (
  rows: ReadonlyArray<Row>,
  reference: ReadonlyArray<ArrayLike<number>>,
  options: {
    readonly coefficient: number
    /** Defaults to 0. */
    readonly discount?: number | undefined
    /** Take the mean difference as the baseline; without it, the difference itself is what is paid. Defaults to true. */
    readonly center?: boolean | undefined
  }
): { readonly rows: ReadonlyArray<Row>; readonly kl: number } => {
  const discount = options.discount ?? 0
  const differences = rows.map(({ logprobs, mask }, n) =>
    Float64Array.from(mask, (one, i) => one === 0 ? 0 : ((logprobs[i] ?? 0) - (reference[n]?.[i] ?? 0)) * one)
  )
  const weight = sum(rows.map(({ mask }) => sum(mask)))
  const kl = weight === 0 ? 0 : sum(differences.map(sum)) / weight
  return {
    kl,
    rows: rows.map((row, n) => {
      const difference = differences[n] ?? new Float64Array(0)
      const advantages = Float32Array.from(row.advantages)
      let running = 0
      for (let i = advantages.length - 1; i >= 0; i--) {
        const own = options.coefficient * (row.mask[i] ?? 0) *
          ((options.center ?? true ? kl : 0) - (difference[i] ?? 0))
        running = own + discount * running
        advantages[i] = (advantages[i] ?? 0) + (discount > 0 ? running : own)
      }
      return { ...row, advantages }
    })
  }
}

// =============================================================================
// metrics
// =============================================================================

/**
 * Metrics of groups: rewards, lengths, why rollouts ended, how many groups were all right, all wrong or mixed. For all
 * of them, and for each tag.
 *
 * @since 0.1.0
 * @category combinators
 */
export const metricsOf = (groups: ReadonlyArray<Group>): Readonly<Record<string, number>> => {
  const tags = Array.from(new Set(groups.flatMap((group) => group.tags))).sort()
  return Object.assign(
    summary("env/all", groups),
    ...tags.map((tag) => summary(`env/${tag}`, groups.filter((group) => group.tags.includes(tag))))
  )
}

const summary = (prefix: string, groups: ReadonlyArray<Group>): Record<string, number> => {
  const trajectories = groups.flatMap((group) => group.trajectories)
  const turns = trajectories.flatMap((trajectory) => trajectory.turns)
  const rewards = groups.map(rewardsOf)
  const share = (test: (rewards: ReadonlyArray<number>) => boolean) => mean(rewards.map((of) => test(of) ? 1 : 0))
  const out: Record<string, number> = {
    [`${prefix}/reward`]: mean(rewards.flat()),
    [`${prefix}/turns`]: mean(trajectories.map((trajectory) => trajectory.turns.length)),
    [`${prefix}/tokens_per_turn`]: mean(turns.map(({ action }) => action.tokens.length)),
    [`${prefix}/rollouts`]: trajectories.length,
    [`${prefix}/failed`]: sum(groups.map(({ errors }) => errors.length)),
    [`${prefix}/all_good`]: share((of) => of.every((reward) => reward >= Math.max(...of) && reward > 0)),
    [`${prefix}/all_bad`]: share((of) => of.every((reward) => reward <= 0)),
    [`${prefix}/mixed`]: share((of) => of.some((reward) => reward !== of[0]))
  }
  const own = new Map<string, { total: number; count: number }>()
  const add = (metrics: Readonly<Record<string, number>>) => {
    for (const name in metrics) {
      const known = own.get(name) ?? { total: 0, count: 0 }
      known.total += metrics[name] ?? 0
      known.count++
      own.set(name, known)
    }
  }
  for (const { metrics, stop, turns } of trajectories) {
    const key = `${prefix}/stop/${stop}`
    out[key] = (out[key] ?? 0) + 1 / trajectories.length
    add(metrics)
    for (const turn of turns) add(turn.metrics)
  }
  for (const [name, { count, total }] of own) out[`${prefix}/${name}`] = total / count
  return out
}
