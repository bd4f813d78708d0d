/**
 * A worker: a process that runs rollouts for trainers on other machines. It reads which rollout to run from the cluster's
 * storage, samples from the policy that the rollout names, and leaves the trajectory in the {@link TrajectoryStore}.
 *
 * - Rollouts are delivered at least once. One whose trajectory is stored already is not run again.
 * - Workers come and go. What one of them had not finished is delivered to the others.
 * - Credentials for sampling come from the worker's own environment, never through the database.
 * - A rollout is run only if a trainer of a run that the database knows has signed the request: see {@link RunAuthority}.
 *
 * @since 0.1.0
 */
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import type * as Environment from "@effect-tinker/cookbook/Environment"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Rollout from "@effect-tinker/cookbook/Rollout"
import * as ClusterSchema from "@effect/cluster/ClusterSchema"
import * as Entity from "@effect/cluster/Entity"
import type * as Sharding from "@effect/cluster/Sharding"
import * as Rpc from "@effect/rpc/Rpc"
import * as SamplingClient from "effect-tinker/SamplingClient"
import type * as ServiceClient from "effect-tinker/ServiceClient"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Hash from "effect/Hash"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as serverFailure from "./internal/serverFailure.js"
import * as RunAuthority from "./RunAuthority.js"
import * as TrajectoryStore from "./TrajectoryStore.js"

// =============================================================================
// what is asked of a worker
// =============================================================================

/**
 * What a worker can run. A rollout goes to workers that have its label.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Label = Schema.Literal("cpu", "sandbox", "browser", "gpu")

/**
 * What a worker can run.
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
  concurrency: Count
}) {}

/**
 * A place that runs rollouts. A run has a number of them, which the cluster spreads over the workers of a label; the id of
 * a slot is `LABEL/RUN/NUMBER`, and its shard group the label.
 *
 * @since 0.1.0
 * @category models
 */
export const Slot = Entity.make("RolloutSlot", [
  Rpc.make("rollout", {
    payload: {
      request: RolloutRequest,
      /** Of a trainer that has the secret of the cluster. Requests of before there were signatures have none. */
      signature: Schema.optional(Schema.String)
    },
    primaryKey: ({ request }) => request.key.text,
    success: Receipt,
    error: RolloutFailed
  }).annotate(ClusterSchema.Persisted, true),
  /** Who has the slot. Not persisted: an answer is of use only now. */
  Rpc.make("worker", { success: Receipt })
]).annotate(ClusterSchema.ShardGroup, (id) => id.split("/")[0] ?? "cpu")

/** The id of a slot; names of runs that do not fit into a column are hashed. @internal */
export const slotId = (label: Label, run: string, n: number): string =>
  `${label}/${run.length <= 128 ? run : Hash.string(run)}/${n}`

// =============================================================================
// problems
// =============================================================================

/** What a problem is known by in all processes that read the same data. @internal */
export const problemId = ({ row, source }: Dataset.Origin): string => `${source}#${row}`

/** Problems by their ids. The data is read as far as it is asked for, once. */
const makeLookup = Effect.fnUntraced(function*<E, R, ED, RD>(
  problems: Dataset.Dataset<Environment.Group<E, R>, ED, RD>
) {
  const known = new Map<string, Environment.Group<E, R>>()
  const pull = yield* Stream.toPull(Dataset.rows(problems))
  const one = yield* Effect.makeSemaphore(1)
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
 * What a worker runs, and how much at once.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<E, R, ED, RD> {
  /** The problems that the trainer has too. */
  readonly problems: Dataset.Dataset<Environment.Group<E, R>, ED, RD>
  /** What environments are made with, beside the context window of the run. */
  readonly settings: Omit<Environment.Settings, "contextWindow" | "member">
  /** Rollouts at once. Defaults to 8. */
  readonly concurrency?: number | undefined
  /** Hears of each rollout that was run, after its trajectory is stored. */
  readonly onRollout?: ((request: RolloutRequest) => Effect.Effect<void>) | undefined
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
    const permits = yield* Effect.makeSemaphore(concurrency)
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
        isTransient: failure instanceof TrajectoryStore.StoreFailed || serverFailure.isRetryable(failure) ||
          serverFailure.isLost(failure)
      })
    }

    const build = Effect.map(Entity.CurrentRunnerAddress, ({ host, port }) => {
      const receipt = new Receipt({ worker: `${host}:${port}`, concurrency })
      return Slot.of({
        worker: () => Effect.succeed(receipt),
        rollout: ({ payload: { request, signature } }) =>
          Effect.gen(function*() {
            yield* authority.check(request.key.run, signedText(request), signature ?? "")
            if (yield* store.has(request.key)) return receipt
            const trajectories = yield* closed(run(request))
            // Longer than a restart of the database takes: a rollout may have cost minutes.
            const isNew = yield* Effect.retry(
              store.put(request.key, trajectories),
              Schedule.spaced("1 second").pipe(Schedule.upTo("1 minute"))
            )
            if (isNew) yield* options.onRollout?.(request) ?? Effect.void
            return receipt
          }).pipe(
            permits.withPermits(1),
            Effect.catchAllCause((cause) =>
              // A worker that leaves has not failed: the rollout goes to another one.
              Cause.isInterrupted(cause) ? Effect.interrupt : failed(request.key, cause)
            )
          )
      })
    })
    return Slot.toLayer(build, { concurrency: "unbounded" })
  }))
