/**
 * A policy in an environment, from the first prompt to the last reward: within limits, by Effect's `Clock`, and
 * interruptible at every point.
 *
 * @since 0.1.0
 */
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Environment from "./Environment.js"
import * as random from "./internal/random.js"
import * as scoped from "./internal/scoped.js"
import * as Policy from "./Policy.js"
import type * as Trajectory from "./Trajectory.js"

/**
 * Limits of a rollout. A limit that is reached ends it gracefully, with the stop reason of its name; only an action
 * that takes too long is a failure, because nothing of it can be used.
 *
 * @since 0.1.0
 * @category models
 */
export interface Limits {
  readonly maxTurns?: number | undefined
  /** Tokens of a prompt and its answer together. */
  readonly maxTokens?: number | undefined
  /** Sampled tokens of all turns. */
  readonly maxSampledTokens?: number | undefined
  /** Sampled tokens of one turn. */
  readonly maxTurnTokens?: number | undefined
  readonly timeout?: Duration.DurationInput | undefined
  /** Time of one action. */
  readonly actionTimeout?: Duration.DurationInput | undefined
}

/**
 * An action took longer than allowed.
 *
 * @since 0.1.0
 * @category errors
 */
export class ActionTimedOut
  extends Schema.TaggedError<ActionTimedOut>("@effect-tinker/cookbook/Rollout/ActionTimedOut")("ActionTimedOut", {
    turn: Schema.Int,
    timeout: Schema.DurationFromMillis
  })
{
  override get message(): string {
    return `turn ${this.turn} was not sampled within ${Duration.format(this.timeout)}`
  }
}

/**
 * Too few rollouts of a group succeeded.
 *
 * @since 0.1.0
 * @category errors
 */
export class GroupFailed extends Schema.TaggedError<GroupFailed>("@effect-tinker/cookbook/Rollout/GroupFailed")(
  "GroupFailed",
  { succeeded: Schema.Int, needed: Schema.Int, errors: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `${this.succeeded} rollouts of a group succeeded, of ${this.needed} needed: ${this.errors[0] ?? ""}`
  }
}

/**
 * How a rollout is run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  readonly limits?: Limits | undefined
  /** Makes the rollout repeatable, turn by turn: the first turn is drawn with it, each later one with a seed of its own. */
  readonly seed?: number | undefined
}

/**
 * Runs one episode. Of an environment with several seats, this is the trajectory of the first.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run = <EP, RP, E, R>(
  policy: Policy.Policy<EP, RP>,
  environment: Environment.Environment<E, R>,
  options?: Options
): Effect.Effect<Trajectory.Trajectory, EP | E | ActionTimedOut, RP | R> =>
  Effect.map(play(policy, environment, options), ([first]) => first)

/**
 * Runs one episode: a trajectory for each seat, by its own turns and rewards.
 *
 * @since 0.1.0
 * @category constructors
 */
export const play = <EP, RP, E, R>(
  policy: Policy.Policy<EP, RP>,
  environment: Environment.Environment<E, R>,
  options?: Options
): Effect.Effect<
  readonly [Trajectory.Trajectory, ...ReadonlyArray<Trajectory.Trajectory>],
  EP | E | ActionTimedOut,
  RP | R
> =>
  Effect.suspend(() => {
    const limits = options?.limits ?? {}
    const turns: Array<SeatedTurn> = []
    const { timeout } = limits
    const episode = loop(policy, environment, limits, options?.seed, turns)
    // The turns so far are kept: a rollout that ran out of time can still be graded.
    const within: Effect.Effect<End, EP | E | ActionTimedOut, RP | R> = timeout === undefined
      ? episode
      : Effect.map(
        Effect.timeoutOption(episode, timeout),
        Option.getOrElse((): End => ({ stop: "rollout_timeout", outcome: [] }))
      )
    return Effect.map(within, ({ outcome, stop }) => {
      const of = (seat: number): Trajectory.Trajectory => ({
        turns: turns.filter((by) => by.seat === seat).map(({ turn }) => turn),
        stop,
        reward: outcome[seat] ?? 0,
        metrics: {}
      })
      return [of(0), ...Array.from({ length: (environment.seats ?? 1) - 1 }, (_, n) => of(n + 1))] as const
    })
  })

