/**
 * A worker: a process that runs rollouts for trainers on other machines. A trainer asks for one directly, or through the
 * cluster's storage where it cannot reach the worker. The worker samples from the policy that the rollout names, and its
 * trajectories are kept in the {@link TrajectoryStore}.
 *
 * - Rollouts are delivered at least once, and stored once.
 * - Workers come and go. What one of them had not finished is given to the others, and a worker that leaves may take a time
 *   of grace to end what it has.
 * - Small results go to the trainer, which stores many in one statement. What no trainer has stored within half a minute,
 *   the worker stores.
 * - Runs share a worker by their weights, whatever each has waiting.
 * - Credentials for sampling come from the worker's own environment, never through the database.
 * - A rollout is run only if a trainer of a run that the database knows has signed the request: see {@link RunAuthority}.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Environment from "@effect-tinker/cookbook/Environment"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Rollout from "@effect-tinker/cookbook/Rollout"
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as Permits from "@effect-tinker/platform/Permits"
import * as ClusterSchema from "@effect/cluster/ClusterSchema"
import * as Entity from "@effect/cluster/Entity"
import * as Sharding from "@effect/cluster/Sharding"
import * as Rpc from "@effect/rpc/Rpc"
import * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Hash from "effect/Hash"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as codec from "./internal/codec.js"
import * as entityGate from "./internal/entityGate.js"
import * as fairTurns from "./internal/fairTurns.js"
import * as outboxOf from "./internal/outbox.js"
import * as serverFailure from "./internal/serverFailure.js"
import * as RunAuthority from "./RunAuthority.js"
import * as TrajectoryStore from "./TrajectoryStore.js"
import type * as WorkerMetrics from "./WorkerMetrics.js"

// =============================================================================
// what is asked of a worker
// =============================================================================

/**
 * Label of work. A rollout goes to workers that have its label.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Label = Schema.Literal("cpu", "sandbox", "browser", "gpu")

/**
 * Labels of work.
 *
 * @since 0.1.0
 * @category models
 */
export type Label = typeof Label.Type

const Count = Schema.Positive.pipe(Schema.int())

/**
 * One rollout to run.
 *
 * @since 0.1.0
 * @category schemas
 */
export class RolloutRequest
  extends Schema.Class<RolloutRequest>("@effect-tinker/cluster/RolloutWorker/RolloutRequest")({
    key: TrajectoryStore.RolloutKey,
    /** Which problem of the worker's environment: see `RolloutCluster.problems`. */
    problem: Schema.NonEmptyString,
    /** Share of busy workers that the run is to have, beside other runs. Defaults to 1. */
    weight: Schema.optional(Schema.Positive),
    /** Makes the rollout repeatable. */
    seed: Schema.optional(Schema.Int),
    /** The weights to sample from, and how. */
    policy: Schema.Struct({
      /** A `tinker://` path. */
      path: Schema.NonEmptyString,
      /** Optimizer steps in the weights. */
      version: Schema.NonNegativeInt,
      maxTokens: Count,
      temperature: Schema.optional(Schema.Number),
      contextWindow: Schema.optional(Count)
    }),
    limits: Schema.optionalWith(
      Schema.Struct({
        maxTurns: Schema.optional(Schema.Number),
        maxTokens: Schema.optional(Schema.Number),
        maxSampledTokens: Schema.optional(Schema.Number),
        maxTurnTokens: Schema.optional(Schema.Number),
        timeout: Schema.optional(Schema.DurationFromMillis),
        actionTimeout: Schema.optional(Schema.DurationFromMillis)
      }),
      { default: () => ({}) }
    )
  })
{}

const encodeRequest = Schema.encodeSync(RolloutRequest)

/** The text of a request that is signed: the same in the process that sends it and in the one that reads it. @internal */
export const signedText = (request: RolloutRequest): string => JSON.stringify(encodeRequest(request))

/**
 * A worker could not run a rollout.
 *
 * @since 0.1.0
 * @category errors
 */
