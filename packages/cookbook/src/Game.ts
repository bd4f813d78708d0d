/**
 * Games with several seats, each with its own conversation: for self-play, where one model sits on all of them, and
 * for a model against a fixed opponent (`Policy.perSeat`). Every seat has a trajectory with its own rewards.
 *
 * @since 0.1.0
 */
import * as Message from "@effect-tinker/tokenizer/Message"
import type { ChatTemplateFailed, RenderFailed } from "@effect-tinker/tokenizer/TokenizerError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Environment from "./Environment.js"
import { nextPrompt } from "./internal/continuation.js"
import type * as Trajectory from "./Trajectory.js"

/**
 * Outcome of a move: the game goes on with a seat's turn, or it is over.
 *
 * @since 0.1.0
 * @category models
 */
export type Move<State> =
  | {
    readonly _tag: "Next"
    readonly state: State
    readonly seat: number
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }
  | {
    readonly _tag: "Over"
    /** By seat. */
    readonly rewards: ReadonlyArray<number>
    readonly metrics?: Readonly<Record<string, number>> | undefined
  }

/**
 * It is this seat's turn.
 *
 * @since 0.1.0
 * @category constructors
 */
export const next = <State>(
  state: State,
  seat: number,
  metrics?: Readonly<Record<string, number>>
): Move<State> => ({ _tag: "Next", state, seat, metrics })

/**
 * The game is over, with these rewards by seat.
 *
 * @since 0.1.0
 * @category constructors
 */
export const over = (
  rewards: ReadonlyArray<number>,
  metrics?: Readonly<Record<string, number>>
): Move<never> => ({ _tag: "Over", rewards, metrics })

/**
 * A game by its rules.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<State, E, R> {
  readonly seats: number
  readonly start: State
  /** The seat that moves first. Defaults to 0. */
  readonly first?: number | undefined
  /** Observation of a player when its turn begins. */
  readonly view: (state: State, seat: number) => string | ReadonlyArray<Message.Message>
  /** Outcome of a seat's message. */
  readonly move: (
    state: State,
    seat: number,
    message: Message.Message
  ) => Move<State> | Effect.Effect<Move<State>, E, R>
  /** Whether a seat's conversation goes on from turn to turn, or every turn is a new one. Defaults to true. */
  readonly remember?: boolean | undefined
  /** Rewards by seat when a message of this one cannot be read or was cut off. Defaults to -1 for it and 0 for the others. */
  readonly foul?: ((seat: number) => ReadonlyArray<number>) | undefined
  readonly tags?: ReadonlyArray<string> | undefined
}

interface Seat {
  messages: ReadonlyArray<Message.Message>
  prompt: Int32Array
  completion: Int32Array
  answer: Message.Message
}

/**
 * Games as a group of environments.
 *
 * @example
 * ```ts
 * import { Game } from "@effect-tinker/cookbook"
 * import { Message } from "@effect-tinker/tokenizer"
 *
 * // who says 10 or more loses; a move is a number from 1 to 3
 * const ten = Game.group({
 *   seats: 2,
 *   start: 0,
 *   view: (sum) => `The sum is ${sum}. Add 1, 2 or 3.`,
 *   move: (sum, seat, message) => {
 *     const added = Number(Message.text(message))
 *     if (![1, 2, 3].includes(added) || sum + added >= 10) return Game.over(seat === 0 ? [-1, 1] : [1, -1])
 *     return Game.next(sum + added, 1 - seat)
 *   }
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const group = <State, E = never, R = never>(
  options: Options<State, E, R>
): Environment.Group<E | RenderFailed | ChatTemplateFailed, R> =>
  Environment.group(
    (settings): Effect.Effect<Environment.Environment<E | RenderFailed | ChatTemplateFailed, R>> =>
      Effect.sync(() => make(options, settings)),
    { tags: options.tags, samePrompt: true }
  )

const make = <State, E, R>(
  options: Options<State, E, R>,
  settings: Environment.Settings
): Environment.Environment<E | RenderFailed | ChatTemplateFailed, R> => {
  const { renderer } = settings
  const { stop } = renderer
  const seats = new Map<number, Seat>()
  let state = options.start
  let acting = options.first ?? 0

  /** The prompt of the seat whose turn it is. */
  const observe = Effect.gen(function*() {
    const view = options.view(state, acting)
    const shown = typeof view === "string" ? [Message.user(view)] : view
    const before = options.remember ?? true ? seats.get(acting) : undefined
    const { fork, prompt } = before === undefined
      ? { prompt: yield* renderer.generationPrompt(shown), fork: undefined }
      : yield* nextPrompt(renderer, before, before.answer, shown)
    const messages = before === undefined ? shown : [...before.messages, before.answer, ...shown]
    seats.set(acting, { messages, prompt, completion: new Int32Array(0), answer: Message.assistant("") })
    const observation: Environment.Observation = { prompt, stop, seat: acting, fork, given: shown }
    return observation
  })

  const done = (
    reason: Trajectory.StopReason,
    outcome: ReadonlyArray<number>,
    rest?: { readonly message?: Message.Message; readonly metrics?: Readonly<Record<string, number>> | undefined }
  ): Environment.Step => ({ _tag: "Done", reward: 0, reason, outcome, ...rest })

  const foul = (reason: Trajectory.StopReason, message?: Message.Message) =>
    done(
      reason,
      options.foul?.(acting) ?? Array.from({ length: options.seats }, (_, seat) => seat === acting ? -1 : 0),
      { ...(message === undefined ? {} : { message }), metrics: { foul: 1 } }
    )

  return {
    seats: options.seats,
    initial: Effect.map(observe, (observation) => ({ _tag: "Continue", observation })),
    step: Effect.fnUntraced(function*(action) {
      const { failure, message } = renderer.parse(action.tokens)
      if (action.stopReason === "length") return foul("max_tokens")
      if (Option.isSome(failure)) return foul("parse_error", message)
      const seat = seats.get(acting)
      if (seat !== undefined) {
        seat.completion = action.tokens
        seat.answer = message
      }
      const moved = options.move(state, acting, message)
      const move = Effect.isEffect(moved) ? yield* moved : moved
      if (move._tag === "Over") return done("completed", move.rewards, { message, metrics: move.metrics })
      state = move.state
      acting = move.seat
      const step: Environment.Step = {
        _tag: "Continue",
        reward: 0,
        message,
        metrics: move.metrics,
        observation: yield* observe
      }
      return step
    })
  }
}
