/**
 * An agent you already have, as something to train: its tasks, how it is run with a model, and how its result is scored.
 *
 * The agent stays in charge: it calls the model when it likes, as often as it likes, from sub-agents too. Each run is an
 * episode of the cookbook, so trainers and evaluators take it like any other environment. All calls of a run belong to one
 * rollout with one reward. Calls that continue each other are one row of training data; sub-agents, compacted histories
 * and forks are further rows of the same rollout.
 *
 * The calls of one run are answered one after the other, also where the agent makes them at once; runs are concurrent.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Environment from "@effect-tinker/cookbook/Environment"
import * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as Loss from "@effect-tinker/cookbook/Loss"
import * as Reinforce from "@effect-tinker/cookbook/Reinforce"
import type * as Rollout from "@effect-tinker/cookbook/Rollout"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import * as AgentModel from "./AgentModel.js"
import * as Recorder from "./Recorder.js"
import type * as Sampler from "./Sampler.js"

// =============================================================================
// models
// =============================================================================

/**
 * Marks an agent.
 *
 * @since 0.1.0
 * @category guards
 */
export const TypeId = "~@effect-tinker/agents/Agent" as const

/**
 * Marks an agent.
 *
 * @since 0.1.0
 * @category guards
 */
export type TypeId = typeof TypeId

/**
 * Context of a run of the agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunContext {
  /** The model to call. What it samples in this run is what is trained on. */
  readonly model: AgentModel.Service
  /** Aborted when the run is over before the agent is: a limit was reached, or training was interrupted. */
  readonly signal: AbortSignal
}

/**
 * A run that has ended.
 *
 * @since 0.1.0
 * @category models
 */
export interface Run<out Task, out Result> {
  readonly task: Task
  readonly result: Exit.Exit<Result, unknown>
  readonly reward: number
  readonly metrics: Readonly<Record<string, number>>
  /** Its calls of the model, in the order in which they were answered. */
  readonly calls: ReadonlyArray<Recorder.Call>
}

/**
 * A score: a reward, a `boolean` for 1 or 0, or what a scorer of `autoevals` returns. `null` is worth nothing. Metrics
 * are reported beside the reward.
 *
 * @since 0.1.0
 * @category models
 */
export type Score = number | boolean | null | {
  readonly score: number | null
  readonly metrics?: Readonly<Record<string, number>> | undefined
  readonly error?: unknown
}

/** Result of a score. */
interface Scored {
  readonly reward: number
  readonly metrics: Readonly<Record<string, number>>
}

/**
 * A value, a Promise of it, or an Effect.
 *
 * @since 0.1.0
 * @category models
 */
export type Awaitable<A, E = never, R = never> = A | PromiseLike<A> | Effect.Effect<A, E, R>

/**
 * An agent with its tasks.
 *
 * @since 0.1.0
 * @category models
 */
export interface Agent<in out Task, in out Result, out E = never, out R = never, out ED = never, out RD = never> {
  readonly [TypeId]: TypeId
  readonly tasks: Dataset.Dataset<Task, ED, RD>
  /** Tasks that are not trained on. */
  readonly test: Option.Option<Dataset.Dataset<Task, ED, RD>>
  readonly tags: (task: Task) => ReadonlyArray<string>
  readonly run: (task: Task, model: AgentModel.Service) => Effect.Effect<Result, E | AgentFailed, R>
  readonly score: (
    task: Task,
    result: Result,
    calls: ReadonlyArray<Recorder.Call>
  ) => Effect.Effect<Scored, E | AgentFailed, R>
  readonly failureReward: number | "fail"
}

/**
 * Any agent.
 *
 * @since 0.1.0
 * @category models
 */
export interface Any extends Agent<never, never, unknown, unknown, unknown, unknown> {}

/**
 * The agent, or its scorer, threw or rejected.
 *
 * @since 0.1.0
 * @category errors
 */
export class AgentFailed extends Schema.TaggedError<AgentFailed>("@effect-tinker/agents/Agent/AgentFailed")(
  "AgentFailed",
  { stage: Schema.Literal("run", "score"), description: Schema.String, cause: Schema.optional(Schema.Defect) }
) {
  override get message(): string {
    return `the agent's ${this.stage} failed: ${this.description}`
  }
}

/**
 * How a run may fail, beside what the agent fails with.
 *
 * @since 0.1.0
 * @category errors
 */
