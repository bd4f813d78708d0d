/**
 * Calls of an agent's model, token for token: the ids the sampler was given, the ids and log probabilities it
 * answered with, and which earlier call each one continues.
 *
 * Agents send their whole history with every call, usually not byte for byte as it was sampled. The recorder compares it
 * by meaning with the calls of the same rollout. Where it matches, the next prompt is the exact ids of that call plus the
 * rendered rest. Where it does not, the prompt is rendered from scratch and the call says why: it starts a new row.
 *
 * @since 0.1.0
 */
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import type * as Message from "@effect-tinker/tokenizer/Message"
import * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type { CannotContinue, ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as CallStore from "./CallStore.js"

// =============================================================================
// models
// =============================================================================

/**
 * How a call relates to the earlier calls of its rollout.
 *
 * - `Root`: it starts a conversation; there was no answer in its messages.
 * - `Continued`: its prompt begins with the exact ids of `parent`, its prompt and answer: so many `ids`, of so many `messages`.
 * - `Forked`: it has a history, but not one that continues a recorded call; `parent` is the nearest call, if there is one.
 *
 * @since 0.1.0
 * @category models
 */
export type Origin =
  | { readonly _tag: "Root" }
  | { readonly _tag: "Continued"; readonly parent: string; readonly ids: number; readonly messages: number }
  | { readonly _tag: "Forked"; readonly parent?: string | undefined; readonly fork: Trajectory.Fork }

/**
 * One recorded call of the model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Call {
  readonly id: string
  readonly rollout: string
  readonly origin: Origin
  /** Optimizer steps in the weights it was sampled from. */
  readonly policyVersion: number
  /** SHA-256 of the declared tools; empty without tools. */
  readonly toolsHash: string
  /** The messages of the prompt, and the exact ids of prompt and completion. */
  readonly turn: Renderer.Turn
  /** One for each id of the completion. */
  readonly logprobs: Float32Array
  readonly stopReason: "stop" | "length"
  /** The answer as the client was given it. */
  readonly message: Message.Message
  /** Why the answer was sampled again instead of being handed out; such a call is not trained on. */
  readonly rejected: string | undefined
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly endedAt: number
}

/**
 * Where a call's prompt comes from.
 *
 * @since 0.1.0
 * @category models
 */
export interface Prompt {
  readonly ids: Int32Array
  /** The conversation; messages of the continued call are shared with it. */
  readonly messages: ReadonlyArray<Message.Message>
  readonly origin: Origin
}

/**
 * The recorder holds as many calls as it may.
 *
 * @since 0.1.0
 * @category errors
 */
export class RecorderFull extends Schema.TaggedError<RecorderFull>("@effect-tinker/agents/Recorder/RecorderFull")(
  "RecorderFull",
  { rollout: Schema.String, tokens: Schema.Int, maxTokens: Schema.Int }
) {
  /** Releasing a rollout makes room. */
  get isRetryable(): boolean {
    return true
  }
  override get message(): string {
    return `rollout ${this.rollout}: ${this.tokens} recorded tokens are held already, of at most ${this.maxTokens}; ` +
      "release the rollouts that have ended"
  }
}

/**
 * The recorder's files could not be read or written.
 *
 * @since 0.1.0
 * @category errors
 */
export class RecordingFailed
  extends Schema.TaggedError<RecordingFailed>("@effect-tinker/agents/Recorder/RecordingFailed")(
    "RecordingFailed",
    { rollout: Schema.String, cause: Schema.Defect }
  )
{
  /** A disk may have room again. */
  get isRetryable(): boolean {
    return true
  }
  override get message(): string {
    return `rollout ${this.rollout}: the recorded calls could not be read or written: ${String(this.cause)}`
  }
}

/**
 * The calls of all open rollouts.
 *
 * @since 0.1.0
 * @category models
 */