interface SeatedTurn {
  readonly seat: number
  readonly turn: Trajectory.Turn
}

interface End {
  readonly stop: Trajectory.StopReason
  /** Rewards by seat that belong to no turn. */
  readonly outcome: ReadonlyArray<number>
}

const loop = Effect.fnUntraced(function*<EP, RP, E, R>(
  policy: Policy.Policy<EP, RP>,
  environment: Environment.Environment<E, R>,
  limits: Limits,
  seed: number | undefined,
  turns: Array<SeatedTurn>
) {
  const end = (stop: Trajectory.StopReason, outcome: ReadonlyArray<number> = []): End => ({ stop, outcome })
  const deadline = limits.timeout === undefined
    ? Infinity
    : (yield* Clock.currentTimeMillis) + Duration.toMillis(limits.timeout)
  const first = yield* environment.initial
  if (first._tag === "Done") return end(first.reason, [first.reward])
  let { observation } = first
  let sampled = 0
  for (;;) {
    if (deadline !== Infinity && (yield* Clock.currentTimeMillis) >= deadline) return end("rollout_timeout")
    if (turns.length >= (limits.maxTurns ?? Infinity)) return end("max_turns")
    // A single token is no turn: a budget of one is spent.
    const room = (limits.maxTokens ?? Infinity) - observation.prompt.length
    if (room <= 1) return end("max_tokens")
    const left = (limits.maxSampledTokens ?? Infinity) - sampled
    if (left <= 1) return end("max_sampled_tokens")
    const { fork, given, maxTokens = Infinity, prompt, seat = 0, stop } = observation
    const budget = Math.min(room, left, limits.maxTurnTokens ?? Infinity, maxTokens)
    const action = yield* withinTime(
      policy.act({
        prompt,
        stop,
        seat,
        maxTokens: Number.isFinite(budget) ? budget : undefined,
        seed: seed === undefined || turns.length === 0 ? seed : random.seedOf(seed, turns.length)
      }),
      limits.actionTimeout,
      turns.length
    )
    const step = yield* environment.step(action)
    sampled += action.tokens.length
    const turn: Trajectory.Turn = {
      prompt,
      action,
      reward: step.reward,
      masked: step.masked ?? false,
      given,
      message: step.message,
      fork,
      metrics: step.metrics ?? {}
    }
    turns.push({ seat, turn })
    if (step._tag === "Done") return end(step.reason, step.outcome)
    observation = step.observation
  }
})

const withinTime = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  timeout: Duration.DurationInput | undefined,
  turn: number
): Effect.Effect<A, E | ActionTimedOut, R> =>
  timeout === undefined
    ? effect
    : Effect.timeoutFail(effect, {
      duration: timeout,
      onTimeout: () => new ActionTimedOut({ turn, timeout: Duration.decode(timeout) })
    })

// =============================================================================
// groups
// =============================================================================

/**
 * Treatment of a group when one of its rollouts fails.
 *
 * @since 0.1.0
 * @category models
 */
export type Strategy<R = never> =
  | { readonly _tag: "FailFast" }
  | { readonly _tag: "Retry"; readonly schedule: Schedule.Schedule<unknown, unknown, R> }
  | {
    readonly _tag: "MinimumViable"
    readonly share: number
    readonly schedule: Schedule.Schedule<unknown, unknown, R> | undefined
  }

/**
 * The group fails with its first rollout, and the others are interrupted.
 *
 * @since 0.1.0
 * @category constructors
 */
export const failFast: Strategy = { _tag: "FailFast" }

/**
 * A rollout that fails is run again in a fresh environment, as long as the schedule goes on.
 *
 * @since 0.1.0
 * @category constructors
 */