export type RunFailure = AgentFailed | Recorder.RecordingFailed

/**
 * Whether a value is an agent.
 *
 * @since 0.1.0
 * @category guards
 */
export const isAgent = (u: unknown): u is Any => Predicate.hasProperty(u, TypeId)

// =============================================================================
// constructors
// =============================================================================

/**
 * Definition of an agent, whatever way its model is called.
 *
 * @since 0.1.0
 * @category models
 */
export interface Definition<Task, Result, E, R, ED, RD> {
  readonly tasks: Dataset.Dataset<Task, ED, RD> | Iterable<Task>
  /** Tasks to evaluate on, which are not trained on. */
  readonly test?: Dataset.Dataset<Task, ED, RD> | Iterable<Task> | undefined
  /** How good a result is: the reward of the run. */
  readonly score: (task: Task, result: Result, calls: ReadonlyArray<Recorder.Call>) => Awaitable<Score, E, R>
  /** Metrics are also given for each tag of a task. */
  readonly tags?: ((task: Task) => ReadonlyArray<string>) | undefined
  /**
   * The reward of a run in which the agent fails, because the model's answer was of no use to it or for any other reason;
   * `fail` makes the rollout fail, for agents whose failures say nothing about the model. Defaults to 0.
   */
  readonly failureReward?: number | "fail" | undefined
}

/**
 * An agent that calls the model of its run itself. With the AI SDK there is `AiSdk.agent`, with `@effect/ai`
 * `EffectAi.agent`, and for clients of OpenAI's API `NodeGateway.agent`.
 *
 * @example
 * ```ts
 * import { Agent } from "@effect-tinker/agents"
 * import { Message } from "@effect-tinker/tokenizer"
 *
 * export default Agent.make({
 *   tasks: [{ question: "2+3", answer: "5" }],
 *   run: ({ question }, { model }) => model.generate({ messages: [Message.user(question)] }),
 *   score: ({ answer }, { text }) => text.includes(answer)
 * })
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const make = <Task, Result, E = never, R = never, ED = never, RD = never>(
  options: Definition<Task, Result, E, R, ED, RD> & {
    readonly run: (task: Task, context: RunContext) => Awaitable<Result, E | AgentFailed, R>
  }
): Agent<Task, Result, E, R, ED, RD> => ({
  [TypeId]: TypeId,
  tasks: Dataset.from(options.tasks),
  test: Option.map(Option.fromNullable(options.test), (rows) => Dataset.from(rows)),
  tags: options.tags ?? (() => []),
  run: (task, model) => awaited("run", (signal) => options.run(task, { model, signal })),
  score: (task, result, calls) => Effect.flatMap(awaited("score", () => options.score(task, result, calls)), rewardOf),
  failureReward: options.failureReward ?? 0
})

const describe = (error: unknown): string => error instanceof Error ? error.message : String(error)

/** @internal */
export const failed = (stage: "run" | "score") => (cause: unknown): AgentFailed =>
  new AgentFailed({ stage, description: describe(cause), cause })

const isPromise = <A>(value: Awaitable<A, unknown, unknown>): value is PromiseLike<A> => Predicate.isPromiseLike(value)

/** A function of the user's, whatever it returns; its signal is aborted on interruption. */
const awaited = <A, E, R>(
  stage: "run" | "score",
  f: (signal: AbortSignal) => Awaitable<A, E, R>
): Effect.Effect<A, E | AgentFailed, R> =>
  Effect.suspend(() => {
    const controller = new AbortController()
    return Effect.flatMap(
      Effect.try({ try: () => f(controller.signal), catch: failed(stage) }),
      (value): Effect.Effect<A, E | AgentFailed, R> =>
        Effect.isEffect(value)
          ? value
          : isPromise(value)
          ? Effect.tryPromise({ try: () => value, catch: failed(stage) })
          : Effect.succeed(value)
    ).pipe(Effect.onInterrupt(() => Effect.sync(() => controller.abort())))
  })

const rewardOf = (given: Score): Effect.Effect<Scored, AgentFailed> => {
  const { error, metrics, score } = Predicate.isRecord(given)
    ? given
    : { error: undefined, metrics: undefined, score: given }
  const reward = Number(score)
  if (error !== undefined && error !== null) return failed("score")(error)
  return Number.isFinite(reward)
    ? Effect.succeed({ reward, metrics: metrics ?? {} })
    : failed("score")(`a score must be a finite number, not ${String(score)}`)
}

