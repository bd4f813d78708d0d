/**
 * Steps in flight: submitted in order, recorded in the same order when their results are there.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Cost from "../../Cost.js"
import type * as Dataset from "../../Dataset.js"
import type * as Guard from "../../Guard.js"
import type * as RunEntry from "../../RunEntry.js"
import type * as RunLog from "../../RunLog.js"
import type * as Waits from "../waits.js"
import type { Read } from "./batchReader.js"
import type { Save } from "./checkpointSaver.js"
import * as Notes from "./notes.js"

/** @internal */
export interface Outcome<out Detail> {
  readonly loss: number
  readonly metrics: RunEntry.Metrics
  readonly timings?: RunEntry.Metrics | undefined
  readonly detail: Detail
  /** Sampled rollouts, for the record: made when they are read. */
  readonly rollouts?: Iterable<unknown> | undefined
}

/** A step that the server has accepted. @internal */
export interface Submitted<out Detail, out E, out R> {
  readonly tokens: number
  /** Usage that is paid for. */
  readonly usage: Cost.StepUsage
  readonly result: Effect.Effect<Outcome<Detail>, E, R>
}

/** Where a step stands in the run. @internal */
export interface At {
  /** Steps before it. */
  readonly step: number
  readonly epoch: number
  readonly learningRate: number
}

/**
 * Everything of a step that leaves the weights as they are; the Effect it gives sends the optimizer step. From then on the
 * step may be in the weights, and nobody but the server knows.
 *
 * @internal
 */
export type Prepare<B, Detail, E, R> = (batch: ReadonlyArray<B>, at: At) => Effect.Effect<Send<Detail, E, R>, E, R>

/** Ends when the optimizer step is accepted. @internal */
export type Send<Detail, E, R> = Effect.Effect<Submitted<Detail, E, R>, E, R>

/** How far the submitted steps have come. @internal */
export interface Progress {
  readonly step: number
  readonly position: Dataset.Position
  /** A step is on its way: whether the server has it is not known. */
  readonly inDoubt: boolean
}

/** @internal */
export interface InFlight<Detail, E, R> extends At, Pick<Submitted<Detail, E, R>, "tokens" | "result"> {
  /** Tokens by what they were used for, and money. */
  readonly costs: RunEntry.Metrics
  readonly submittedAt: number
  readonly skipped: ReadonlyArray<Dataset.Skipped>
  readonly evaluations: Readonly<Record<string, RunEntry.Metrics>>
}

/** A step whose result is in the journal. @internal */
export interface Recorded<Detail> {
  readonly outcome: Outcome<Detail>
  /** The problem that its metrics show, if they do. */
  readonly finding: Option.Option<Guard.Finding>
  /** The save that was submitted behind it. */
  readonly save: Option.Option<Save>
}

/** @internal */
export interface Options<B, Detail, E, R> extends Notes.Options {
  readonly waits: Waits.Waits
  readonly start: Pick<Progress, "step" | "position">
  readonly meter: ReturnType<typeof Cost.makeMeter>
  readonly watch: Guard.Watch | undefined
  readonly learningRate: (step: number) => number
  readonly prepare: Prepare<B, Detail, E, R>
}

/** @internal */
export const make = <B, Detail, E, R>(options: Options<B, Detail, E, R>) => {
  const { log, meter } = options
  let progress: Progress = { ...options.start, inDoubt: false }
  let inFlight: ReadonlyArray<InFlight<Detail, E, R>> = []
  const saves = new Map<InFlight<Detail, E, R>, Save>()

  const metricsOf = (step: InFlight<Detail, E, R>, { loss, metrics }: Outcome<Detail>): RunEntry.Metrics => ({
    ...metrics,
    ...step.costs,
    loss,
    learning_rate: step.learningRate,
    tokens: step.tokens,
    epoch: step.epoch
  })

  return {
    progress: (): Progress => progress,
    inFlight: () => inFlight,

    /** Submits a step on a batch. */
    submit: Effect.fnUntraced(function*(
      { batch, skipped }: Read<B>,
      evaluations: Readonly<Record<string, RunEntry.Metrics>>
    ) {
      const { step } = progress
      const learningRate = options.learningRate(step)
      const submittedAt = yield* Clock.currentTimeMillis
      const send = yield* options.prepare(batch.items, { step, epoch: batch.epoch, learningRate })
      progress = { ...progress, inDoubt: true }
      const { result, tokens, usage } = yield* send
      progress = { step: step + 1, position: batch.next, inDoubt: false }
      const submitted: InFlight<Detail, E, R> = {
        step: step + 1,
        epoch: batch.epoch,
        learningRate,
        tokens,
        costs: meter.record(usage),
        submittedAt,
        result,
        skipped,
        evaluations
      }
      inFlight = [...inFlight, submitted]
      return submitted
    }),

    /** A save was submitted right behind a step: it is not to be recorded before the step is. */
    follow: (step: InFlight<Detail, E, R>, save: Save): void => void saves.set(step, save),

    /** Waits for the oldest step and records it. */
    record: Effect.fnUntraced(function*(oldest: InFlight<Detail, E, R>) {
      const outcome = yield* oldest.result
      const finding = options.watch?.observe(oldest.step, { ...outcome.metrics, loss: outcome.loss }) ?? Option.none()
      // Recorded and no longer in flight, or neither.
      yield* Effect.uninterruptible(Effect.gen(function*() {
        const time = yield* Clock.currentTimeMillis
        inFlight = inFlight.filter((other) => other !== oldest)
        yield* Notes.warnOfSkipped(options, progress.step, oldest.skipped)
        if (outcome.rollouts !== undefined) yield* log.appendRollouts(oldest.step, outcome.rollouts)
        yield* log.append({
          _tag: "Step",
          step: oldest.step,
          metrics: metricsOf(oldest, outcome),
          timings: { ...outcome.timings, ...(yield* options.waits.take), step: time - oldest.submittedAt }
        })
      }))
      const save = Option.fromNullable(saves.get(oldest))
      saves.delete(oldest)
      const recorded: Recorded<Detail> = { outcome, finding, save }
      return recorded
    })
  }
}

/** Fills a guard's watch with the steps of a run that goes on. @internal */
export const replay = (watch: Guard.Watch, { resumed }: Pick<RunLog.RunLog, "resumed">): void => {
  if (Option.isNone(resumed) || Option.isNone(resumed.value.checkpoint)) return
  for (const { metrics, step } of resumed.value.run.steps) watch.observe(step, metrics)
}
