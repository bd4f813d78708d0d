/**
 * The loop under every trainer: keeps steps in flight, records them in order, saves, evaluates, and ends well.
 *
 * The order of a model's operations is the order in which they are submitted, whatever is still in flight. So a save that
 * is submitted right behind step `n` contains exactly `n` steps, and is recorded as such, but not before step `n` is:
 * a journal never has a checkpoint of steps it does not have.
 */
import * as RestClient from "effect-tinker/RestClient"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as CheckpointPolicy from "../CheckpointPolicy.js"
import * as Cost from "../Cost.js"
import * as Dataset from "../Dataset.js"
import type * as Evaluator from "../Evaluator.js"
import * as Guard from "../Guard.js"
import * as RunEntry from "../RunEntry.js"
import * as RunLog from "../RunLog.js"
import * as Trainer from "../Trainer.js"
import * as scoped from "./scoped.js"
import type * as Waits from "./waits.js"

/** @internal */
export interface Outcome<out Detail> {
  readonly loss: number
  readonly metrics: RunEntry.Metrics
  readonly timings?: RunEntry.Metrics | undefined
  readonly detail: Detail
  /** Sampled rollouts, for the record: made when they are read. */
  readonly rollouts?: Iterable<unknown> | undefined
}

/** @internal */
export interface Submitted<out Detail, out E, out R> {
  readonly tokens: number
  /** Usage that is paid for. */
  readonly usage: Cost.StepUsage
  readonly result: Effect.Effect<Outcome<Detail>, E, R>
}

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
  /** Submits a pass and an optimizer step. Ends when both are accepted. */
  readonly submit: (batch: ReadonlyArray<B>, at: {
    /** Steps before it. */
    readonly step: number
    readonly epoch: number
    readonly learningRate: number
    /** To be run right before the optimizer step is sent: from then on it may be in the weights. */
    readonly commit: Effect.Effect<void>
  }) => Effect.Effect<Submitted<Detail, E | Trainer.TrainError, R>, E | Trainer.TrainError, R>
  /** State of the trainer beside the weights and the position. */
  readonly state?: (() => unknown) | undefined
}

interface Pending<Detail, E, R> {
  readonly step: number
  readonly epoch: number
  readonly learningRate: number
  readonly tokens: number
  /** Tokens by what they were used for, and money. */
  readonly costs: RunEntry.Metrics
  readonly submittedAt: number
  readonly result: Effect.Effect<Outcome<Detail>, E, R>
  readonly skipped: ReadonlyArray<Dataset.Skipped>
  readonly evaluations: Readonly<Record<string, RunEntry.Metrics>>
  readonly save: Option.Option<Save>
}

type Save = Effect.Effect<RunEntry.Checkpoint, TinkerError.TinkerError | RunLog.RunLogError>