// =============================================================================
// episodes
// =============================================================================

/**
 * Options of episodes.
 *
 * @since 0.1.0
 * @category models
 */
export interface EpisodeOptions<in Task, in Result> {
  /**
   * Where calls and rewards are recorded: with `Recorder.makeDirectory` they remain in files. Each run is a rollout of its
   * own there, released when it is over. Defaults to memory.
   */
  readonly recorder?: Recorder.Service | undefined
  /** Sees every run that the agent has ended by itself, before its rollout ends. */
  readonly onRun?: ((run: Run<Task, Result>) => Effect.Effect<void>) | undefined
}

/** A call that the policy has to answer. */
interface Pending {
  readonly request: Sampler.Request
  readonly fork: Trajectory.Fork | undefined
  readonly answer: Deferred.Deferred<Trajectory.Action>
  /** The agent no longer waits for it. */
  abandoned: boolean
}

const failures = new WeakMap<object, number>()

/** The first failures of an agent are warnings: if all of its runs fail, there is nothing to learn. */
const noteFailure = (agent: object, cause: Cause.Cause<unknown>): Effect.Effect<void> =>
  Effect.suspend(() => {
    const before = failures.get(agent) ?? 0
    failures.set(agent, before + 1)
    const message = `the agent failed: ${describe(Cause.squash(cause))}`
    return before < 3 ? Effect.logWarning(message) : Effect.logDebug(message)
  }).pipe(Effect.annotateLogs({ package: "@effect-tinker/agents", module: "Agent" }))

/** All that a run calls is of its rollout, whatever the agent says. */
const inOwnRollout = (model: AgentModel.Service): AgentModel.Service => {
  const { rollout } = model
  return {
    ...model,
    generate: (request) => model.generate({ ...request, rollout }),
    generateMany: (request, count) => model.generateMany({ ...request, rollout }, count),
    complete: (request, count) => model.complete({ ...request, rollout }, count),
    countTokens: (request) => model.countTokens({ ...request, rollout }),
    stream: (request) => model.stream({ ...request, rollout })
  }
}

type Event<Result, E> =
  | { readonly _tag: "Call"; readonly pending: Pending }
  | { readonly _tag: "Ended"; readonly result: Exit.Exit<Result, E | AgentFailed> }

/**
 * One run of an agent as an episode: the agent's calls are the observations, the policy's actions are their answers. The
 * agent runs in a separate fiber, in the scope.
 *
 * @since 0.1.0
 * @category constructors
 */
