/**
 * World in which a policy acts. An environment is made inside a `Scope`: what it acquires is released when its rollout ends,
 * whether it completes, fails, runs out of time or is interrupted.
 *
 * Rollouts are compared within a {@link Group}, all of whose environments are made from one problem.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import type { Stop } from "effect-tinker/wire/SamplingParams"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Dataset from "./Dataset.js"
import { nextPrompt } from "./internal/continuation.js"
import * as Tool from "./Tool.js"
import type * as Trajectory from "./Trajectory.js"

// =============================================================================
// environments
// =============================================================================

/**
 * Prompt of the policy's next action.
 *
 * @since 0.1.0
 * @category models
 */
export interface Observation {
  readonly prompt: Int32Array
  readonly stop: Stop
  /** Messages that the prompt adds to the turn before: only for the record. */
  readonly given?: ReadonlyArray<Message.Message> | undefined
  /** Most tokens of the action, on top of the limits of the policy and the rollout. Defaults to no limit. */
  readonly maxTokens?: number | undefined
  /** Who acts, in an environment with several seats. Defaults to 0. */
  readonly seat?: number | undefined
  /** Why the prompt does not continue the tokens of the turn before, where it does not. */
  readonly fork?: Trajectory.Fork | undefined
}

interface StepBase {
  readonly reward: number
  readonly metrics?: Readonly<Record<string, number>> | undefined
  /** The tokens of this turn are not trained on. */
  readonly masked?: boolean | undefined
  /** Message of the tokens. */
  readonly message?: Message.Message | undefined
}

/**
 * Outcome of an action: the episode goes on, or it is done.
 *
 * @since 0.1.0
 * @category models
 */
export type Step =
  | StepBase & { readonly _tag: "Continue"; readonly observation: Observation }
  | StepBase & {
    readonly _tag: "Done"
    readonly reason: Trajectory.StopReason
    /** The outcome by seat, on top of the reward of the one who acted. */
    readonly outcome?: ReadonlyArray<number> | undefined
  }

/**
 * How an episode begins; one whose prompt has no room for an answer is over before it begins.
 *
 * @since 0.1.0
 * @category models
 */
export type Start =
  | { readonly _tag: "Continue"; readonly observation: Observation }
  | { readonly _tag: "Done"; readonly reason: Trajectory.StopReason; readonly reward: number }

/**
 * One episode, in tokens.
 *
 * @since 0.1.0
 * @category models
 */
export interface Environment<out E = never, out R = never> {
  /** How many act in it, each with its own trajectory. Defaults to 1. */
  readonly seats?: number | undefined
  readonly initial: Effect.Effect<Start, E, R>
  readonly step: (action: Trajectory.Action) => Effect.Effect<Step, E, R>
}

/**
 * How failures to read an answer are treated. An answer that did not end properly ends the episode; one with a tool call
 * that cannot be read is answered with a correction, so many times in a row.
 *
 * @since 0.1.0
 * @category models
 */
export interface ParseErrors {
  /** Corrections in a row. Defaults to 2. */
  readonly maxConsecutive?: number | undefined
  /** The correction. Defaults to one that says what is wrong. */
  readonly message?: ((detail: string) => string) | undefined
  /** Added to the reward of a turn that is corrected. Defaults to 0. */
  readonly penalty?: number | undefined
  /** Reward of an episode that ends by it. Defaults to -1. */
  readonly reward?: number | undefined
  /** Do not train on such turns. Defaults to false. */
  readonly mask?: boolean | undefined
}

/**
 * Settings of environments: how messages are written, and what they must keep to.
 *
 * @since 0.1.0
 * @category models
 */
export interface Settings {
  readonly renderer: Renderer.Renderer
  readonly parseErrors?: ParseErrors | undefined
  /** Most tool calls of an episode. Defaults to no limit. */
  readonly maxToolCalls?: number | undefined
  /** Tokens a prompt and its answer may have together. Defaults to no limit. */
  readonly contextWindow?: number | undefined
  /** Tokens of the window to keep free for an answer. Defaults to 1. */
  readonly reserve?: number | undefined
  /** Reward of an episode that ends because it has no room, or an answer was cut off. Defaults to -0.1. */
  readonly overflowReward?: number | undefined
  /** Which rollout of its group the environment is for, counted from 0; given by what runs the group. */
  readonly member?: number | undefined
}

