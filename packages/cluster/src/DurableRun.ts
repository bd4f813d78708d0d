/**
 * A training run that outlives its processes. The run is a workflow, named after it:
 *
 * - The steps up to the next checkpoint are one activity; its row holds the checkpoint's path and the position in the data.
 *   What was trained and sampled is in the run's directory. An activity that is repeated finds its checkpoint there and
 *   trains nothing twice.
 * - Evaluations are activities of their own.
 * - Waiting for a time is a durable clock, waiting for a person a durable deferred.
 *
 * The process that trains, the server and the machine may be killed at any moment: starting the command again goes on with
 * the latest checkpoint, and computes what the undisturbed run computes.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Activity from "@effect/workflow/Activity"
import * as DurableClock from "@effect/workflow/DurableClock"
import * as DurableDeferred from "@effect/workflow/DurableDeferred"
import * as Workflow from "@effect/workflow/Workflow"
import * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Grading from "./internal/grading.js"
import * as serverFailure from "./internal/serverFailure.js"
import * as TrainerSession from "./internal/trainerSession.js"
import * as Judgement from "./Judgement.js"
import * as RunControl from "./RunControl.js"

// =============================================================================
// the workflow
// =============================================================================

/**
 * A checkpoint as a row of the workflow holds it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Saved extends Schema.Class<Saved>("@effect-tinker/cluster/DurableRun/Saved")({
  name: Schema.String,
  /** Optimizer steps the weights contain. */
  step: Schema.NonNegativeInt,
  /** Where the data goes on. */
  position: Dataset.Position,
  statePath: Schema.String,
  samplerPath: Schema.optional(Schema.String)
}) {}

/** Outcome of an attempt to reach the next checkpoint. */
const Segment = Schema.Union(
  Schema.TaggedStruct("Advanced", { checkpoint: Saved, complete: Schema.Boolean }),
  Schema.TaggedStruct("Waiting", { millis: Schema.Number }),
  Schema.TaggedStruct("Judging", { questions: Schema.Array(Schema.String) }),
  Schema.TaggedStruct("Suspended", {
    reason: Schema.Literal("stopped", "paused", "failed"),
    message: Schema.optional(Schema.String),
    request: Schema.optional(RunControl.Request)
  }),
  Schema.TaggedStruct("Cancelled", { request: Schema.optional(RunControl.Request) })
)

type Segment = typeof Segment.Type

/**
 * How a durable run ended.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Outcome extends Schema.Class<Outcome>("@effect-tinker/cluster/DurableRun/Outcome")({
  outcome: Schema.Literal("complete", "cancelled"),
  checkpoint: Schema.optional(Saved)
}) {}

/**
 * The workflow of a training run. Its executions are identified by the name of the run.
 *
 * @since 0.1.0
 * @category models
 */
export const workflow = Workflow.make({
  name: "TrainingRun",
  payload: { run: Schema.String },
  idempotencyKey: ({ run }) => run,
  success: Outcome
})

const resumeOf = (segment: number) =>
  DurableDeferred.make(`resume/${segment}`, { success: Schema.Literal("resume", "cancel") })

// =============================================================================
// options
// =============================================================================

/**
 * A training run, and what makes it durable.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<Detail, E, R, EV = never, RV = never> {
  /** Names the run among those of its database. Defaults to the directory. */
  readonly name?: string | undefined
  readonly directory: string
  /**
   * The run of any trainer of the cookbook, recorded in the journal it is given. Its checkpoints are where the run goes on
   * after a crash: a few minutes apart is a good choice.
   */
  readonly train: (
    log: RunLog.Target<FileSystem.FileSystem>
  ) => Stream.Stream<Trainer.StepReport<Detail>, E, R>
  /** Where the run is recorded. Defaults to the directory. */
  readonly log?: RunLog.Target<FileSystem.FileSystem> | undefined
  /** Measure checkpoints, each in an activity of its own. */
  readonly evaluate?: ReadonlyArray<Evaluator.Evaluator<EV, RV>> | undefined
  /** Checkpoints between evaluations. Defaults to 1. */
  readonly evaluateEvery?: number | undefined
  /** How long to wait before going on from a checkpoint, e.g. {@link between}. Defaults to not at all. */
  readonly wait?: ((at: { readonly now: number; readonly step: number }) => Duration.DurationInput) | undefined
  /** After which failures to wait, and how long, instead of failing: a quota that is used up. Defaults to none. */
  readonly waitAfter?:
    | ((error: E | PlatformError.PlatformError) => Option.Option<Duration.DurationInput>)
    | undefined
  /** After which failures to go on from the latest checkpoint at once. Defaults to {@link retryTransient}. */
  readonly retry?: Schedule.Schedule<unknown, E | PlatformError.PlatformError> | undefined
  /** How long rollouts wait for a grade before the run lets go of its model. Defaults to 1 minute. */
  readonly patience?: Duration.DurationInput | undefined
  /** End the stream when the run waits for a time, a grade or a person, instead of waiting with it. Defaults to false. */
  readonly detach?: boolean | undefined
}