export const episode: <Task, Result, E, R>(
  agent: Agent<Task, Result, E, R, unknown, unknown>,
  task: Task,
  settings: Environment.Settings,
  options?: EpisodeOptions<Task, Result>
) => Effect.Effect<Environment.Environment<E | RunFailure, R>, never, Scope.Scope> = Effect.fnUntraced(
  function*<Task, Result, E, R>(
    agent: Agent<Task, Result, E, R, unknown, unknown>,
    task: Task,
    settings: Environment.Settings,
    options?: EpisodeOptions<Task, Result>
  ) {
    const { renderer } = settings
    const scope = yield* Effect.scope
    const events = yield* Queue.unbounded<Event<Result, E>>()
    const open = new Set<Pending>()
    let over = false
    let current: Pending | undefined
    // Calls of a Promise agent are separate fibers, which nothing else would interrupt.
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        over = true
        return Effect.forEach(Array.from(open), ({ answer }) => Deferred.interrupt(answer), { discard: true })
      })
    )

    const forks = new WeakMap<Int32Array, Trajectory.Fork>()
    const recorder = options?.recorder ?? (yield* Recorder.make())
    const model = yield* AgentModel.make({
      renderer,
      contextWindow: settings.contextWindow,
      // An answer of the wrong kind is the model's mistake: it is handed to the agent and learned from.
      attempts: 1,
      sampler: {
        sample: (request) =>
          Effect.forEach(Array.from({ length: request.count }), () =>
            Effect.suspend(() => {
              if (over) return Effect.interrupt
              const pending: Pending = {
                request,
                fork: forks.get(request.prompt),
                answer: Deferred.unsafeMake(FiberId.none),
                abandoned: false
              }
              open.add(pending)
              return Queue.offer(events, { _tag: "Call", pending }).pipe(
                Effect.zipRight(Deferred.await(pending.answer)),
                Effect.onInterrupt(() => Effect.sync(() => pending.abandoned = true)),
                Effect.ensuring(Effect.sync(() => open.delete(pending)))
              )
            }))
      }
    }).pipe(Effect.provideService(Recorder.Recorder, {
      ...recorder,
      prompt: (...args) =>
        Effect.tap(recorder.prompt(...args), ({ ids, origin }) =>
          Effect.sync(() => {
            if (origin._tag === "Forked") forks.set(ids, origin.fork)
          }))
    }))

    const finish = Effect.fnUntraced(function*(result: Exit.Exit<Result, E | AgentFailed>) {
      const { calls } = yield* recorder.rollout(model.rollout)
      const { spliced } = Recorder.summarize(calls)
      const scored = yield* Exit.match(result, {
        onSuccess: (value) => agent.score(task, value, calls),
        onFailure: (cause): Effect.Effect<Scored, E | AgentFailed> =>
          agent.failureReward === "fail" || !(Cause.isFailure(cause) || Cause.isInterruptedOnly(cause))
            ? Effect.failCause(cause)
            : Effect.as(noteFailure(agent, cause), { reward: agent.failureReward, metrics: {} })
      })
      const metrics = {
        ...scored.metrics,
        agent_failed: Exit.isFailure(result) ? 1 : 0,
        calls: calls.length,
        spliced
      }
      yield* recorder.score(model.rollout, scored.reward, metrics)
      yield* options?.onRun?.({ task, result, reward: scored.reward, metrics, calls }) ?? Effect.void
      return { reward: scored.reward, metrics }
    })

    /** Next action of the agent: it asks, or it has ended. */
    const next = Effect.gen(function*() {
      for (;;) {
        const event = yield* Queue.take(events)
        if (event._tag === "Ended") {
          return { _tag: "Done", reason: "completed", ...(yield* finish(event.result)) } as const
        }
        const { pending } = event
        if (pending.abandoned) continue
        current = pending
        const { maxTokens, prompt, stop = renderer.stop } = pending.request
        return { _tag: "Continue", observation: { prompt, stop, maxTokens, fork: pending.fork } } as const
      }
    })

    yield* Effect.addFinalizer(() => Effect.ignore(recorder.release(model.rollout)))

    const environment: Environment.Environment<E | RunFailure, R> = {
      initial: Effect.zipRight(
        agent.run(task, inOwnRollout(model)).pipe(
          Effect.exit,
          Effect.flatMap((result) => Queue.offer(events, { _tag: "Ended", result })),
          Effect.forkIn(scope)
        ),
        next
      ),
      step: Effect.fnUntraced(function*(action) {
        const asked = current
        if (asked === undefined) return yield* Effect.dieMessage("the episode has not started")
        // The agent gave the call up while it was sampled: nothing came of the answer.
        const masked = asked.abandoned
        yield* Deferred.succeed(asked.answer, action)
        const { message } = renderer.parse(action.tokens)
        const forked = { forked: asked.fork === undefined ? 0 : 1 }
        const step = yield* next
        return step._tag === "Continue"
          ? { ...step, reward: 0, masked, message, metrics: forked }
          : { ...step, masked, message, metrics: { ...step.metrics, ...forked } }
      })
    }
    return environment
  }
)

/**
 * Runs of an agent at one task.
 *
 * @since 0.1.0
 * @category constructors
 */
export const problem = <Task, Result, E, R>(
  agent: Agent<Task, Result, E, R, unknown, unknown>,
  task: Task,
  options?: EpisodeOptions<Task, Result>
): Environment.Group<E | RunFailure, R> =>
  Environment.group((settings) => episode(agent, task, settings, options), { tags: agent.tags(task) })

/**
 * The tasks of an agent as problems: for `Reinforce.train`, `Evaluator.rollouts`, `Benchmark.run`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const problems = <Task, Result, E, R, ED, RD>(
  agent: Agent<Task, Result, E, R, ED, RD>,
  options?: EpisodeOptions<Task, Result> & {
    /** Defaults to the agent's tasks. */
    readonly tasks?: Dataset.Dataset<Task, ED, RD> | undefined
  }
): Dataset.Dataset<Environment.Group<E | RunFailure, R>, ED, RD> =>
  Dataset.map(options?.tasks ?? agent.tasks, (task) => problem(agent, task, options))