// =============================================================================
// groups
// =============================================================================

/**
 * A problem that is tried several times.
 *
 * @since 0.1.0
 * @category models
 */
export interface Group<out E = never, out R = never> {
  /** Metrics are also given for each tag. */
  readonly tags: ReadonlyArray<string>
  /** All its environments start with the same prompt, so that one request can draw the first turn of all of them. */
  readonly samePrompt?: boolean | undefined
  /** An environment over the group's problem. */
  readonly make: (settings: Settings) => Effect.Effect<Environment<E, R>, E, R | Scope.Scope>
  /** Rewards by comparison, one for each trajectory. */
  readonly compare: (
    trajectories: ReadonlyArray<Trajectory.Trajectory>
  ) => Effect.Effect<ReadonlyArray<number>, E, R>
}

/**
 * A group whose environments are made by one Effect: all of them are over the same problem.
 *
 * @since 0.1.0
 * @category constructors
 */
export const group = <E, R>(
  make: (settings: Settings) => Effect.Effect<Environment<E, R>, E, R | Scope.Scope>,
  options?: {
    readonly tags?: ReadonlyArray<string> | undefined
    /** All environments start with the same prompt: their first turns are drawn in one request. Defaults to false. */
    readonly samePrompt?: boolean | undefined
    /** Defaults to no reward by comparison. */
    readonly compare?: Group<E, R>["compare"] | undefined
  }
): Group<E, R> => ({
  tags: options?.tags ?? [],
  samePrompt: options?.samePrompt,
  make,
  compare: options?.compare ?? ((trajectories) => Effect.succeed(trajectories.map(() => 0)))
})

/** A reward, plain or as an Effect. */
type Rewarding<E, R> = number | boolean | Effect.Effect<number | boolean, E, R>

const rewardOf = <E, R>(given: Rewarding<E, R>): Effect.Effect<number, E, R> =>
  Effect.map(Effect.isEffect(given) ? given : Effect.succeed(given), Number)

/**
 * A question with an answer that can be checked: one turn.
 *
 * @example
 * ```ts
 * import { Environment } from "@effect-tinker/cookbook"
 *
 * const sum = Environment.problem({
 *   question: "What is 2+3?",
 *   check: (answer) => answer.trim() === "5"
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const problem = <E = never, R = never>(options: {
  readonly question: string | ReadonlyArray<Message.Message>
  /** The reward of an answer: its text without reasoning, and the whole message. */
  readonly check: (answer: string, message: Message.Message) => Rewarding<E, R>
  /** Whether an answer has the form it should have. Defaults to always. */
  readonly format?: ((answer: string, message: Message.Message) => boolean) | undefined
  /** Penalty of a wrong form. Defaults to 0.1. */
  readonly formatPenalty?: number | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}): Group<E | RenderFailed | ChatTemplateFailed, R> => {
  const start = typeof options.question === "string" ? [Message.user(options.question)] : options.question
  /** Rendered once, however many environments start with it. */
  let rendered: { readonly by: Renderer.Renderer; readonly prompt: Int32Array } | undefined
  const prompt = (by: Renderer.Renderer) =>
    Effect.suspend(() =>
      rendered?.by === by ? Effect.succeed(rendered.prompt) : Effect.tap(by.generationPrompt(start), (prompt) => {
        rendered = { by, prompt }
      })
    )
  return group(
    (settings) =>
      Effect.succeed(episode(
        {
          start,
          onMessage: (message) =>
            Effect.gen(function*() {
              const text = Message.text(message)
              const correct = yield* rewardOf(options.check(text, message))
              const formed = options.format?.(text, message) ?? true
              const penalty = formed ? 0 : -(options.formatPenalty ?? 0.1)
              return done(correct + penalty, { metrics: { correct, format: Number(formed) } })
            })
        },
        settings,
        prompt(settings.renderer)
      )),
    { tags: options.tags, samePrompt: true }
  )
}