export const retry = <R = never>(schedule: Schedule.Schedule<unknown, unknown, R>): Strategy<R> => ({
  _tag: "Retry",
  schedule
})

/**
 * A group is good enough with this share of its rollouts, by default three quarters; the failures are kept with it.
 *
 * @since 0.1.0
 * @category constructors
 */
export const minimumViable = <R = never>(options?: {
  readonly share?: number | undefined
  readonly schedule?: Schedule.Schedule<unknown, unknown, R> | undefined
}): Strategy<R> => ({ _tag: "MinimumViable", share: options?.share ?? 0.75, schedule: options?.schedule })

/**
 * How a group of rollouts is run.
 *
 * @since 0.1.0
 * @category models
 */
export interface GroupOptions<RS = never> extends Options {
  /** Rollouts of the group; an environment with several seats gives as many trajectories for each. */
  readonly size: number
  readonly settings: Environment.Settings
  /** Defaults to {@link failFast}. */
  readonly strategy?: Strategy<RS> | undefined
  /** Rollouts at once. Defaults to all. */
  readonly concurrency?: number | undefined
  /** Which step of a run the group is for, and which group of it. With it, rollouts may run elsewhere: see {@link Runner}. */
  readonly at?: { readonly step: number; readonly index: number } | undefined
}

const sameTokens = (a: Int32Array, b: Int32Array): boolean =>
  a === b || (a.length === b.length && a.every((token, i) => token === b[i]))

/**
 * The first turn of all members in one request, sent when the first of them asks; it belongs to the group's scope, so a
 * member that leaves does not take it away from the others. A member with another prompt than the first asks for itself.
 *
 * The other members start once it has been answered. A fiber that never waits is garbage at once; one that is suspended
 * while the model samples is promoted to the old generation of the heap first.
 */
const sharedFirstTurn = Effect.fnUntraced(function*<EP, RP>(
  policy: Policy.Policy<EP, RP>,
  actMany: NonNullable<Policy.Policy<EP, RP>["actMany"]>,
  options: {
    readonly size: number
    readonly seed: number | undefined
    /** Request of a member when the shared one failed. */
    readonly onFailure: "fail" | "ask"
  }
) {
  const scope = yield* Effect.scope
  const settled = Deferred.unsafeMake<void>(FiberId.none)
  let sent: {
    readonly request: Policy.Request
    readonly actions: Deferred.Deferred<ReadonlyArray<Trajectory.Action>, EP>
  } | undefined

  const settle = Deferred.succeed(settled, undefined)

  /** Sent and known to be sent, or neither: the others wait for it. */
  const send = (member: number, request: Policy.Request): Effect.Effect<Trajectory.Action, EP, RP> =>
    Effect.uninterruptibleMask((restore) => {
      if (sent !== undefined) return restore(draw(member, request))
      const actions = Deferred.unsafeMake<ReadonlyArray<Trajectory.Action>, EP>(FiberId.none)
      sent = { request, actions }
      return actMany({ ...request, seed: options.seed }, options.size).pipe(
        Effect.interruptible,
        Effect.intoDeferred(actions),
        Effect.zipRight(settle),
        Effect.forkIn(scope),
        Effect.zipRight(restore(Effect.suspend(() => draw(member, request))))
      )
    })

  const draw = (member: number, request: Policy.Request): Effect.Effect<Trajectory.Action, EP, RP> => {
    if (sent === undefined) return send(member, request)
    if (
      !sameTokens(sent.request.prompt, request.prompt) ||
      sent.request.maxTokens !== request.maxTokens || sent.request.seat !== request.seat
    ) return policy.act(request)
    const shared = Deferred.await(sent.actions)
    return Effect.flatMap(
      options.onFailure === "fail" ? shared : Effect.orElseSucceed(shared, (): ReadonlyArray<Trajectory.Action> => []),
      (actions) => {
        const action = actions[member]
        return action === undefined ? policy.act(request) : Effect.succeed(action)
      }
    )
  }

  return {
    policyOf: (member: number): Policy.Policy<EP, RP> => {
      let turn = 0
      return { act: (request) => Effect.suspend(() => turn++ === 0 ? draw(member, request) : policy.act(request)) }
    },
    /** There is nothing to wait for any more. */
    settle,
    settled: Deferred.await(settled)
  }
})

