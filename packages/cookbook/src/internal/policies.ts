/**
 * The versions of a policy that is being trained: rollouts take the newest one, and wait where it is not recent enough.
 */
import type * as TinkerError from "effect-tinker/TinkerError"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as ExecutionStrategy from "effect/ExecutionStrategy"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Dataset from "../Dataset.js"
import type * as Policy from "../Policy.js"
import * as Rollout from "../Rollout.js"

interface Version {
  readonly version: number
  readonly policy: Policy.Policy<TinkerError.TinkerError>
}

/** The newest policy, and a way to wait for one that is recent enough. @internal */
export const make = Effect.fnUntraced(function*(training: TrainingClient.Service, options: {
  readonly sampling: Omit<Policy.SamplerOptions, "version">
  /** Steps in the weights at the start. */
  readonly first: number
  /** Most steps a policy may be behind while rollouts still use it. */
  readonly bound: number
  /** Whether a policy keeps its weights, or goes on with newer ones. */
  readonly sampler: "snapshot" | "inflight"
}) {
  const { bound, first, sampler, sampling } = options
  const owner = yield* Effect.scope
  const runner = yield* Rollout.Runner
  let newest: Version | undefined
  let waiting: Array<{ readonly version: number; readonly ready: Deferred.Deferred<void> }> = []
  let open: Array<{ readonly version: number; readonly scope: Scope.CloseableScope }> = []

  /** The version that is being published: samples may be drawn from it before the server has said that it is there. */
  let coming = first
  const versions = Effect.sync((): Policy.Versions => ({ atLeast: newest?.version ?? first, atMost: coming }))

  const publish = Effect.fnUntraced(function*(version: number) {
    if (newest?.version === version) return
    const scope = yield* Scope.fork(owner, ExecutionStrategy.sequential)
    coming = version
    const publishing = runner.publish(training, {
      ...sampling,
      version,
      ...(sampler === "inflight" ? { sampler, versions } : {})
    })
    newest = { version, policy: yield* Scope.extend(publishing, scope) }
    open.push({ version, scope })
    const ready = waiting.filter((waiter) => waiter.version <= version)
    waiting = waiting.filter((waiter) => waiter.version > version)
    for (const waiter of ready) yield* Deferred.succeed(waiter.ready, void 0)
    // A rollout keeps the policy it began with; by the bound on staleness, none has one of these any more.
    const old = open.filter((other) => other.version < version - bound)
    open = open.filter((other) => other.version >= version - bound)
    for (const other of old) yield* Scope.close(other.scope, Exit.void)
  })

  return {
    publish,
    current: Effect.suspend(() =>
      newest === undefined ? Effect.dieMessage("no policy has been published yet") : Effect.succeed(newest)
    ),
    /** Ends when the newest policy is of this version or a later one. */
    atLeast: (version: number) =>
      Effect.suspend(() => {
        if (version <= first || (newest !== undefined && newest.version >= version)) return Effect.void
        const ready = Deferred.unsafeMake<void>(FiberId.none)
        waiting.push({ version, ready })
        return Deferred.await(ready)
      })
  }
})

/**
 * The items of batches by an Effect, so many at once, across the bounds of batches and in their order: batches come out
 * as they went in.
 *
 * @internal
 */
export const inOrder = <A, B, E, R, E2, R2>(
  batches: Stream.Stream<Dataset.Batch<A>, E, R>,
  first: number,
  concurrency: number,
  f: (item: A, step: number, index: number) => Effect.Effect<B, E2, R2>
): Stream.Stream<Dataset.Batch<B>, E | E2, R | R2> =>
  batches.pipe(
    Stream.mapAccum(first, (step, batch) => [batch.items.length === 0 ? step : step + 1, { batch, step }] as const),
    Stream.mapConcat(({ batch, step }) =>
      batch.items.length === 0
        ? [{ batch, step, index: 0, item: Option.none<A>() }]
        : batch.items.map((item, index) => ({ batch, step, index, item: Option.some(item) }))
    ),
    Stream.mapEffect(({ batch, index, item, step }) =>
      Effect.map(
        Option.match(item, {
          onNone: () => Effect.succeedNone,
          onSome: (value) => Effect.asSome(f(value, step, index))
        }),
        (done) => ({ batch, index, done })
      ), { concurrency }),
    Stream.mapAccum([] as ReadonlyArray<B>, (held, { batch, done, index }) => {
      const items = Option.isSome(done) ? [...held, done.value] : held
      return index + 1 >= batch.items.length
        ? [[], Option.some<Dataset.Batch<B>>({ ...batch, items })] as const
        : [items, Option.none<Dataset.Batch<B>>()] as const
    }),
    Stream.filterMap((batch) => batch)
  )