export interface Service {
  /** The prompt of a conversation: continued from a call of the same rollout where that is exact, rendered otherwise. */
  readonly prompt: (
    rollout: string,
    renderer: Renderer.Renderer,
    conversation: ReadonlyArray<Message.Message>,
    options?: Renderer.ContinueOptions
  ) => Effect.Effect<Prompt, RenderFailed | ChatTemplateFailed | RecorderFull | RecordingFailed>
  /** The same for a prompt of ids without messages: it continues a call whose ids it begins with. */
  readonly promptOfIds: (rollout: string, ids: Int32Array) => Effect.Effect<Prompt, RecorderFull | RecordingFailed>
  /** Adds a call to its rollout. */
  readonly record: (call: Call) => Effect.Effect<void, RecordingFailed>
  /** Says what a rollout is worth; the latest score counts. */
  readonly score: (
    rollout: string,
    reward: number,
    metrics?: Readonly<Record<string, number>>
  ) => Effect.Effect<void, RecordingFailed>
  /** A rollout so far: its calls in the order in which they were recorded, none for a rollout that is not known. */
  readonly rollout: (rollout: string) => Effect.Effect<CallStore.Recorded, RecordingFailed>
  /** {@link Service.rollout}, and forgets it. In a store, it remains in the files. */
  readonly release: (rollout: string) => Effect.Effect<CallStore.Recorded, RecordingFailed>
  /** The rollouts that were not released, the oldest first. */
  readonly rollouts: Effect.Effect<ReadonlyArray<string>>
  /** Rollouts and tokens held in memory. */
  readonly size: Effect.Effect<{ readonly rollouts: number; readonly tokens: number }>
}

/**
 * The recorder as a service.
 *
 * @since 0.1.0
 * @category services
 */
export class Recorder extends Context.Tag("@effect-tinker/agents/Recorder")<Recorder, Service>() {}

/**
 * Options of a recorder.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface Options {
  /**
   * Tokens held in memory, of all rollouts together. With a store, the rollouts that were not used for the longest time
   * are dropped from memory and read again when needed; without one, further calls fail with {@link RecorderFull}.
   * Defaults to 64 million.
   */
  readonly maxTokens?: number | undefined
}

// =============================================================================
// constructors
// =============================================================================

interface Entry {
  readonly calls: Array<Call>
  tokens: number
  score: Option.Option<CallStore.Score>
}

/** The tokens a call adds to those of the call it continues. */
const sizeOf = ({ origin, turn: { completion, prompt } }: Call): number =>
  prompt.length + completion.length - (origin._tag === "Continued" ? origin.ids : 0)

/**
 * Adds a call. Its prompt begins with the ids of the calls it continues, so one array serves all of them: a conversation
 * takes as much memory as its last prompt, not the sum of its prompts.
 */
const add = (entry: Entry, call: Call): void => {
  const { calls } = entry
  // read back from the store since it was written
  if (calls.some(({ id }) => id === call.id)) return
  calls.push(call)
  entry.tokens += sizeOf(call)
  const ids = call.turn.prompt
  let { origin } = call
  for (let i = calls.length - 2; i >= 0 && origin._tag === "Continued"; i--) {
    const parent = calls[i]
    if (parent === undefined || parent.id !== origin.parent) continue
    const { messages, prompt } = parent.turn
    const turn = {
      messages,
      prompt: ids.subarray(0, prompt.length),
      completion: ids.subarray(prompt.length, origin.ids)
    }
    calls[i] = { ...parent, turn }
    origin = parent.origin
  }
}

const emptyEntry = (): Entry => ({ calls: [], tokens: 0, score: Option.none() })

const entryOf = ({ calls, score }: CallStore.Recorded): Entry => {
  const entry = emptyEntry()
  for (const call of calls) add(entry, call)
  entry.score = score
  return entry
}

