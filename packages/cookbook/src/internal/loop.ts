/**
 * The loop under every trainer: keeps steps in flight, records them in order, saves, evaluates, and ends well.
 *
 * The order of a model's operations is the order in which they are submitted, whatever is still in flight. So a save that
 * is submitted right behind step `n` contains exactly `n` steps, and is recorded as such, but not before step `n` is:
 * a journal never has a checkpoint of steps it does not have.
 *
 * It calls its parts and none of them calls it: the reader holds the batches, the pipeline the steps in flight and how far
 * they have come, the saver the checkpoints.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as CheckpointPolicy from "../CheckpointPolicy.js"
import * as Cost from "../Cost.js"
import * as Dataset from "../Dataset.js"
import type * as Evaluator from "../Evaluator.js"
import * as Guard from "../Guard.js"
import type * as RunEntry from "../RunEntry.js"
import type * as RunLog from "../RunLog.js"
import * as Trainer from "../Trainer.js"
import * as BatchReader from "./loop/batchReader.js"
import * as CheckpointSaver from "./loop/checkpointSaver.js"
import * as Evaluation from "./loop/evaluation.js"
import * as Notes from "./loop/notes.js"
import * as StepPipeline from "./loop/stepPipeline.js"
import * as scoped from "./scoped.js"
import type * as Waits from "./waits.js"

/** @internal */
export interface Options<B, Detail, E, R> {
  readonly trainer: string
  readonly log: RunLog.RunLog
  readonly training: Waits.Watched
  readonly checkpoints: CheckpointPolicy.CheckpointPolicy
  readonly evaluators: ReadonlyArray<Evaluator.Evaluator<E, R>>
  readonly evaluateEvery: number
  readonly submitAhead: number
  /** When the run is stopped; `false` is never. */
  readonly guard: Guard.Guard | false
  readonly cost: Cost.Options | undefined
  readonly totalSteps: Option.Option<number>
  readonly learningRate: (step: number) => number
  /** From where the checkpoint stands. */
  readonly batches: Stream.Stream<Dataset.Batch<B>, E, R>
  readonly prepare: StepPipeline.Prepare<B, Detail, E | Trainer.TrainError, R>
  /** State of the trainer beside the weights and the position. */
  readonly state?: (() => unknown) | undefined
}

/** @internal */
export const run = <B, Detail, E, R>(
  options: Options<B, Detail, E, R>
): Stream.Stream<
  Trainer.StepReport<Detail>,
  E | Trainer.TrainError,
  R
> => scoped.stream(make(options))