/**
 * Failures of a durable run, beside those of its trainer.
 *
 * @since 0.1.0
 * @category errors
 */
export type DurableError = PlatformError.PlatformError | RunCancelled

/**
 * The run was cancelled, and does not go on.
 *
 * @since 0.1.0
 * @category errors
 */
export class RunCancelled extends Schema.TaggedError<RunCancelled>("@effect-tinker/cluster/DurableRun/RunCancelled")(
  "RunCancelled",
  { run: Schema.String, directory: Schema.String }
) {
  override get message(): string {
    return `the run ${this.run} was cancelled; what it had saved is in ${this.directory}`
  }
}

/**
 * Goes on from the latest checkpoint: after failures of the network for up to ten minutes, after those of a server that has
 * lost the model five times in a row.
 *
 * @since 0.1.0
 * @category configuration
 */
export const retryTransient: Schedule.Schedule<unknown, unknown> = Schedule.exponential("500 millis").pipe(
  Schedule.union(Schedule.spaced("30 seconds")),
  Schedule.upTo("10 minutes"),
  Schedule.whileInput(serverFailure.isRetryable),
  Schedule.union(
    Schedule.exponential("500 millis").pipe(
      Schedule.intersect(Schedule.recurs(5)),
      Schedule.whileInput(serverFailure.isLost)
    )
  )
)

/**
 * Trains between two hours of the day only, given in UTC; they may lie on both sides of midnight.
 *
 * @since 0.1.0
 * @category configuration
 */
export const between = (from: number, to: number) => ({ now }: { readonly now: number }): Duration.Duration => {
  const day = 24 * 3_600_000
  const begin = from * 3_600_000
  const length = ((to * 3_600_000 - begin) % day + day) % day
  const since = ((now - begin) % day + day) % day
  return length === 0 || since < length ? Duration.zero : Duration.millis(day - since)
}

// =============================================================================
// the run
// =============================================================================

/** Events of the workflow in this process. */
type Event =
  | { readonly _tag: "Segment"; readonly n: number }
  | { readonly _tag: "Halted"; readonly n: number; readonly segment: Segment; readonly step: number }
  | { readonly _tag: "Ended"; readonly exit: Exit.Exit<Outcome> }

/** Why a segment ends before its checkpoint. */
type Signal = Exclude<Segment, { readonly _tag: "Advanced" }>

/** How often requests and grades are looked for, beside the beginning of every segment. */
const tick = Duration.millis(300)

// How long a run that is cut short may take to save what it has.
const stopWithin = Duration.seconds(90)

const firstLine = (cause: Cause.Cause<unknown>) => Cause.pretty(cause).split("\n")[0]

/**
 * Runs it: a stream of the steps that this process computes. It ends when the run is complete. Cutting it short, or
 * interrupting it, saves; running it again goes on from there.
 *
 * @example
 * ```ts
 * import { DurableRun } from "@effect-tinker/cluster"
 * import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
 * import { Environment, Reinforce } from "@effect-tinker/cookbook"
 * import type { Renderer } from "@effect-tinker/tokenizer"
 * import { Effect, Stream } from "effect"
 *
 * const sums = Environment.problems([{ a: 1, b: 2 }, { a: 3, b: 4 }], {
 *   question: ({ a, b }) => `What is ${a}+${b}?`,
 *   reward: ({ a, b }, answer) => answer.trim() === String(a + b)
 * })
 *
 * const program = (renderer: Renderer.Renderer) =>
 *   DurableRun.train({
 *     directory: "runs/sums",
 *     train: (log) =>
 *       Reinforce.train({ model: "Qwen/Qwen3-8B", problems: sums, renderer, learningRate: 2e-5, maxTokens: 64, log })
 *   }).pipe(Stream.runDrain, Effect.provide(NodeDurable.layerDirectory("runs/sums")))
 * ```
 *
 * @since 0.1.0
 * @category constructors
 */
