/**
 * The trainer's side of distributed rollouts: a layer under `Reinforce.train` sends every rollout to the workers of a
 * label, and gathers the trajectories as they are stored. The trainer itself does not change.
 *
 * Policies are saved as checkpoints that workers sample from; each rollout carries the version it is sampled from, and is
 * seeded as it would be in this process, so what is trained on does not depend on who ran it.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Environment from "@effect-tinker/cookbook/Environment"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Rollout from "@effect-tinker/cookbook/Rollout"
import type * as MessageStorage from "@effect/cluster/MessageStorage"
import type * as Sharding from "@effect/cluster/Sharding"
import * as TinkerFuture from "effect-tinker/TinkerFuture"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as batches from "./internal/batches.js"
import * as codec from "./internal/codec.js"
import * as slotPool from "./internal/slotPool.js"
import * as RolloutWorker from "./RolloutWorker.js"
import * as RunAuthority from "./RunAuthority.js"
import * as TrajectoryStore from "./TrajectoryStore.js"

// =============================================================================
// problems
// =============================================================================

const ProblemId = Symbol.for("@effect-tinker/cluster/RolloutCluster/ProblemId")

/**
 * Problems that workers can be asked for: each knows where it stands in the data, which a worker reads too.
 *
 * @since 0.1.0
 * @category combinators
 */
export const problems = <E, R, ED, RD>(
  dataset: Dataset.Dataset<Environment.Group<E, R>, ED, RD>
): Dataset.Dataset<Environment.Group<E, R>, ED, RD> =>
  Dataset.mapOrigin(dataset, (problem, origin) => ({
    ...problem,
    [ProblemId]: RolloutWorker.problemId(origin)
  }))

const problemIdOf = (problem: object): string | undefined => {
  const id: unknown = ProblemId in problem ? problem[ProblemId] : undefined
  return typeof id === "string" ? id : undefined
}

// =============================================================================
// the runner
// =============================================================================

/**
 * Where rollouts go, and how long they may take.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Identifies the run among all that use the store. Never the same for two runs. */
  readonly run: string
  /** Which workers can run the rollouts. Defaults to `cpu`. */
  readonly label?: RolloutWorker.Label | undefined
  /**
   * Share of busy workers that this run is to have beside other runs: one of weight 2 gets twice the places of one of weight
   * 1. Defaults to 1.
   */
  readonly weight?: number | undefined
  /** Most rollouts with workers at once; twice what all workers run at once keeps them busy. Defaults to 128. */
  readonly slots?: number | undefined
  /** After which a rollout is given to another worker too; the first to end counts. Defaults to 5 minutes. */
  readonly stragglerAfter?: Duration.DurationInput | undefined
  /** How many workers may be given a rollout, for failing or for being late. Defaults to 4. */
  readonly attempts?: number | undefined
  /** How long to try again while the server or the database cannot be reached. Defaults to 10 minutes. */
  readonly retryFor?: Duration.DurationInput | undefined
  /** How long policies are kept for workers. Defaults to 1 day. */
  readonly policyTtl?: Duration.DurationInput | undefined
  /**
   * Steps after which trajectories are removed from the store. A run that goes on from an earlier checkpoint finds those
   * of its steps there, and runs the others again. Defaults to 64.
   */
  readonly keepSteps?: number | undefined
}

/**
 * Rollouts by workers, for everything that trains below this layer.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options: Options
): Layer.Layer<
  Rollout.Runner,
  TrajectoryStore.TrajectoryStoreFailed,
  Sharding.Sharding | MessageStorage.MessageStorage | RunAuthority.RunAuthority | TrajectoryStore.TrajectoryStore
> => Layer.scoped(Rollout.Runner, make(options))

/** How long results wait for others, to be stored with them: no slot of a worker waits meanwhile. */
const commitEvery = "50 millis"

/** Most results, and most keys, of one statement. */
const atOneTime = 256

interface Result {
  readonly entry: TrajectoryStore.Entry
  /** Where the worker is reached that sent it. */
  readonly slot: string
}

const transient = (key: TrajectoryStore.RolloutKey, description: string) =>
  new RolloutWorker.RolloutFailed({ key: key.text, description, isTransient: true })