/**
 * A dataset of problems from a dataset, or a list, of anything.
 *
 * @since 0.1.0
 * @category constructors
 */
export const problems = <A, ED = never, RD = never, E = never, R = never>(
  rows: Dataset.Dataset<A, ED, RD> | Iterable<A>,
  options: {
    readonly question: (row: A) => string | ReadonlyArray<Message.Message>
    readonly reward: (row: A, answer: string, message: Message.Message) => Rewarding<E, R>
    readonly format?: ((row: A, answer: string, message: Message.Message) => boolean) | undefined
    readonly formatPenalty?: number | undefined
    readonly tags?: ((row: A) => ReadonlyArray<string>) | undefined
  }
): Dataset.Dataset<Group<E | RenderFailed | ChatTemplateFailed, R>, ED, RD> => {
  const { format } = options
  return Dataset.map(Dataset.from(rows), (row) =>
    problem<E, R>({
      question: options.question(row),
      check: (answer, message) => options.reward(row, answer, message),
      format: format === undefined ? undefined : (answer, message) => format(row, answer, message),
      formatPenalty: options.formatPenalty,
      tags: options.tags?.(row)
    }))
}

// =============================================================================
// messages
// =============================================================================

/**
 * How an environment of messages answers: with messages, after which the policy acts again, or with the end.
 *
 * @since 0.1.0
 * @category models
 */
export type Reply =
  | {
    readonly _tag: "Reply"
    readonly messages: ReadonlyArray<Message.Message>
    readonly reward: number
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }
  | {
    readonly _tag: "End"
    readonly reward: number
    readonly reason: Trajectory.StopReason
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }

/**
 * The policy acts again after these messages.
 *
 * @since 0.1.0
 * @category constructors
 */
export const reply = (
  messages: string | ReadonlyArray<Message.Message>,
  options?: {
    /** Defaults to 0. */
    readonly reward?: number | undefined
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }
): Reply => ({
  _tag: "Reply",
  messages: typeof messages === "string" ? [Message.user(messages)] : messages,
  reward: options?.reward ?? 0,
  metrics: options?.metrics
})

/**
 * The episode is over.
 *
 * @since 0.1.0
 * @category constructors
 */
export const done = (
  reward: number,
  options?: {
    /** Defaults to `completed`. */
    readonly reason?: Trajectory.StopReason | undefined
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }
): Reply => ({ _tag: "End", reward, reason: options?.reason ?? "completed", metrics: options?.metrics })

/**
 * An environment in messages.
 *
 * @since 0.1.0
 * @category models
 */
export interface MessageOptions<E, R> {
  readonly start: ReadonlyArray<Message.Message>
  /** Tools the policy may call: their answers are the next turn. */
  readonly tools?: ReadonlyArray<Tool.Tool<R>> | undefined
  /** Outcome of a message that calls no tool, by the conversation before it. */
  readonly onMessage: (
    message: Message.Message,
    history: ReadonlyArray<Message.Message>
  ) => Effect.Effect<Reply, E, R>
  /** Reward of an episode that ends by a tool, or by the limit of tool calls. Defaults to 0. */
  readonly reward?: ((history: ReadonlyArray<Message.Message>) => Rewarding<E, R>) | undefined
}

const correction = (detail: string) =>
  `Your tool call could not be read (${detail}). Write it again in the format you were shown.`

/**
 * An environment in messages as one in tokens: the renderer writes prompts and reads answers. Use it once, for one episode.
 *
 * @since 0.1.0
 * @category constructors
 */
export const messages = <E, R>(
  options: MessageOptions<E, R>,
  settings: Settings
): Environment<E | RenderFailed | ChatTemplateFailed, R> => episode(options, settings)

