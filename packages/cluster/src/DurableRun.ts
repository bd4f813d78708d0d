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
import type * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Workflow from "@effect/workflow/Workflow"
import * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as TrainingClient from "effect-tinker/TrainingClient"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Mailbox from "effect/Mailbox"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Runtime from "effect/Runtime"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Attempts from "./internal/durable/attempts.js"
import * as Body from "./internal/durable/body.js"
import * as Execution from "./internal/durable/execution.js"
import * as Segment from "./internal/durable/segment.js"
import * as StatusFile from "./internal/durable/status.js"
import * as Supervisor from "./internal/durable/supervisor.js"
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
export class Saved extends Schema.Class<Saved>("@effect-tinker/cluster/DurableRun/Saved")(
  Segment.checkpointFields
) {}

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

// How long a run that is cut short may take to save what it has.
const stopWithin = Duration.seconds(90)

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
  const logs = Segment.annotated(name)
  yield* fs.makeDirectory(RunControl.folder(directory), { recursive: true, mode: 0o700 })

  const mailbox = yield* Mailbox.make<Trainer.StepReport<Detail>, Failure>({ capacity: 16 })
  const events = yield* Queue.unbounded<Segment.Event>()
  const grading = yield* Grading.make(directory, { workflow, executionId })
  const status = yield* StatusFile.make({ directory, run: name })
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
  const attempts = Attempts.make<E>({
    run: name,
    session,
    grading,
    status,
    events,
    retry: options.retry ?? retryTransient,
    wait: options.wait,
    waitAfter: options.waitAfter
  })

  const measure = (evaluator: Evaluator.Evaluator<EV, RV>) => (checkpoint: Segment.Checkpoint) =>
    Effect.gen(function*() {
      const scope = yield* Effect.scope
      const training = yield* TrainingClient.makeFromState({ path: checkpoint.statePath })
      const { samplerPath, step } = checkpoint
      const sampler = yield* Effect.cached(Scope.extend(
        samplerPath === undefined
          ? training.saveWeightsAndGetSamplingClient()
          : SamplingClient.make({ modelPath: samplerPath }),
        scope
      ))
      return yield* evaluator.evaluate({ step, training, sampler: closed(sampler) })
    }).pipe(Effect.scoped, closed)

  const body = Body.make({
    run: name,
    attempts,
    session,
    events,
    measurements: (options.evaluate ?? []).map((evaluator) => ({
      name: evaluator.name,
      measure: measure(evaluator)
    })),
    evaluateEvery: Math.max(1, options.evaluateEvery ?? 1)
  })
  yield* engine.register(workflow, () =>
    body.pipe(
      Effect.map(({ checkpoint, outcome }) =>
        new Outcome({ outcome, checkpoint: checkpoint === undefined ? undefined : new Saved(checkpoint) })
      ),
      // An interrupted body is suspended, or the process ends.
      Effect.onExit((exit) => Exit.isInterrupted(exit) ? Effect.void : Queue.offer(events, { _tag: "Ended", exit })),
      Effect.ensuring(attempts.close)
    ))

  const supervisor = yield* Supervisor.supervise({
    directory,
    execution: Execution.make(workflow, executionId, workflow.execute({ run: name }, { discard: true })),
    events,
    attempts,
    grading,
    status,
    patience: Duration.toMillis(options.patience ?? "1 minute"),
    detach: options.detach === true
  }).pipe(
    Effect.matchCauseEffect({
      onFailure: (cause) => Cause.isInterruptedOnly(cause) ? Effect.void : mailbox.failCause(cause),
      onSuccess: (ending) =>
        ending === "cancelled" ? mailbox.fail(new RunCancelled({ run: name, directory })) : mailbox.end
    }),
    Effect.interruptible,
    Effect.forkIn(owner)
  )

  // Cut short, the segment at work saves and says so in its row, so that nothing is left to be found out later.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      yield* attempts.stop
      // A consumer that is gone takes nothing more.
      yield* mailbox.shutdown
      yield* attempts.signal({ _tag: "Suspended", reason: "stopped" })
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