const make = Effect.fnUntraced(function*(options: Options) {
  const store = yield* TrajectoryStore.TrajectoryStore
  const authority = yield* RunAuthority.RunAuthority
  yield* authority.register(options.run)
  const client = yield* RolloutWorker.Slot.client
  const { episode: here } = Context.get(Context.empty(), Rollout.Runner)
  const label = options.label ?? "cpu"
  const attempts = Math.max(1, options.attempts ?? 4)
  const keepSteps = Math.max(0, options.keepSteps ?? 64)
  const stragglerAfter = Duration.decode(options.stragglerAfter ?? "5 minutes")
  const ttlSeconds = Math.max(60, Math.round(Duration.toSeconds(options.policyTtl ?? "1 day")))
  const policies = new WeakMap<object, RolloutWorker.RolloutRequest["policy"]>()
  const atOnce = Math.max(1, options.slots ?? 128)
  const withSlot = yield* slotPool.make({
    slots: yield* slotPool.makeSlots(label, options.run, atOnce),
    atOnce,
    ask: (slot) => client(slot).worker()
  })
  const logs = Effect.annotateLogs({ package: "@effect-tinker/cluster", module: "RolloutCluster", run: options.run })

  let warnedAt = -Infinity
  /** Once for all rollouts that are late at the same time. */
  const warn = Effect.fnUntraced(function*(message: string) {
    const now = yield* Clock.currentTimeMillis
    if (now - warnedAt < Duration.toMillis(stragglerAfter) / 2) return
    warnedAt = now
    yield* logs(Effect.logWarning(message))
  })

  // --- what is stored -----------------------------------------------------------

  const again = Schedule.exponential("500 millis").pipe(
    Schedule.union(Schedule.spaced("30 seconds")),
    Schedule.upTo(options.retryFor ?? "10 minutes"),
    Schedule.whileInput((error: RolloutWorker.RolloutFailed | TrajectoryStore.TrajectoryStoreFailed) =>
      error._tag === "TrajectoryStoreFailed" || error.isTransient
    )
  )

  const find = yield* batches.make({
    window: "5 millis",
    most: atOneTime,
    run: (keys: ReadonlyArray<TrajectoryStore.RolloutKey>) => Effect.retry(store.getMany(keys), again)
  })

  /** Says to workers what of theirs is stored, so that they need not keep it. Nothing depends on it. */
  const tell = (results: ReadonlyArray<Result>, isNew: ReadonlyArray<boolean>) => {
    const bySlot = new Map<string, { readonly kept: Array<string>; readonly known: Array<string> }>()
    for (const [index, { entry, slot }] of results.entries()) {
      const keys = bySlot.get(slot) ?? { kept: [], known: [] }
      bySlot.set(slot, keys)
      keys[isNew[index] === true ? "kept" : "known"].push(entry.key.text)
    }
    return Effect.forEach(
      bySlot,
      ([slot, keys]) =>
        client(slot).stored(keys).pipe(
          // the caller may be uninterruptible, and a timeout cannot end an uninterruptible effect
          Effect.interruptible,
          Effect.timeout("5 seconds"),
          Effect.catchAllCause((cause) => Effect.logDebug("a worker was not told what is stored", cause))
        ),
      { concurrency: "unbounded", discard: true }
    )
  }

  const telling = yield* FiberSet.make()
  yield* Effect.addFinalizer(() => FiberSet.awaitEmpty(telling))
  const keep = yield* batches.make({
    window: commitEvery,
    most: atOneTime,
    run: (results: ReadonlyArray<Result>) =>
      store.putMany(results.map(({ entry }) => entry)).pipe(
        Effect.retry(again),
        Effect.tap((isNew) => FiberSet.run(telling, tell(results, isNew))),
        Effect.ensuring(Effect.sync(() => {
          for (const { entry } of results) codec.release(entry.trajectories)
        }))
      )
  })
  // What an earlier process of the run has left, and workers that outlived it.
  const before = Option.getOrElse(yield* store.latest(options.run), () => -1)

  const failed = (key: TrajectoryStore.RolloutKey, description: string) =>
    new RolloutWorker.RolloutFailed({ key: key.text, description })

  const stored = Effect.fnUntraced(function*(key: TrajectoryStore.RolloutKey) {
    const found = yield* Effect.mapError(find(key), (error) => failed(key, error.message))
    return yield* Option.match(found, {
      onNone: () => failed(key, "a worker said that it is stored, and it is not: do all processes use the same store?"),
      onSome: Effect.succeed
    })
  })

  // --- what is asked of workers ---------------------------------------------------

  /** The slot that answered, and the trajectories where it has not stored them. */
  interface Answer {
    readonly receipt: RolloutWorker.Receipt
    readonly slot: string
    readonly text: string | undefined
  }

  const send = (request: RolloutWorker.RolloutRequest, tried: Set<string>) =>
    Effect.gen(function*() {
      const signature = yield* authority.sign(options.run, RolloutWorker.signedText(request))
      return yield* withSlot(tried, (slot, route) =>
        route === "direct"
          ? Effect.map(
            client(slot).play({ request, signature }),
            ({ receipt, trajectories }): Answer => ({ receipt, slot, text: trajectories })
          )
          : Effect.map(
            client(slot).rollout({ request, signature }),
            (receipt): Answer => ({ receipt, slot, text: undefined })
          ))
    }).pipe(
      // An interruption of the worker's, which left or gave its shard to another one. One of this fiber goes no further.
      Effect.exit,
      Effect.flatMap((exit) =>
        Exit.isFailure(exit) && Cause.isInterrupted(exit.cause)
          ? Effect.fail(transient(request.key, "its worker has left"))
          : exit
      ),
      Effect.catchAll((error) =>
        error._tag === "RolloutFailed" ? Effect.fail(error) : Effect.fail(transient(request.key, error.message))
      )
    )

  const remote = Effect.fnUntraced(function*(request: RolloutWorker.RolloutRequest) {
    const { key } = request
    if (key.step <= before) {
      const found = yield* Effect.mapError(find(key), (error) => failed(key, error.message))
      if (Option.isSome(found)) return found.value
    }
    const tried = new Set<string>()
    let sent = 0
    const attempt: Effect.Effect<Answer, RolloutWorker.RolloutFailed> = Effect.suspend(() => {
      sent++
      const late = Effect.suspend(() =>
        sent < attempts
          ? Effect.zipRight(
            warn(
              `rollouts are late, such as ${key.text}: no worker with the label ${label} has finished it after ` +
                `${Duration.format(stragglerAfter)}; it is given to another one`
            ),
            attempt
          )
          : failed(key, `${sent} attempts, none of which ended within ${Duration.format(stragglerAfter)}`)
      )
      return Effect.raceFirst(send(request, tried), Effect.delay(late, stragglerAfter))
    })
    const answer = yield* attempt.pipe(
      Effect.tapError((error) => {
        if (!error.isTransient) return Effect.void
        sent = 0
        return warn(`${error.message}; it is tried again`)
      }),
      Effect.retry(Schedule.union(
        again,
        Schedule.recurWhile((error: RolloutWorker.RolloutFailed) => !error.isTransient && sent < attempts)
      ))
    )
    if (answer.text === undefined) return yield* stored(key)
    const trajectories = yield* Effect.mapError(codec.receive(answer.text), (description) => failed(key, description))
    const isNew = yield* Effect.mapError(
      keep({ entry: { key, trajectories }, slot: answer.slot }),
      (error) => failed(key, error.message)
    )
    // Of two results the one that was stored first counts.
    return isNew ? trajectories : yield* stored(key)
  })

  return Rollout.Runner.of({
    publish: Effect.fnUntraced(function*(training, { sampler, versions: _moving, ...sampling }) {
      if (sampler === "inflight") {
        yield* warn("rollouts by workers sample from checkpoints, whose weights do not move: `snapshot` is used")
      }
      const version = sampling.version ?? 0
      if (version > keepSteps) {
        yield* store.prune(options.run, version - keepSteps).pipe(
          Effect.catchAll((error) => logs(Effect.logDebug("trajectories were not removed", error)))
        )
      }
      const saved = yield* TinkerFuture.await(
        training.saveWeightsForSampler(`rollouts-${String(version).padStart(6, "0")}`, { ttlSeconds })
      )
      // Without `actMany`: rollouts on several machines cannot share a request.
      const { act } = Policy.fromSampler(yield* training.createSamplingClient(saved.path), sampling)
      const policy = Policy.make(act)
      const { contextWindow, maxTokens, temperature } = sampling
      policies.set(policy, { path: saved.path, version, maxTokens, temperature, contextWindow })
      return policy
    }),
    episode: (episode) => {
      const { at, limits = {}, member, problem, seed } = episode
      const policy = policies.get(episode.policy)
      // Evaluations, and policies that are no checkpoint.
      if (at === undefined || policy === undefined) return here(episode)
      const id = problemIdOf(problem)
      const groupFailed = (description: string) =>
        new Rollout.GroupFailed({ succeeded: 0, needed: 1, errors: [description] })
      if (id === undefined) {
        return Effect.fail(groupFailed("workers cannot know the problem: give the trainer RolloutCluster.problems(…)"))
      }
      const millis = (duration: Duration.DurationInput | undefined) =>
        duration === undefined ? undefined : Duration.decode(duration)
      const request = new RolloutWorker.RolloutRequest({
        key: new TrajectoryStore.RolloutKey({
          run: options.run,
          step: at.step,
          task: `${at.index}:${id}`,
          sample: member
        }),
        problem: id,
        ...(options.weight === undefined ? {} : { weight: options.weight }),
        seed,
        policy,
        limits: { ...limits, timeout: millis(limits.timeout), actionTimeout: millis(limits.actionTimeout) }
      })
      return Effect.mapError(remote(request), (error) => groupFailed(error.message))
    }
  })
})