const make = Effect.fnUntraced(function*<B, Detail, E, R>(options: Options<B, Detail, E, R>) {
  type AnyError = E | Trainer.TrainError
  const { log, trainer, training } = options
  const policy = CheckpointPolicy.resolve(options.checkpoints)
  const checkpoint = Option.flatMap(log.resumed, (resumed) => resumed.checkpoint)
  const start = Option.getOrElse(checkpoint, () => ({ step: 0, position: Dataset.start() }))
  const meter = Cost.makeMeter(options.cost, Option.getOrUndefined(checkpoint)?.cost)
  const watch = options.guard === false ? undefined : Guard.watch(options.guard)
  if (watch !== undefined) StepPipeline.replay(watch, log)

  const saver = yield* CheckpointSaver.make({ trainer, log, training, policy, step: start.step })
  const reader = yield* BatchReader.make(options.batches)
  const pipeline = StepPipeline.make<B, Detail, AnyError, R>({
    trainer,
    log,
    meter,
    watch,
    start,
    waits: training.waits,
    learningRate: options.learningRate,
    prepare: options.prepare
  })
  let failed = false

  const hasNext = Effect.suspend(() => {
    const { step } = pipeline.progress()
    return reader.hasNext(
      step > 0 && Option.exists(options.totalSteps, (total) => step >= total)
        ? Option.some("steps")
        : meter.isSpent()
        ? Option.some("budget")
        : Option.none()
    )
  })

  const isOutOfBudget = () => Option.contains(reader.end(), "budget")

  const snapshot = (): CheckpointSaver.Snapshot => {
    const { position, step } = pipeline.progress()
    return { step, position, cost: meter.totals(), state: options.state?.() }
  }

  // --- steps ------------------------------------------------------------------

  const submitNext = Effect.fnUntraced(function*(read: BatchReader.Read<B>) {
    const { step } = pipeline.progress()
    const evaluations = step % options.evaluateEvery === 0 ? yield* Evaluation.evaluate(options, step) : {}
    const submitted = yield* pipeline.submit(read, evaluations)
    const save = yield* saver.saveIfDue(submitted.tokens, snapshot())
    if (Option.isSome(save)) pipeline.follow(submitted, save.value)
  })

  const diverged = ({ limit, metric, since, value }: Guard.Finding, step: number) =>
    // A step measures the weights before it: those that the first bad step measured are not good.
    Effect.flatMap(saver.latestBefore(since - 1), (good) =>
      new Guard.Diverged({
        trainer,
        step,
        metric,
        value,
        limit,
        checkpoint: Option.getOrUndefined(Option.map(good, ({ statePath }) => statePath))
      }))

  const drain = Effect.fnUntraced(function*(oldest: StepPipeline.InFlight<Detail, AnyError, R>) {
    const { finding, outcome, save } = yield* pipeline.record(oldest)
    if (Option.isSome(finding)) return yield* diverged(finding.value, oldest.step)
    if (Option.isSome(save)) yield* saver.settle(save.value)
    yield* saver.warnOfExpiry(oldest.step)
    return outcome
  })

  const next = Effect.gen(function*() {
    while (pipeline.inFlight().length <= options.submitAhead && (yield* hasNext)) {
      const read = reader.take()
      if (Option.isSome(read)) yield* submitNext(read.value)
    }
    const [oldest] = pipeline.inFlight()
    if (oldest === undefined) return yield* Effect.fail(Option.none<AnyError>())
    const outcome = yield* drain(oldest)
    const last = pipeline.inFlight().length === 0 && !(yield* hasNext)
    const report: Trainer.StepReport<Detail> = {
      step: oldest.step,
      totalSteps: options.totalSteps,
      epoch: oldest.epoch,
      learningRate: oldest.learningRate,
      loss: outcome.loss,
      tokens: oldest.tokens,
      metrics: { ...outcome.metrics, ...oldest.costs },
      detail: outcome.detail,
      skipped: oldest.skipped,
      evaluations: oldest.evaluations,
      final: last && !isOutOfBudget() ? Option.some(yield* finish) : Option.none()
    }
    if (last && isOutOfBudget()) yield* stop
    return report
  }).pipe(
    Effect.mapError((error) => Option.isOption(error) ? error : Option.some<AnyError>(error)),
    Effect.tapErrorCause((cause) =>
      Effect.sync(() => {
        if (!Cause.isInterruptedOnly(cause)) failed = true
      })
    )
  )

  // --- beginning and end ------------------------------------------------------

  const finish = Effect.gen(function*() {
    const { step } = pipeline.progress()
    yield* Notes.warnOfSkipped(options, step, reader.takeSkipped())
    const evaluations: Readonly<Record<string, RunEntry.Metrics>> = yield* Evaluation.evaluate(options, step)
    const saved = yield* yield* saver.save("final", snapshot())
    yield* saver.awaitBackground
    yield* log.finish
    return { evaluations, checkpoint: saved }
  })

  /** Ends the run where it is: with a larger budget it goes on from there. */
  const stop = Effect.gen(function*() {
    const { step } = pipeline.progress()
    yield* Notes.warn(
      options,
      step,
      `the budget does not allow another step: ${meter.spent()} spent after step ${step}`
    )
    if (step !== saver.lastSaved()) yield* yield* saver.save("exit", snapshot())
    yield* saver.awaitBackground
  })

  /** Killed between its last step and its end, a run has only its end left to do. */
  const begin = Effect.gen(function*() {
    if (log.complete || (yield* hasNext) || isOutOfBudget()) return
    const { step } = pipeline.progress()
    if (step > 0) return yield* Effect.asVoid(finish)
    const skipped = reader.takeSkipped()
    yield* Notes.warnOfSkipped(options, step, skipped)
    const detail = skipped.length === 0 ? "" : `: ${Notes.describeSkipped(skipped)}`
    return yield* new Trainer.InvalidRun({ trainer, description: `there is nothing to train on${detail}` })
  })

  /** What was submitted is waited for and saved, so that running again goes on from here. */
  const saveOnExit = Effect.gen(function*() {
    const accepted = yield* saver.save("exit", snapshot())
    for (const oldest of pipeline.inFlight()) yield* drain(oldest)
    yield* accepted
    yield* saver.awaitBackground
  }).pipe(
    Effect.interruptible,
    Effect.timeout(policy.exitTimeout),
    Effect.catchAllCause((cause) =>
      Notes.annotated(trainer)(Effect.logWarning("could not save a checkpoint on exit", cause))
    )
  )

  yield* Effect.addFinalizer((exit) => {
    const isCut = Exit.isSuccess(exit) || Cause.isInterruptedOnly(exit.cause)
    const { inDoubt, step } = pipeline.progress()
    const hasNews = step !== saver.lastSaved() && step !== start.step
    return policy.onExit && isCut && !failed && !inDoubt && hasNews && !log.complete ? saveOnExit : Effect.void
  })

  if (log.complete) return Stream.empty
  yield* begin
  return Stream.repeatEffectOption(next).pipe(Stream.interruptWhen(saver.backgroundFailure))
})