const episode = <E, R>(
  options: MessageOptions<E, R>,
  settings: Settings,
  /** The prompt of the start, where it is known. */
  prompt?: Effect.Effect<Int32Array, RenderFailed | ChatTemplateFailed>
): Environment<E | RenderFailed | ChatTemplateFailed, R> => {
  const { renderer } = settings
  const tools = options.tools ?? []
  const overflow = settings.overflowReward ?? -0.1
  const parseErrors = settings.parseErrors ?? {}
  const stop = renderer.stop
  const fits = (prompt: Int32Array) => prompt.length + (settings.reserve ?? 1) <= (settings.contextWindow ?? Infinity)
  let history: ReadonlyArray<Message.Message> = options.start
  let last: Int32Array = new Int32Array(0)
  let toolCalls = 0
  let mistakes = 0

  const proceed = Effect.fnUntraced(function*(
    action: Trajectory.Action,
    message: Message.Message,
    added: ReadonlyArray<Message.Message>,
    rest: Omit<StepBase, "message">
  ) {
    const turn = { messages: history, prompt: last, completion: action.tokens }
    const { fork, prompt } = yield* nextPrompt(renderer, turn, message, added)
    history = [...history, message, ...added]
    if (!fits(prompt)) {
      const end: Step = { _tag: "Done", ...rest, reward: overflow, message, reason: "context_overflow" }
      return end
    }
    last = prompt
    const step: Step = {
      _tag: "Continue",
      ...rest,
      message,
      metrics: { ...rest.metrics, forked: fork === undefined ? 0 : 1 },
      observation: { prompt, stop, fork, given: added }
    }
    return step
  })

  const ended = Effect.fnUntraced(function*(message: Message.Message, reason: Trajectory.StopReason) {
    history = [...history, message]
    const reward = yield* rewardOf(options.reward?.(history) ?? 0)
    const step: Step = { _tag: "Done", reward, reason, message }
    return step
  })

  return {
    initial: Effect.gen(function*() {
      if (tools.length > 0) {
        const [first, ...rest] = options.start
        const specs = tools.map(({ spec }) => spec)
        history = first?.role === "system"
          ? [...(yield* renderer.toolMessages(specs, Message.text(first))), ...rest]
          : [...(yield* renderer.toolMessages(specs)), ...options.start]
      }
      last = yield* prompt ?? renderer.generationPrompt(history)
      const start: Start = fits(last)
        ? { _tag: "Continue", observation: { prompt: last, stop, given: history } }
        : { _tag: "Done", reason: "max_tokens", reward: overflow }
      return start
    }),
    step: Effect.fnUntraced(function*(action) {
      if (action.stopReason === "length") {
        const step: Step = { _tag: "Done", reward: overflow, reason: "max_tokens" }
        return step
      }
      const { failure, message } = renderer.parse(action.tokens)
      if (Option.isSome(failure)) {
        const masked = parseErrors.mask ?? false
        const metrics = { parse_error: 1 }
        if (failure.value.kind === "structural" || ++mistakes > (parseErrors.maxConsecutive ?? 2)) {
          const step: Step = {
            _tag: "Done",
            reward: parseErrors.reward ?? -1,
            reason: "parse_error",
            masked,
            metrics,
            message
          }
          return step
        }
        const text = (parseErrors.message ?? correction)(failure.value.detail)
        return yield* proceed(action, message, [Message.user(text)], {
          reward: parseErrors.penalty ?? 0,
          masked,
          metrics
        })
      }
      mistakes = 0
      const calls = message.toolCalls ?? []
      if (calls.length > 0 && tools.length > 0) {
        const allowed = (settings.maxToolCalls ?? Infinity) - toolCalls
        if (calls.length > allowed) return yield* ended(message, "max_tool_calls")
        toolCalls += calls.length
        const answers = yield* Tool.answerAll(tools, calls)
        if (answers.some(({ answer }) => answer.stop)) return yield* ended(message, "tool_stopped")
        const failed = answers.filter(({ answer }) => answer.failed).length
        return yield* proceed(action, message, answers.map((given) => given.message), {
          reward: 0,
          metrics: { tool_calls: calls.length, tool_errors: failed }
        })
      }
      const given = yield* options.onMessage(message, history)
      if (given._tag === "Reply") {
        return yield* proceed(action, message, given.messages, { reward: given.reward, metrics: given.metrics })
      }
      const step: Step = {
        _tag: "Done",
        reward: given.reward,
        reason: given.reason,
        metrics: given.metrics,
        message
      }
      return step
    })
  }
}