export const train = <Detail, E, R, EV = never, RV = never>(
  options: Options<Detail, E, R, EV, RV>
): Stream.Stream<
  Trainer.StepReport<Detail>,
  E | EV | DurableError | TinkerError.TinkerError,
  | Exclude<R, Judgement.Judgements | Scope.Scope>
  | Exclude<RV, Scope.Scope>
  | FileSystem.FileSystem
  | ServiceClient.ServiceClient
  | WorkflowEngine.WorkflowEngine
> => Stream.unwrapScoped(start(options))

const start = Effect.fnUntraced(function*<Detail, E, R, EV, RV>(options: Options<Detail, E, R, EV, RV>) {
  type Needs =
    | Exclude<R, Judgement.Judgements | Scope.Scope>
    | Exclude<RV, Scope.Scope>
    | FileSystem.FileSystem
    | ServiceClient.ServiceClient
  type Failure = E | EV | DurableError | TinkerError.TinkerError
  const { directory } = options
  const name = options.name ?? directory
  const fs = yield* FileSystem.FileSystem
  const engine = yield* WorkflowEngine.WorkflowEngine
  // Activities run in fibers of the engine: what belongs to the caller's fiber is taken along.
  // Where the caller cannot be interrupted, as in a schedule of the cluster, the trainer still can.
  const { context, fiberRefs } = yield* Effect.runtime<Needs>()
  const runtime = Runtime.make({ context, fiberRefs, runtimeFlags: Runtime.defaultRuntimeFlags })
  // The compiler cannot see that nothing remains of a generic environment.
  const closed = <A, E2, R2>(effect: Effect.Effect<A, E2, R2>) =>
    Effect.provide(effect, runtime) as Effect.Effect<A, E2>
  const owner = yield* Effect.scope
  const executionId = yield* workflow.executionId({ run: name })
  const patience = Duration.toMillis(options.patience ?? "1 minute")
  const logs = Effect.annotateLogs({ package: "@effect-tinker/cluster", module: "DurableRun", run: name })
  yield* fs.makeDirectory(RunControl.folder(directory), { recursive: true, mode: 0o700 })

  const mailbox = yield* Mailbox.make<Trainer.StepReport<Detail>, Failure>({ capacity: 16 })
  const events = yield* Queue.unbounded<Event>()
  const failures = new Map<number, Cause.Cause<Failure>>()
  /** Segments that were attempted in this process; all others are told from the rows of an earlier one. */
  const attempted = new Set<number>()
  let stopping = false
  let interruptSegment: Deferred.Deferred<Signal> | undefined
  const grading = yield* Grading.make(directory, { workflow, executionId })
  const session = TrainerSession.make({
    target: options.log ?? RunLog.directory(directory),
    start: (log, instance: WorkflowEngine.WorkflowInstance["Type"], scope) =>
      options.train(log).pipe(
        Stream.provideService(Judgement.Judgements, grading.judgements(instance)),
        Stream.rechunk(1),
        Stream.toPull,
        Scope.extend(scope),
        closed,
        Effect.map(closed)
      ),
    onSteps: (steps) => mailbox.offerAll(steps)
  })

  // --- status -----------------------------------------------------------------

  let written = ""
  const setStatus = Effect.fnUntraced(
    function*(
      state: RunControl.State,
      step: number,
      more?: {
        readonly until?: number
        readonly message?: string | undefined
        readonly questions?: ReadonlyArray<string>
      }
    ) {
      const same = JSON.stringify([state, step, more])
      if (same === written) return
      written = same
      const since = yield* Clock.currentTimeMillis
      const { message, questions = [], until } = more ?? {}
      yield* RunControl.setStatus(
        directory,
        new RunControl.Status({ run: name, state, step, since, until, message, questions })
      )
    },
    Effect.provideService(FileSystem.FileSystem, fs),
    Effect.ignoreLogged
  )

  // --- segments ---------------------------------------------------------------

  const closeSession = Effect.zipRight(Effect.sync(grading.leave), session.close)

  const retry: Schedule.Schedule<unknown, E | PlatformError.PlatformError> = options.retry ?? retryTransient

  const runSegment = Effect.fnUntraced(function*(
    n: number,
    from: number
  ): Effect.fn.Return<Segment, never, WorkflowEngine.WorkflowInstance> {
    attempted.add(n)
    const instance = yield* WorkflowEngine.WorkflowInstance
    const signal = Deferred.unsafeMake<Signal>(FiberId.none)
    interruptSegment = signal
    yield* Queue.offer(events, { _tag: "Segment", n })
    if (stopping) return { _tag: "Suspended", reason: "stopped" }
    const millis = Duration.toMillis(
      options.wait?.({ now: yield* Clock.currentTimeMillis, step: from }) ?? Duration.zero
    )
    if (millis > 0) {
      yield* closeSession
      return { _tag: "Waiting", millis }
    }
    yield* setStatus("running", from)
    const work = session.advance(from, instance).pipe(
      Effect.tapErrorCause((cause) =>
        Cause.isInterruptedOnly(cause)
          ? Effect.void
          : Effect.zipRight(logs(Effect.logDebug("a segment failed", cause)), closeSession)
      ),
      Effect.retry(retry),
      Effect.map(({ checkpoint: { name, position, samplerPath, statePath, step }, complete }): Segment => ({
        _tag: "Advanced",
        checkpoint: new Saved({ name, position, samplerPath, statePath, step }),
        complete
      }))
    )
    const exit = yield* Effect.exit(Effect.raceFirst(work, Deferred.await(signal)))
    if (Exit.isSuccess(exit)) {
      if (exit.value._tag !== "Advanced") yield* closeSession
      return exit.value
    }
    yield* closeSession
    // The engine shuts down: the activity is repeated by the next process.
    if (Cause.isInterruptedOnly(exit.cause)) return yield* Effect.interrupt
    const passing = Option.flatMap(
      Cause.failureOption(exit.cause),
      (error) => options.waitAfter?.(error) ?? Option.none()
    )
    if (Option.isSome(passing)) return { _tag: "Waiting", millis: Duration.toMillis(passing.value) }
    failures.set(n, exit.cause)
    return { _tag: "Suspended", reason: "failed", message: firstLine(exit.cause) }
  })

  const evaluate = Effect.fnUntraced(function*(checkpoint: Saved, evaluator: Evaluator.Evaluator<EV, RV>) {
    const scope = yield* Effect.scope
    const training = yield* TrainingClient.makeFromState({ path: checkpoint.statePath })
    const { samplerPath } = checkpoint
    const sampler = yield* Effect.cached(Scope.extend(
      samplerPath === undefined
        ? training.saveWeightsAndGetSamplingClient()
        : SamplingClient.make({ modelPath: samplerPath }),
      scope
    ))
    return yield* evaluator.evaluate({ step: checkpoint.step, training, sampler: closed(sampler) })
  }, (effect) => closed(Effect.scoped(effect)))

  // --- the body of the workflow -----------------------------------------------

  const evaluateDue = Effect.fnUntraced(function*(n: number, advanced: number, checkpoint: Saved, complete: boolean) {
    if (!complete && advanced % Math.max(1, options.evaluateEvery ?? 1) !== 0) return
    for (const evaluator of options.evaluate ?? []) {
      const metrics = yield* Activity.make({
        name: `evaluate/${n}/${evaluator.name}`,
        success: RunEntry.Evaluation.fields.metrics,
        execute: Effect.gen(function*() {
          const found = yield* Effect.exit(evaluate(checkpoint, evaluator))
          if (Exit.isSuccess(found)) {
            // What cannot be recorded now is recorded by the next session.
            yield* session.record({
              _tag: "Evaluation",
              step: checkpoint.step,
              name: evaluator.name,
              metrics: found.value
            }).pipe(Effect.catchAll((error) => logs(Effect.logWarning("an evaluation was not recorded", error))))
            return found.value
          }
          // A measurement that fails does not end a run of days; it is missing in the journal.
          yield* logs(Effect.logWarning(`the evaluator ${evaluator.name} failed`, found.cause))
          return {}
        })
      })
      if (Object.keys(metrics).length > 0) {
        session.measured.push({ _tag: "Evaluation", step: checkpoint.step, name: evaluator.name, metrics })
      }
    }
  })

  const body = Effect.gen(function*() {
    let checkpoint: Saved | undefined
    let advanced = 0
    // The engine runs the body again from its beginning after every suspension.
    session.measured.length = 0
    const halt = (n: number, segment: Segment) =>
      Queue.offer(events, { _tag: "Halted", n, segment, step: checkpoint?.step ?? 0 })
    for (let n = 1;; n++) {
      const segment = yield* Activity.make({
        name: `segment/${n}`,
        success: Segment,
        execute: runSegment(n, checkpoint?.step ?? 0)
      })
      switch (segment._tag) {
        case "Advanced":
          checkpoint = segment.checkpoint
          yield* evaluateDue(n, ++advanced, checkpoint, segment.complete)
          if (segment.complete) {
            yield* session.complete
            return new Outcome({ outcome: "complete", checkpoint })
          }
          break
        case "Waiting":
          yield* halt(n, segment)
          yield* DurableClock.sleep({ name: `wait/${n}`, duration: Duration.millis(segment.millis) })
          break
        case "Judging":
          yield* halt(n, segment)
          for (const key of segment.questions) yield* DurableDeferred.await(Grading.gradeOf(key))
          break
        case "Suspended": {
          yield* halt(n, segment)
          const answer = yield* DurableDeferred.await(resumeOf(n))
          if (answer === "cancel") return new Outcome({ outcome: "cancelled", checkpoint })
          break
        }
        case "Cancelled":
          yield* halt(n, segment)
          return new Outcome({ outcome: "cancelled", checkpoint })
      }
    }
  })

  // --- supervision ------------------------------------------------------------

  let current: Extract<Event, { readonly _tag: "Halted" }> | undefined

  const wake = Effect.fnUntraced(function*(n: number, value: "resume" | "cancel") {
    const deferred = resumeOf(n)
    const token = DurableDeferred.tokenFromExecutionId(deferred, { workflow, executionId })
    yield* DurableDeferred.succeed(deferred, { token, value })
  })

  /** The engine misses an answer that arrives before the workflow is suspended, so the workflow is resumed explicitly. */
  const nudge = Effect.flatMap(
    workflow.poll(executionId),
    (found) => found?._tag === "Suspended" ? workflow.resume(executionId) : Effect.void
  )

  /** Whether the run cannot go on in this process; ends the stream then. */
  const onHalted = Effect.fnUntraced(function*(halted: Extract<Event, { readonly _tag: "Halted" }>) {
    const { n, segment, step } = halted
    switch (segment._tag) {
      case "Suspended": {
        const { message, reason, request } = segment
        if (!attempted.has(n) && reason !== "paused") {
          yield* wake(n, "resume")
          return false
        }
        yield* setStatus(reason, step, { message })
        if (request !== undefined) yield* RunControl.done(directory, request)
        if (reason === "paused" && !stopping) return options.detach === true
        const cause = failures.get(n)
        if (cause !== undefined) yield* mailbox.failCause(cause)
        return true
      }
      case "Waiting":
        yield* setStatus("waiting", step, { until: (yield* Clock.currentTimeMillis) + segment.millis })
        return options.detach === true
      case "Judging": {
        yield* grading.take
        const open = yield* grading.unanswered(segment.questions)
        yield* setStatus("judging", step, { questions: open })
        return options.detach === true && open.length > 0
      }
      default:
        return false
    }
  })

  const lookAround = Effect.gen(function*() {
    yield* grading.take
    const cancel = yield* RunControl.requested(directory, "cancel")
    const pause = yield* RunControl.requested(directory, "pause")
    const resume = yield* RunControl.requested(directory, "resume")
    if (current === undefined) {
      const now = yield* Clock.currentTimeMillis
      const waiting = grading.waiting()
      const signal: Option.Option<Signal> = Option.isSome(cancel)
        ? Option.some({ _tag: "Cancelled", request: cancel.value })
        : Option.isSome(pause)
        ? Option.some({ _tag: "Suspended", reason: "paused", request: pause.value })
        : waiting.keys.length > 0 && now - waiting.since >= patience
        ? Option.some({ _tag: "Judging", questions: waiting.keys })
        : Option.none()
      if (Option.isSome(signal) && interruptSegment !== undefined) {
        yield* Deferred.succeed(interruptSegment, signal.value)
      }
      if (Option.isSome(resume)) yield* RunControl.done(directory, resume.value)
      return
    }
    const { n, segment } = current
    const isPaused = segment._tag === "Suspended" && segment.reason === "paused"
    if (Option.isSome(cancel)) {
      if (isPaused) yield* wake(n, "cancel")
      else yield* workflow.interrupt(executionId)
      yield* nudge
    } else if (isPaused && Option.isSome(resume)) {
      yield* wake(n, "resume")
      yield* nudge
    } else if (segment._tag === "Judging") {
      if ((yield* grading.unanswered(segment.questions)).length === 0) yield* nudge
    } else if (segment._tag === "Suspended" && !isPaused) yield* nudge
  })

  const cancelled = Effect.gen(function*() {
    const request = yield* RunControl.requested(directory, "cancel")
    if (Option.isSome(request)) yield* RunControl.done(directory, request.value)
    yield* setStatus("cancelled", current?.step ?? 0)
    yield* mailbox.fail(new RunCancelled({ run: name, directory }))
  })

  const finish = (exit: Exit.Exit<Outcome>) => {
    if (Exit.isSuccess(exit)) {
      const { checkpoint, outcome } = exit.value
      return outcome === "cancelled"
        ? cancelled
        : Effect.zipRight(setStatus("complete", checkpoint?.step ?? 0), mailbox.end)
    }
    // Cancelled while suspended, the workflow ends without running its body.
    if (Cause.isInterrupted(exit.cause)) return cancelled
    return Effect.zipRight(
      setStatus("failed", current?.step ?? 0, { message: firstLine(exit.cause) }),
      mailbox.failCause(exit.cause)
    )
  }

  const supervise = Effect.gen(function*() {
    const before = yield* workflow.poll(executionId)
    if (before?._tag === "Complete") return yield* finish(before.exit)
    yield* before === undefined ? workflow.execute({ run: name }, { discard: true }) : workflow.resume(executionId)
    // A fiber of its own that a tick does not interrupt: what an interrupted one has just taken would be lost.
    const take = Effect.fork(Queue.take(events))
    let next = yield* take
    for (;;) {
      const event = yield* Effect.timeoutOption(Fiber.join(next), tick)
      if (Option.isSome(event)) {
        next = yield* take
        if (event.value._tag === "Ended") return yield* finish(event.value.exit)
        current = event.value._tag === "Halted" ? event.value : undefined
        if (current !== undefined && (yield* onHalted(current))) return yield* mailbox.end
      } else if (current !== undefined) {
        // It waits for something else than a segment: there is nothing to save.
        if (stopping) return yield* mailbox.end
        const found = yield* workflow.poll(executionId)
        if (found?._tag === "Complete" && Exit.isFailure(found.exit)) return yield* finish(found.exit)
      }
      yield* lookAround
    }
  })

  const needed = Effect.provideService(body, FileSystem.FileSystem, fs)
  yield* engine.register(workflow, () =>
    needed.pipe(
      // An interrupted body is suspended, or the process ends.
      Effect.onExit((exit) => Exit.isInterrupted(exit) ? Effect.void : Queue.offer(events, { _tag: "Ended", exit })),
      Effect.ensuring(closeSession)
    ))
  const supervisor = yield* supervise.pipe(
    Effect.catchAllCause((cause) => Cause.isInterruptedOnly(cause) ? Effect.void : mailbox.failCause(cause)),
    Effect.interruptible,
    Effect.forkIn(owner)
  )
  // Cut short, the segment at work saves and says so in its row, so that nothing is left to be found out later.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      stopping = true
      // A consumer that is gone takes nothing more.
      yield* mailbox.shutdown
      if (interruptSegment !== undefined) {
        yield* Deferred.succeed(interruptSegment, { _tag: "Suspended", reason: "stopped" })
      }
      // A finalizer is not interruptible, and what is not cannot be given up on.
      const ended = yield* Effect.timeoutOption(Effect.interruptible(supervisor.await), stopWithin)
      if (Option.isNone(ended)) {
        yield* logs(
          Effect.logWarning(`the run did not stop within ${Duration.format(stopWithin)}; it is left as it is`)
        )
      }
    })
  )
  return Mailbox.toStream(mailbox)
})