// =============================================================================
// where rollouts run
// =============================================================================

/**
 * One rollout of a training run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Episode<out EP, out RP, out E, out R> extends Options {
  readonly policy: Policy.Policy<EP, RP>
  readonly problem: Environment.Group<E, R>
  readonly settings: Environment.Settings
  /** Which rollout of its group. */
  readonly member: number
  readonly at?: { readonly step: number; readonly index: number } | undefined
}

/**
 * How the weights of a model in training become a policy.
 *
 * @since 0.2.0
 * @category models
 */
export interface PublishOptions extends Policy.SamplerOptions {
  /**
   * Whether the policy keeps the weights as they are now, or moves on with those that are published later. Defaults to
   * `snapshot`.
   */
  readonly sampler?: "snapshot" | "inflight" | undefined
}

/**
 * Where the rollouts of a training run take place: in this process, unless a layer says otherwise.
 *
 * @since 0.1.0
 * @category services
 */
export class Runner extends Context.Reference<Runner>()("@effect-tinker/cookbook/Rollout/Runner", {
  defaultValue: (): {
    /** The weights as they are now, as a policy. */
    readonly publish: (
      training: TrainingClient.Service,
      options: PublishOptions
    ) => Effect.Effect<Policy.Policy<TinkerError.TinkerError>, TinkerError.TinkerError, Scope.Scope>
    /** Runs an episode in its own environment: a trajectory for each seat. */
    readonly episode: <EP, RP, E, R>(
      episode: Episode<EP, RP, E, R>
    ) => Effect.Effect<ReadonlyArray<Trajectory.Trajectory>, EP | E | ActionTimedOut | GroupFailed, RP | R>
  } => ({
    publish: (training, { sampler: kind, ...options }) =>
      Effect.map(
        training.saveWeightsAndGetSamplingClient({ kind }),
        (sampler) => Policy.fromSampler(sampler, options)
      ),
    episode: inThisProcess
  })
}) {}

const inThisProcess = <EP, RP, E, R>({ limits, policy, problem, seed, settings }: Episode<EP, RP, E, R>) =>
  scoped.effect<ReadonlyArray<Trajectory.Trajectory>, EP | E | ActionTimedOut, RP | R>(
    Effect.flatMap(problem.make(settings), (environment) => play(policy, environment, { limits, seed }))
  )

/**
 * Like `Effect.forEach` with unbounded concurrency, but each fiber starts synchronously and its fiber refs are not joined. Where
 * rollouts never wait, a step of 128 of them takes a sixth less CPU.
 */
const atOnce = <A, E, R>(
  members: ReadonlyArray<number>,
  run: (member: number) => Effect.Effect<A, E, R>
): Effect.Effect<ReadonlyArray<A>, E, R> =>
  members.length === 0 ?
    Effect.succeed([]) :
    Effect.flatMap(Effect.runtime<R>(), (runtime) =>
      Effect.async<ReadonlyArray<A>, E>((resume) => {
        const fork = Runtime.runFork(runtime)
        const fibers: Array<Fiber.RuntimeFiber<A, E>> = []
        const interrupt = Effect.suspend(() => Fiber.interruptAll(fibers))
        const results: Array<A> = []
        let missing = members.length
        let failed = false
        for (const [i, member] of members.entries()) {
          const fiber = fork(run(member))
          fibers.push(fiber)
          fiber.addObserver((exit) => {
            if (Exit.isSuccess(exit)) {
              results[i] = exit.value
              if (--missing === 0) resume(Effect.succeed(results))
            } else {
              failed = true
              resume(Effect.zipRight(interrupt, Effect.failCause(exit.cause)))
            }
          })
          if (failed) break
        }
        return interrupt
      }))