const describeSkipped = (skipped: ReadonlyArray<Dataset.Skipped>): string => {
  const counts = Object.entries(Dataset.countSkipped(skipped)).map(([reason, count]) => `${count} ${reason}`)
  const [first] = skipped
  return `skipped ${counts.join(", ")}` +
    (first === undefined ? "" : `; the first is ${first.origin.source}, ${Dataset.describeSkipped(first)}`)
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
  const { evaluators, log, training } = options
  const policy = CheckpointPolicy.resolve(options.checkpoints)
  const rest = yield* Effect.serviceOption(RestClient.RestClient)
  const logs = Effect.annotateLogs({ package: "@effect-tinker/cookbook", module: options.trainer })
  const checkpoint = Option.flatMap(log.resumed, (resumed) => resumed.checkpoint)
  const background = yield* FiberSet.make<void, AnyError>()

  let submitted = Option.match(checkpoint, { onNone: () => 0, onSome: ({ step }) => step })
  const first = submitted
  let position = Option.match(checkpoint, { onNone: () => Dataset.start(), onSome: (found) => found.position })
  let skippedSince: Array<Dataset.Skipped> = []
  let pending: Array<Pending<Detail, E | Trainer.TrainError, R>> = []
  /** A step is on its way: whether the server has it is not known. */
  let inDoubt = false
  let failed = false
  let lastSaved = submitted
  let rolling: RunEntry.Checkpoint | undefined
  const recorded: Array<RunEntry.Checkpoint> = Option.match(log.resumed, {
    onNone: () => [],
    onSome: ({ run }) => [...run.checkpoints]
  })
  const meter = Cost.makeMeter(options.cost, Option.getOrUndefined(checkpoint)?.cost)
  /** The budget is used up before the run is complete. */
  let outOfBudget = false
  const warned = new Set<string>()
  const now = yield* Clock.currentTimeMillis
  const watch = options.guard === false ? undefined : Guard.watch(options.guard)
  if (watch !== undefined && Option.isSome(checkpoint) && Option.isSome(log.resumed)) {
    for (const { metrics, step } of log.resumed.value.run.steps) watch.observe(step, metrics)
  }
  const since = { periodic: { steps: 0, tokens: 0, at: now }, rolling: { steps: 0, tokens: 0, at: now } }

  // --- data -------------------------------------------------------------------

  const pull = yield* Stream.toPull(Stream.rechunk(options.batches, 1))
  let ahead: Dataset.Batch<B> | undefined
  let exhausted = false
  /** Whether there is another batch; it is held until it is submitted. */
  const peek: Effect.Effect<boolean, E, R> = Effect.gen(function*() {
    while (ahead === undefined && !exhausted) {
      if (submitted > 0 && Option.exists(options.totalSteps, (total) => submitted >= total)) {
        exhausted = true
        break
      }
      if (meter.isSpent()) {
        outOfBudget = true
        exhausted = true
        break
      }
      const next = yield* pull.pipe(
        Effect.map(Chunk.head),
        Effect.catchAll(Option.match({ onNone: () => Effect.succeed("end" as const), onSome: Effect.fail }))
      )
      if (next === "end") exhausted = true
      else if (Option.isSome(next)) {
        skippedSince.push(...next.value.skipped)
        if (next.value.items.length > 0) ahead = next.value
      }
    }
    return ahead !== undefined
  })

  const noteSkipped = (skipped: ReadonlyArray<Dataset.Skipped>) => {
    if (skipped.length === 0) return Effect.void
    const message = describeSkipped(skipped)
    return Effect.zipRight(
      logs(Effect.logWarning(message)),
      log.append({ _tag: "Note", step: submitted, level: "warning", message })
    )
  }

  // --- checkpoints ------------------------------------------------------------

  const record = Effect.fnUntraced(function*(entry: Omit<RunEntry.Checkpoint, "time" | "_tag">) {
    yield* log.append({ ...entry, _tag: "Checkpoint" })
    const saved = new RunEntry.Checkpoint({ ...entry, time: yield* Clock.currentTimeMillis })
    recorded.push(saved)
    lastSaved = Math.max(lastSaved, saved.step)
    if (entry.kind === "rolling") {
      const previous = rolling
      rolling = saved
      if (previous !== undefined && Option.isSome(rest)) {
        yield* rest.value.deleteCheckpoint(previous.statePath).pipe(
          Effect.tapError((error) => logs(Effect.logWarning(`${previous.name} was not deleted: ${error.message}`))),
          Effect.ignore
        )
      }
    }
    return saved
  })

  /** Submits a save of the steps submitted so far; the Effect it gives waits for it and records it. */
  const save = Effect.fnUntraced(function*(kind: RunEntry.CheckpointKind) {
    const step = submitted
    const at = position
    const state = options.state?.()
    const cost = meter.totals()
    const ttl = kind === "final" ? undefined : kind === "rolling" ? policy.rollingTtl : policy.ttl
    const number = String(step).padStart(6, "0")
    const name = kind === "final" ? "final" : kind === "periodic" ? number : `${kind}-${number}`
    const settings = ttl === undefined ? {} : { ttlSeconds: Math.max(1, Math.round(ttl / 1000)) }
    const expiresAt = ttl === undefined ? undefined : (yield* Clock.currentTimeMillis) + ttl
    const weights = yield* training.saveState(name, settings)
    const sampler = kind === "periodic" || kind === "final"
      ? Option.some(yield* training.saveWeightsForSampler(name, settings))
      : Option.none()
    const done: Save = Effect.gen(function*() {
      const { path: statePath } = yield* weights
      const samplerPath = Option.isSome(sampler) ? (yield* sampler.value).path : undefined
      return yield* record({ name, kind, step, position: at, statePath, samplerPath, expiresAt, cost, state })
    })
    return done
  })

  const saveIfDue = Effect.fnUntraced(function*(tokens: number) {
    const time = yield* Clock.currentTimeMillis
    for (const counter of [since.periodic, since.rolling]) {
      counter.steps++
      counter.tokens += tokens
    }
    const due = (kind: "periodic" | "rolling") =>
      CheckpointPolicy.isDue(policy[kind], { ...since[kind], millis: time - since[kind].at })
    const kind = due("periodic") ? "periodic" : due("rolling") ? "rolling" : undefined
    if (kind === undefined) return Option.none<Save>()
    since[kind] = { steps: 0, tokens: 0, at: time }
    if (kind === "periodic") since.rolling = { steps: 0, tokens: 0, at: time }
    return Option.some(yield* save(kind))
  })

  const warnOfExpiry = Effect.fnUntraced(function*(step: number) {
    const time = yield* Clock.currentTimeMillis
    for (const found of RunLog.expiring({ checkpoints: recorded }, time, Infinity)) {
      const left = (found.expiresAt ?? Infinity) - time
      if (warned.has(found.name) || left > policy.warnBefore((found.expiresAt ?? Infinity) - found.time)) continue
      warned.add(found.name)
      const message = `the latest checkpoint, ${found.name}, expires in ${Math.round(left / 60_000)} minutes`
      yield* logs(Effect.logWarning(message))
      yield* log.append({ _tag: "Note", step, level: "warning", message })
    }
  })

  // --- evaluation -------------------------------------------------------------

  const evaluate = Effect.fnUntraced(function*(step: number) {
    const results: Record<string, RunEntry.Metrics> = {}
    if (evaluators.length === 0) return results
    const scoped = Effect.gen(function*() {
      const scope = yield* Effect.scope
      const sampler = yield* Effect.cached(
        Scope.extend(training.saveWeightsAndGetSamplingClient(), scope)
      )
      for (const { evaluate, name } of evaluators) {
        const metrics = yield* evaluate({ step, training, sampler })
        results[name] = metrics
        yield* log.append({ _tag: "Evaluation", step, name, metrics })
      }
    })
    yield* Effect.scoped(scoped)
    return results
  })

  // --- steps ------------------------------------------------------------------

  const submitNext = Effect.fnUntraced(function*(batch: Dataset.Batch<B>) {
    const step = submitted
    const evaluations = step % options.evaluateEvery === 0 ? yield* evaluate(step) : {}
    const learningRate = options.learningRate(step)
    const submittedAt = yield* Clock.currentTimeMillis
    const commit = Effect.sync(() => {
      inDoubt = true
    })
    const { result, tokens, usage } = yield* options.submit(batch.items, {
      step,
      epoch: batch.epoch,
      learningRate,
      commit
    })
    submitted++
    position = batch.next
    inDoubt = false
    const skipped = skippedSince
    skippedSince = []
    ahead = undefined
    const costs = meter.record(usage)
    pending.push({
      step: submitted,
      epoch: batch.epoch,
      learningRate,
      tokens,
      costs,
      submittedAt,
      result,
      skipped,
      evaluations,
      save: yield* saveIfDue(tokens)
    })
  })

  const drain = Effect.fnUntraced(function*(oldest: Pending<Detail, E | Trainer.TrainError, R>) {
    const outcome = yield* oldest.result
    const found = watch?.observe(oldest.step, { ...outcome.metrics, loss: outcome.loss }) ?? Option.none()
    // Recorded and no longer pending, or neither.
    yield* Effect.uninterruptible(Effect.gen(function*() {
      const time = yield* Clock.currentTimeMillis
      pending = pending.filter((other) => other !== oldest)
      yield* noteSkipped(oldest.skipped)
      if (outcome.rollouts !== undefined) yield* log.appendRollouts(oldest.step, outcome.rollouts)
      yield* log.append({
        _tag: "Step",
        step: oldest.step,
        metrics: {
          ...outcome.metrics,
          ...oldest.costs,
          loss: outcome.loss,
          learning_rate: oldest.learningRate,
          tokens: oldest.tokens,
          epoch: oldest.epoch
        },
        timings: { ...outcome.timings, ...(yield* training.waits.take), step: time - oldest.submittedAt }
      })
    }))
    if (Option.isSome(found)) {
      const { limit, metric, since, value } = found.value
      // A step measures the weights before it: those that the first bad step measured are not good.
      const newest = Math.max(...recorded.map(({ kind, step }) => kind === "rolling" ? step : 0))
      const kept = recorded.filter(({ kind, step }) => step < since - 1 && (kind !== "rolling" || step === newest))
      const good = RunLog.latestCheckpoint({ checkpoints: kept }, yield* Clock.currentTimeMillis)
      return yield* new Guard.Diverged({
        trainer: options.trainer,
        step: oldest.step,
        metric,
        value,
        limit,
        checkpoint: Option.getOrUndefined(Option.map(good, ({ statePath }) => statePath))
      })
    }
    if (Option.isSome(oldest.save)) {
      if (policy.background) yield* FiberSet.run(background, Effect.asVoid(oldest.save.value))
      else yield* oldest.save.value
    }
    yield* warnOfExpiry(oldest.step)
    return outcome
  })

  const awaitBackground = Effect.zipRight(FiberSet.awaitEmpty(background), Effect.void)

  const next = Effect.gen(function*() {
    while (pending.length <= options.submitAhead && (yield* peek)) {
      if (ahead !== undefined) yield* submitNext(ahead)
    }
    const oldest = pending[0]
    if (oldest === undefined) return yield* Effect.fail(Option.none<AnyError>())
    const outcome = yield* drain(oldest)
    const last = pending.length === 0 && !(yield* peek)
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
      final: last && !outOfBudget ? Option.some(yield* finish) : Option.none()
    }
    if (last && outOfBudget) yield* stop
    return report
  }).pipe(
    Effect.mapError((error) => Option.isOption(error) ? error : Option.some<AnyError>(error)),
    Effect.tapErrorCause((cause) =>
      Effect.sync(() => {
        if (!Cause.isInterruptedOnly(cause)) failed = true
      })
    )
  )

  const finish = Effect.gen(function*() {
    yield* noteSkipped(skippedSince)
    skippedSince = []
    const evaluations = yield* evaluate(submitted)
    const saved = yield* yield* save("final")
    yield* awaitBackground
    yield* log.finish
    return { evaluations, checkpoint: saved }
  })

  /** Ends the run where it is: with a larger budget it goes on from there. */
  const stop = Effect.gen(function*() {
    const message = `the budget does not allow another step: ${meter.spent()} spent after step ${submitted}`
    yield* logs(Effect.logWarning(message))
    yield* log.append({ _tag: "Note", step: submitted, level: "warning", message })
    if (submitted !== lastSaved) yield* yield* save("exit")
    yield* awaitBackground
  })

  /** Killed between its last step and its end, a run has only its end left to do. */
  const begin = Effect.gen(function*() {
    if (log.complete || (yield* peek) || outOfBudget) return
    if (submitted === 0) {
      yield* noteSkipped(skippedSince)
      const detail = skippedSince.length === 0 ? "" : `: ${describeSkipped(skippedSince)}`
      return yield* new Trainer.InvalidRun({
        trainer: options.trainer,
        description: `there is nothing to train on${detail}`
      })
    }
    yield* finish
  })

  // Cut short, what was submitted is waited for and saved, so that running again goes on from here.
  yield* Effect.addFinalizer((exit) => {
    const cut = Exit.isSuccess(exit) || Cause.isInterruptedOnly(exit.cause)
    if (!policy.onExit || !cut || failed || inDoubt || submitted === lastSaved || submitted === first || log.complete) {
      return Effect.void
    }
    return Effect.gen(function*() {
      const done = yield* save("exit")
      for (const oldest of [...pending]) yield* drain(oldest)
      yield* done
      yield* awaitBackground
    }).pipe(
      Effect.interruptible,
      Effect.timeout(policy.exitTimeout),
      Effect.catchAllCause((cause) => logs(Effect.logWarning("could not save a checkpoint on exit", cause)))
    )
  })

  if (log.complete) return Stream.empty
  yield* begin
  const joined = FiberSet.join(background)
  return Stream.repeatEffectOption(next).pipe(Stream.interruptWhen(joined))
})