export class RolloutFailed
  extends Schema.TaggedError<RolloutFailed>("@effect-tinker/cluster/RolloutWorker/RolloutFailed")(
    "RolloutFailed",
    {
      key: Schema.String,
      description: Schema.String,
      /** Whether it may succeed later: the server or the database could not be reached, or had lost the policy's sampler. */
      isTransient: Schema.optionalWith(Schema.Boolean, { default: () => false })
    }
  )
{
  override get message(): string {
    return `the rollout ${this.key} failed: ${this.description}`
  }
}

/**
 * Who ran a rollout, or would run it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Receipt extends Schema.Class<Receipt>("@effect-tinker/cluster/RolloutWorker/Receipt")({
  /** `HOST:PORT` of the worker. */
  worker: Schema.String,
  /** How many rollouts it runs at once. */
  concurrency: Count,
  /** Whether it takes no more rollouts: it ends when those it has are done. */
  isLeaving: Schema.optional(Schema.Boolean)
}) {}

/**
 * Outcome of a rollout that was asked for directly.
 *
 * @since 0.2.0
 * @category schemas
 */
export class Played extends Schema.Class<Played>("@effect-tinker/cluster/RolloutWorker/Played")({
  receipt: Receipt,
  /** The trajectories, for the trainer to store; without them the worker has stored them. */
  trajectories: Schema.optional(Schema.String)
}) {}

/** Payload of a rollout: the request, and the signature of a trainer that has the secret of the cluster. */
const signedRequest = {
  request: RolloutRequest,
  /** Requests of before there were signatures have none. */
  signature: Schema.optional(Schema.String)
}

/**
 * A place that runs rollouts. A run has a number of them, which the cluster spreads over the workers of a label; the id of
 * a slot is `LABEL/RUN/NUMBER`, and its shard group the label.
 *
 * @since 0.1.0
 * @category models
 */
export const Slot = Entity.make("RolloutSlot", [
  Rpc.make("rollout", {
    payload: signedRequest,
    primaryKey: ({ request }) => request.key.text,
    success: Receipt,
    error: RolloutFailed
  }).annotate(ClusterSchema.Persisted, true),
  /**
   * A rollout that the database hears of only when it is done. Not persisted: while the trainer is there, it asks again for
   * what a worker did not answer; and a worker stores what no trainer says it has stored.
   */
  Rpc.make("play", { payload: signedRequest, success: Played, error: RolloutFailed }),
  /** Keys of what the trainer has stored, or found to be stored already. */
  Rpc.make("stored", { payload: { kept: Schema.Array(Schema.String), known: Schema.Array(Schema.String) } }),
  /** Who has the slot. Not persisted: an answer is of use only now. */
  Rpc.make("worker", { success: Receipt })
]).annotate(ClusterSchema.ShardGroup, (id) => id.split("/")[0] ?? "cpu")

/** The id of a slot; names of runs that do not fit into a column are hashed. @internal */
export const slotId = (label: Label, run: string, n: number): string =>
  `${label}/${run.length <= 128 ? run : Hash.string(run)}/${n}`

// =============================================================================
// problems
// =============================================================================

/** Identity of a problem in all processes that read the same data. @internal */
export const problemId = ({ row, source }: Dataset.Origin): string => `${source}#${row}`

/** Problems by their ids. The data is read as far as it is asked for, once. */
const makeLookup = Effect.fnUntraced(function*<E, R, ED, RD>(
  problems: Dataset.Dataset<Environment.Group<E, R>, ED, RD>
) {
  const known = new Map<string, Environment.Group<E, R>>()
  const pull = yield* Stream.toPull(Dataset.rows(problems))
  const one = yield* Permits.make(1)
  let exhausted = false
  const read = (id: string): Effect.Effect<Option.Option<Environment.Group<E, R>>, ED, RD> =>
    Effect.gen(function*() {
      while (!known.has(id) && !exhausted) {
        const rows = yield* Effect.catchAll(
          pull,
          Option.match({
            onNone: () => {
              exhausted = true
              return Effect.succeed(Chunk.empty<Dataset.Row<Environment.Group<E, R>>>())
            },
            onSome: (error) => Effect.fail(error)
          })
        )
        for (const row of rows) if (row._tag === "Kept") known.set(problemId(row.origin), row.value)
      }
      return Option.fromNullable(known.get(id))
    })
  return (id: string) => one.withPermits(1)(read(id))
})