const over = (store: CallStore.CallStore | undefined, options: Options | undefined): Service => {
  const maxTokens = options?.maxTokens ?? 64_000_000
  // Every rollout without a store; with one, those in use, in the order of their last use.
  const resident = new Map<string, Entry>()
  /** Rollouts that are being read from the store. */
  const reads = new Map<string, { stale: boolean }>()
  let tokens = 0

  const drop = (rollout: string): void => {
    tokens -= resident.get(rollout)?.tokens ?? 0
    resident.delete(rollout)
  }
  /** Puts a rollout last, and makes room for it: by those that were not used for the longest time. */
  const use = (rollout: string, entry: Entry): Entry => {
    if (store === undefined) {
      // nothing is ever dropped: the order stays that of the first calls
      resident.set(rollout, entry)
      return entry
    }
    resident.delete(rollout)
    resident.set(rollout, entry)
    for (const other of resident.keys()) {
      if (tokens <= maxTokens) break
      if (other !== rollout) drop(other)
    }
    return entry
  }
  const failed = (rollout: string) => (cause: unknown) => new RecordingFailed({ rollout, cause })
  const read = (store: CallStore.CallStore, rollout: string): Effect.Effect<Entry, RecordingFailed> =>
    Effect.suspend(() => {
      const state = reads.get(rollout) ?? { stale: false }
      reads.set(rollout, state)
      return Effect.flatMap(Effect.mapError(store.rollout(rollout), failed(rollout)), (found) => {
        if (reads.get(rollout) === state) reads.delete(rollout)
        const entry = resident.get(rollout)
        // another fiber may have read it, or added to it, in the meantime
        if (entry !== undefined) return Effect.succeed(entry)
        if (state.stale) return read(store, rollout)
        const fresh = entryOf(found)
        tokens += fresh.tokens
        return Effect.succeed(use(rollout, fresh))
      })
    })
  const get = (rollout: string): Effect.Effect<Entry, RecordingFailed> =>
    Effect.suspend(() => {
      const entry = resident.get(rollout)
      if (entry !== undefined) return Effect.succeed(use(rollout, entry))
      return store === undefined ? Effect.sync(emptyEntry) : read(store, rollout)
    })
  const withRoom = (rollout: string): Effect.Effect<Entry, RecorderFull | RecordingFailed> =>
    Effect.suspend((): Effect.Effect<Entry, RecorderFull | RecordingFailed> =>
      store === undefined && tokens >= maxTokens
        ? new RecorderFull({ rollout, tokens, maxTokens })
        : get(rollout)
    )
  /** Changes what is in memory, after it is on the disk. What is not in memory is only on the disk. */
  const change = (rollout: string, write: Effect.Effect<void, unknown>, apply: (entry: Entry) => void) =>
    Effect.uninterruptible(Effect.zipRight(
      Effect.mapError(write, failed(rollout)),
      Effect.sync(() => {
        const state = reads.get(rollout)
        if (state !== undefined) {
          state.stale = true
          reads.delete(rollout)
        }
        const entry = resident.get(rollout) ?? (store === undefined ? emptyEntry() : undefined)
        if (entry === undefined) return
        const before = entry.tokens
        apply(entry)
        tokens += entry.tokens - before
        use(rollout, entry)
      })
    ))
  const recorded = (rollout: string, { calls, score }: Entry): CallStore.Recorded => ({
    rollout,
    calls: calls.slice(),
    score
  })

  return {
    prompt: (rollout, renderer, conversation, continueOptions) =>
      Effect.flatMap(withRoom(rollout), ({ calls }) => locate(calls, renderer, conversation, continueOptions)),
    promptOfIds: (rollout, ids) =>
      Effect.map(withRoom(rollout), ({ calls }) => {
        const parent = Arr.findLast(calls, ({ rejected, turn }) => rejected === undefined && startsWith(ids, turn))
        return Option.match(parent, {
          onNone: (): Prompt => ({ ids, messages: [], origin: { _tag: "Root" } }),
          onSome: (call) => continued(call, ids, [])
        })
      }),
    record: (call) => change(call.rollout, store?.append(call) ?? Effect.void, (entry) => add(entry, call)),
    score: (rollout, reward, metrics = {}) =>
      Effect.flatMap(Clock.currentTimeMillis, (time) => {
        const score: CallStore.Score = { rollout, reward, metrics, time }
        return change(rollout, store?.score(score) ?? Effect.void, (entry) => {
          entry.score = Option.some(score)
        })
      }),
    rollout: (rollout) => Effect.map(get(rollout), (entry) => recorded(rollout, entry)),
    release: (rollout) =>
      Effect.flatMap(get(rollout), (entry) =>
        Effect.as(
          Effect.zipRight(Effect.sync(() => drop(rollout)), store?.forget(rollout) ?? Effect.void),
          recorded(rollout, entry)
        )),
    rollouts: store?.rollouts ?? Effect.sync(() => Array.from(resident.keys())),
    size: Effect.sync(() => ({ rollouts: resident.size, tokens }))
  }
}