// =============================================================================
// training
// =============================================================================

/**
 * How an agent is trained: as in reinforcement learning anywhere else, with its tasks as problems. A rollout counts the
 * same however many tokens and rows it has, unless a loss is given that says otherwise.
 *
 * @since 0.1.0
 * @category models
 */
export type TrainOptions<Task, Result, E = never, R = never> =
  & Omit<Reinforce.Options<E, R>, "problems">
  & EpisodeOptions<Task, Result>
  & {
    readonly agent: Agent<Task, Result, E, R, E, R>
    /** Limits of a run, on top of {@link defaultLimits}. */
    readonly limits?: Rollout.Limits | undefined
    /** How the agent's test tasks are evaluated. */
    readonly test?: {
      /** Runs of each task. Defaults to 1. */
      readonly groupSize?: number | undefined
      /** Defaults to that of training. */
      readonly temperature?: number | undefined
      /** Of all draws. Defaults to 0. */
      readonly seed?: number | undefined
    } | undefined
  }

/**
 * Types of {@link TrainOptions} whose parts fail and need different things.
 *
 * @since 0.1.0
 * @category models
 */
export declare namespace TrainOptions {
  /** The errors of all parts that options of type `O` have. */
  type Error<O> = O extends TrainOptions<infer _Task, infer _Result, infer E, unknown> ? E : never
  /** The services that they need. */
  type Context<O> = O extends TrainOptions<infer _Task, infer _Result, unknown, infer R> ? R : never
}

/**
 * Default limits of a run: 64 calls and 10 minutes. An agent that never ends would hold up its step.
 *
 * @since 0.1.0
 * @category configuration
 */
export const defaultLimits: Rollout.Limits = { maxTurns: 64, timeout: "10 minutes" }

/**
 * Trains the model of an agent: a stream of steps. The agent's test tasks are evaluated as `test`, before the first step,
 * every `evaluateEvery` steps, and after the last one.
 *
 * @since 0.1.0
 * @category constructors
 */
export function train<Task, Result, E, R>(
  options: TrainOptions<Task, Result, E, R>
): Stream.Stream<
  Trainer.StepReport<Reinforce.Detail>,
  E | RunFailure | Reinforce.TrainError,
  R | ServiceClient.ServiceClient
>
export function train<
  Task,
  Result,
  O extends Types.NoExcessProperties<TrainOptions<Task, Result, unknown, unknown>, O>
>(
  options: O & { readonly agent: Agent<Task, Result, unknown, unknown, unknown, unknown> }
): Stream.Stream<
  Trainer.StepReport<Reinforce.Detail>,
  TrainOptions.Error<O> | RunFailure | Reinforce.TrainError,
  TrainOptions.Context<O> | ServiceClient.ServiceClient
>
export function train<Task, Result, E, R>(options: TrainOptions<Task, Result, E, R>) {
  const { agent, onRun, recorder, test, ...rest } = options
  const limits = { ...defaultLimits, ...rest.limits }
  const { renderer } = rest
  type Failure = E | RunFailure | TinkerError.TinkerError | Rollout.ActionTimedOut | Rollout.GroupFailed
  const own = Option.map(agent.test, (tasks): Evaluator.Evaluator<Failure, R> => ({
    name: "test",
    evaluate: Effect.fnUntraced(function*(weights) {
      const resolved = typeof renderer === "function" ? yield* renderer(weights.training) : renderer
      const evaluator = Evaluator.rollouts(problems(agent, { tasks }), {
        settings: { ...rest.settings, renderer: resolved, contextWindow: rest.contextWindow },
        limits,
        maxTokens: rest.maxTokens,
        contextWindow: rest.contextWindow,
        temperature: test?.temperature ?? rest.temperature,
        groupSize: test?.groupSize,
        seed: test?.seed
      })
      return yield* evaluator.evaluate(weights)
    })
  }))
  return Reinforce.train<Failure, R>({
    ...rest,
    limits,
    loss: rest.loss ?? Loss.perRollout(rest.mode?._tag === "Async" ? Loss.ppo() : Loss.importanceSampling),
    problems: problems(agent, { onRun, recorder }),
    evaluate: [...Option.toArray(own), ...(rest.evaluate ?? [])]
  })
}