// =============================================================================
// workers
// =============================================================================

/**
 * Problems a worker runs, and how much at once.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<E, R, ED, RD> {
  /** The problems that the trainer has too. */
  readonly problems: Dataset.Dataset<Environment.Group<E, R>, ED, RD>
  /** Settings of environments, beside the context window of the run. */
  readonly settings: Omit<Environment.Settings, "contextWindow" | "member">
  /** Rollouts at once. Defaults to 8. */
  readonly concurrency?: number | undefined
  /** Hears of each rollout that was run, after its trajectory is stored. */
  readonly onRollout?: ((request: RolloutRequest) => Effect.Effect<void>) | undefined
  /** How long the worker may take to end the rollouts it has, once its scope closes. Defaults to 0. */
  readonly grace?: Duration.DurationInput | undefined
  /** Counts what the worker does; see `WorkerMetrics`. */
  readonly metrics?: WorkerMetrics.WorkerMetrics | undefined
}

/**
 * Runs rollouts until the scope closes.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = <E, R, ED, RD>(options: Options<E, R, ED, RD>): Layer.Layer<
  never,
  never,
  | Exclude<R | RD, Scope.Scope>
  | Sharding.Sharding
  | ServiceClient.ServiceClient
  | RunAuthority.RunAuthority
  | TrajectoryStore.TrajectoryStore
> =>
  Layer.unwrapScoped(Effect.gen(function*() {
    const store = yield* TrajectoryStore.TrajectoryStore
    const authority = yield* RunAuthority.RunAuthority
    const runtime = yield* Effect.runtime<Exclude<R | RD, Scope.Scope> | ServiceClient.ServiceClient>()
    const concurrency = Math.max(1, options.concurrency ?? 8)
    const turns = fairTurns.make(concurrency)
    const counts = { ended: 0, failed: 0, runSeconds: 0, waitSeconds: 0 }
    yield* options.metrics?.watch(() => ({ ...turns.load(), ...counts, concurrency })) ?? Effect.void
    // The compiler cannot see that nothing remains of a generic environment.
    const closed = <A, E2, R2>(effect: Effect.Effect<A, E2, R2>) =>
      Effect.provide(effect, runtime) as Effect.Effect<A, E2, Extract<R2, Scope.Scope>>
    const lookup = yield* closed(makeLookup(options.problems))
    const samplers = yield* RcMap.make({
      lookup: (path: string) => closed(SamplingClient.make({ modelPath: path })),
      idleTimeToLive: "2 minutes"
    })

    const run = Effect.fnUntraced(function*({ key, limits, policy, problem: id, seed }: RolloutRequest) {
      const problem = yield* lookup(id)
      if (Option.isNone(problem)) {
        return yield* new RolloutFailed({ key: key.text, description: `there is no problem ${id} here` })
      }
      const sampler = yield* RcMap.get(samplers, policy.path)
      const environment = yield* problem.value.make({
        ...options.settings,
        contextWindow: policy.contextWindow,
        member: key.sample
      })
      return yield* Rollout.play(Policy.fromSampler(sampler, policy), environment, { limits, seed }).pipe(
        // A server that was started again does not know the sampler any more.
        Effect.tapError((error) => serverFailure.isLost(error) ? RcMap.invalidate(samplers, policy.path) : Effect.void)
      )
    }, Effect.scoped)

    const failed = (key: TrajectoryStore.RolloutKey, cause: Cause.Cause<unknown>) => {
      const failure = Option.getOrElse(Cause.failureOption(cause), () => Cause.squash(cause))
      if (failure instanceof RolloutFailed) return failure
      return new RolloutFailed({
        key: key.text,
        description: failure instanceof Error ? failure.message : String(failure),
        isTransient: failure instanceof TrajectoryStore.TrajectoryStoreFailed || serverFailure.isRetryable(failure) ||
          serverFailure.isLost(failure)
      })
    }

    const outbox = yield* outboxOf.make({
      store,
      onStored: (request) => options.onRollout?.(request) ?? Effect.void
    })
    let isLeaving = false

    const played = Effect.fnUntraced(function*(request: RolloutRequest) {
      const leave = new RolloutFailed({
        key: request.key.text,
        description: "the worker is leaving",
        isTransient: true
      })
      if (isLeaving) return yield* leave
      const started = yield* Clock.currentTimeMillis
      return yield* turns.withTurn(request.key.run, request.weight ?? 1)(
        Effect.suspend(() => isLeaving ? leave : Effect.timed(closed(run(request))))
      ).pipe(
        Effect.tap(([took]) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            counts.ended++
            counts.runSeconds += Duration.toSeconds(took)
            counts.waitSeconds += Math.max(0, (now - started) / 1000 - Duration.toSeconds(took))
          })
        ),
        Effect.tapErrorCause((cause) => {
          if (!Cause.isInterrupted(cause)) counts.failed++
          return Effect.void
        }),
        Effect.map(([, trajectories]) => trajectories)
      )
    })

    /** Longer than a restart of the database takes: a rollout may have cost minutes. */
    const put = (request: RolloutRequest, trajectories: ReadonlyArray<Trajectory.Trajectory>) =>
      store.put(request.key, trajectories).pipe(
        Effect.retry(Schedule.spaced("1 second").pipe(Schedule.upTo("1 minute"))),
        Effect.tap((isNew) => isNew ? options.onRollout?.(request) ?? Effect.void : Effect.void)
      )

    const answered = <A, E, R2>(request: RolloutRequest, effect: Effect.Effect<A, E, R2>) =>
      Effect.catchAllCause(effect, (cause) =>
        // A worker that leaves has not failed: the rollout goes to another one.
        Cause.isInterrupted(cause) ? Effect.interrupt : failed(request.key, cause))

    const build = Effect.map(Entity.CurrentRunnerAddress, ({ host, port }) => {
      const receipt = () =>
        new Receipt({ worker: `${host}:${port}`, concurrency, ...(isLeaving ? { isLeaving: true } : {}) })
      return Slot.of({
        worker: () => Effect.sync(receipt),
        rollout: ({ payload: { request, signature } }) =>
          Effect.gen(function*() {
            yield* authority.check(request.key.run, signedText(request), signature ?? "")
            if (yield* store.has(request.key)) return receipt()
            yield* put(request, yield* played(request))
            return receipt()
          }).pipe((effect) => answered(request, effect)),
        play: ({ payload: { request, signature } }) =>
          Effect.gen(function*() {
            yield* authority.check(request.key.run, signedText(request), signature ?? "")
            const kept = outbox.get(request.key)
            if (kept !== undefined) return new Played({ receipt: receipt(), trajectories: kept })
            // What large results cost is not paid twice.
            if (store.writer === "worker" && (yield* store.has(request.key))) return new Played({ receipt: receipt() })
            const trajectories = yield* played(request)
            const text = store.writer === "trainer" ? codec.encode(trajectories) : undefined
            if (text !== undefined && outbox.add(request, trajectories, text, yield* Clock.currentTimeMillis)) {
              return new Played({ receipt: receipt(), trajectories: text })
            }
            yield* put(request, trajectories)
            return new Played({ receipt: receipt() })
          }).pipe((effect) => answered(request, effect)),
        stored: ({ payload: { kept, known } }) => outbox.stored(kept, known)
      })
    })

    const grace = Duration.toMillis(options.grace ?? Duration.zero)
    /** Ends what runs, and sends away what waits. */
    const drain = Effect.gen(function*() {
      isLeaving = true
      turns.open()
      const until = (yield* Clock.currentTimeMillis) + grace
      while (turns.load().running > 0 && (yield* Clock.currentTimeMillis) < until) yield* Effect.sleep("50 millis")
      yield* outbox.flush
    })

    const gate = yield* entityGate.EntityGate
    const sharding = yield* Sharding.Sharding
    const begin = Effect.suspend(() => {
      gate.isOpen = true
      return sharding.pollStorage
    })

    // Built after the slots, so that it ends before they do.
    return Layer.scopedDiscard(Effect.zipRight(Effect.addFinalizer(() => drain), begin)).pipe(
      Layer.provideMerge(Slot.toLayer(build, { concurrency: "unbounded" }))
    )
  }))