/**
 * A recorder in memory.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = (options?: Options): Effect.Effect<Service> => Effect.sync(() => over(undefined, options))

/**
 * A recorder that writes every call to a directory before it is handed out: see `CallStore`. Rollouts of earlier processes
 * go on where they were.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makeDirectory = (
  directory: string,
  options?: Options
): Effect.Effect<Service, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.map(CallStore.open(directory), (store) => over(store, options))

/**
 * A recorder in memory.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (options?: Options): Layer.Layer<Recorder> => Layer.effect(Recorder, make(options))

/**
 * A recorder that writes every call to a directory.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerDirectory = (
  directory: string,
  options?: Options
): Layer.Layer<Recorder, PlatformError.PlatformError, FileSystem.FileSystem> =>
  Layer.scoped(Recorder, makeDirectory(directory, options))

// =============================================================================
// continuation
// =============================================================================

const startsWith = (ids: Int32Array, { completion, prompt }: Renderer.Turn): boolean => {
  if (ids.length < prompt.length + completion.length) return false
  for (let i = 0; i < prompt.length; i++) if (ids[i] !== prompt[i]) return false
  for (let i = 0; i < completion.length; i++) if (ids[prompt.length + i] !== completion[i]) return false
  return true
}

const continued = (call: Call, ids: Int32Array, conversation: ReadonlyArray<Message.Message>): Prompt => ({
  ids,
  // the parent's own messages say the same, and are in memory already
  messages: [...call.turn.messages, call.message, ...conversation.slice(call.turn.messages.length + 1)],
  origin: {
    _tag: "Continued",
    parent: call.id,
    ids: call.turn.prompt.length + call.turn.completion.length,
    messages: call.turn.messages.length + 1
  }
})

const locate = Effect.fnUntraced(function*(
  calls: ReadonlyArray<Call>,
  renderer: Renderer.Renderer,
  conversation: ReadonlyArray<Message.Message>,
  options: Renderer.ContinueOptions | undefined
) {
  const hasHistory = conversation.some(({ role }) => role === "assistant")
  // The refusal that was reached last tells most: it is about the call that has most in common with the conversation.
  let nearest: { readonly call: Call; readonly refusal: CannotContinue } | undefined
  for (let i = hasHistory ? calls.length - 1 : -1; i >= 0; i--) {
    const call = calls[i]
    if (call === undefined || call.rejected !== undefined) continue
    const ids = Renderer.continueConversation(renderer, call.turn, conversation, { ...options, answer: call.message })
    if (Either.isRight(ids)) return continued(call, ids.right, conversation)
    const depth = reach(ids.left, call)
    if (nearest === undefined || depth > reach(nearest.refusal, nearest.call)) {
      nearest = { call, refusal: ids.left }
    }
  }
  const ids = yield* renderer.generationPrompt(conversation)
  const rendered = (origin: Origin): Prompt => ({ ids, messages: conversation, origin })
  if (!hasHistory) return rendered({ _tag: "Root" })
  if (nearest === undefined) {
    const fork = { reason: "Unrecorded", description: "the rollout has no call with such a history" }
    return rendered({ _tag: "Forked", fork })
  }
  const { call, refusal } = nearest
  // A template that writes the history exactly as it was sampled needs no continuation.
  if (matches(refusal, call) && startsWith(ids, call.turn)) return continued(call, ids, conversation)
  const fork = { reason: refusal.reason, description: refusal.description }
  return rendered({ _tag: "Forked", parent: call.id, fork })
})

/** How many messages of the conversation were found equal before the refusal. */
const reach = (refusal: CannotContinue, call: Call): number =>
  isRegenerated(refusal, call)
    ? 0
    : matches(refusal, call)
    ? call.turn.messages.length + 1
    : refusal.index ?? call.turn.messages.length