/**
 * Runs the rollouts of a group, each in its own environment and scope, and compares them. Their order does not
 * depend on which of them ends first. Where all start with the same prompt, one request draws the first turn of all.
 *
 * @since 0.1.0
 * @category constructors
 */
export const group = Effect.fnUntraced(function*<EP, RP, E, R, RS = never>(
  policy: Policy.Policy<EP, RP>,
  problem: Environment.Group<E, R>,
  options: GroupOptions<RS>
) {
  const runner = yield* Runner
  const strategy: Strategy<RS> = options.strategy ?? failFast
  const errors: Array<string> = []
  const note = (cause: Cause.Cause<unknown>) =>
    Effect.sync(() => {
      if (!Cause.isInterruptedOnly(cause)) errors.push(Cause.pretty(cause).split("\n")[0] ?? "")
    })
  // Members have consecutive seeds, as the answers to one request have: a first turn is the same whether it was drawn for all
  // members at once, for one of them, or by a worker. A bit is kept free so that they stay positive 31-bit integers.
  const seed = options.seed === undefined ? undefined : random.seedOf(options.seed) >>> 1
  const shared = problem.samePrompt === true && policy.actMany !== undefined && options.size > 1
    ? yield* sharedFirstTurn(policy, policy.actMany, {
      size: options.size,
      seed,
      onFailure: strategy._tag === "FailFast" ? "fail" : "ask"
    })
    : undefined
  const single = (member: number) => {
    let attempts = 0
    const attempt = Effect.suspend(() =>
      runner.episode({
        // One that is tried again asks for itself: what was drawn for it has failed.
        policy: attempts++ === 0 && shared !== undefined ? shared.policyOf(member) : policy,
        problem,
        settings: { ...options.settings, member },
        limits: options.limits,
        seed: seed === undefined ? undefined : seed + member,
        member,
        at: options.at
      })
    ).pipe(Effect.tapErrorCause(note))
    // It may have ended without asking.
    const once = member === 0 && shared !== undefined ? Effect.ensuring(attempt, shared.settle) : attempt
    const schedule = strategy._tag === "FailFast" ? undefined : strategy.schedule
    return schedule === undefined ? once : Effect.retry(once, schedule)
  }
  const members = Array.from({ length: options.size }, (_, member) => member)
  // With a time limit all start together: sampling counts towards the time of each of them.
  const together = options.concurrency !== undefined || options.limits?.timeout !== undefined ||
    options.limits?.actionTimeout !== undefined
  const each = <A, E, R>(run: (member: number) => Effect.Effect<A, E, R>) => {
    const [first, ...others] = members
    return shared === undefined || first === undefined || together
      ? options.concurrency === undefined
        ? atOnce(members, run)
        : Effect.forEach(members, run, { concurrency: options.concurrency })
      : Effect.zipWith(
        run(first),
        Effect.zipRight(shared.settled, atOnce(others, run)),
        (one, rest) => [one, ...rest],
        { concurrent: true }
      )
  }

  const episodes = strategy._tag !== "MinimumViable"
    ? yield* each(single)
    : yield* Effect.gen(function*() {
      const exits = yield* each((member) => Effect.exit(single(member)))
      const succeeded = exits.flatMap((exit) => Exit.isSuccess(exit) ? [exit.value] : [])
      const needed = Math.max(1, Math.ceil(strategy.share * options.size))
      return succeeded.length >= needed
        ? succeeded
        : yield* new GroupFailed({ succeeded: succeeded.length, needed, errors })
    })
  const trajectories = episodes.flat()
  const groupRewards = yield* problem.compare(trajectories)
  const result: Trajectory.Group = { trajectories, groupRewards, tags: problem.tags, errors }
  return result
}, Effect.scoped)