/** The conversation ends before the call's answer: the same question once more, and no reason for anything. */
const isRegenerated = ({ index, reason }: CannotContinue, { turn: { messages: { length } } }: Call): boolean =>
  reason === "NothingNew" && (index ?? length) <= length

/** Whether the refusal is the format's, about a history that says what was sampled. */
const matches = (refusal: CannotContinue, call: Call): boolean =>
  refusal.reason !== "MessageEdited" && refusal.reason !== "ToolsChanged" && refusal.reason !== "AnswerDiffers" &&
  !isRegenerated(refusal, call)

// =============================================================================
// rows
// =============================================================================

/** Calls in an order in which each follows the call it continues, wherever that call is not continued by another. */
const inChains = (calls: ReadonlyArray<Call>): ReadonlyArray<Call> => {
  const byId = new Map(calls.map((call) => [call.id, call]))
  const next = new Map<string, Call>()
  const heads: Array<Call> = []
  for (const call of calls) {
    const { origin } = call
    if (origin._tag === "Continued" && byId.has(origin.parent) && !next.has(origin.parent)) {
      next.set(origin.parent, call)
    } else heads.push(call)
  }
  return heads.flatMap((head) => {
    const chain: Array<Call> = []
    for (let call: Call | undefined = head; call !== undefined; call = next.get(call.id)) chain.push(call)
    return chain
  })
}

/**
 * The calls of one rollout as a trajectory of the cookbook, with one reward for all of them. Conversations of sub-agents,
 * compacted histories and forks become separate rows; what was sampled is trained on once.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toTrajectory = (
  calls: ReadonlyArray<Call>,
  options: {
    readonly reward: number
    /** Defaults to `completed`. */
    readonly stop?: Trajectory.StopReason | undefined
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }
): Trajectory.Trajectory => ({
  turns: inChains(calls.filter(({ rejected }) => rejected === undefined)).map((call): Trajectory.Turn => ({
    prompt: call.turn.prompt,
    action: {
      tokens: call.turn.completion,
      logprobs: call.logprobs,
      stopReason: call.stopReason,
      policyVersion: call.policyVersion
    },
    reward: 0,
    masked: false,
    message: call.message,
    fork: call.origin._tag === "Forked" ? call.origin.fork : undefined,
    metrics: {}
  })),
  stop: options.stop ?? "completed",
  reward: options.reward,
  metrics: options.metrics ?? {}
})

/**
 * How calls came about: what a table over agents shows.
 *
 * @since 0.1.0
 * @category models
 */
export interface Summary {
  readonly calls: number
  readonly roots: number
  /** Calls whose prompt begins with the exact ids of an earlier one. */
  readonly spliced: number
  /** Calls that start a new row although they have a history, by reason. */
  readonly forked: Readonly<Record<string, number>>
  /** Answers that were sampled again. */
  readonly rejected: number
}

/**
 * Counts how calls came about.
 *
 * @since 0.1.0
 * @category combinators
 */
export const summarize = (calls: Iterable<Call>): Summary => {
  let [total, roots, spliced, rejected] = [0, 0, 0, 0]
  const forked: Record<string, number> = {}
  for (const { origin, ...call } of calls) {
    total++
    if (call.rejected !== undefined) rejected++
    else if (origin._tag === "Root") roots++
    else if (origin._tag === "Continued") spliced++
    else forked[origin.fork.reason] = (forked[origin.fork.reason] ?? 0) + 1
  }
  return { calls: total, roots, spliced, forked, rejected }
}
