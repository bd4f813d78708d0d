/**
 * How long the server let a run's training operations wait, by reason. Operations that wait at the same time for the same
 * reason count once: it is the run that waits.
 */
import * as QueueState from "effect-tinker/QueueState"
import type * as TrainingClient from "effect-tinker/TrainingClient"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as RunEntry from "../RunEntry.js"

/** @internal */
export interface Waits {
  /** Counts what the events of an operation say, until they end. */
  readonly follow: (events: Stream.Stream<QueueState.Event>) => Effect.Effect<void>
  /** Milliseconds by reason since the last call, as timings of a step. */
  readonly take: Effect.Effect<RunEntry.Metrics>
}

/** @internal */
export interface Watched extends TrainingClient.Service {
  readonly waits: Waits
}

const reasonOf = (event: QueueState.Event): string | undefined => {
  if (!QueueState.isPaused(event)) return undefined
  switch (event._tag) {
    case "BillingPaused":
      return "billing"
    case "Retrying":
      return "connection"
    case "Queued":
      return event.state.replace(/^paused_/, "")
  }
}

/** @internal */
export const make = (): Waits => {
  const open = new Map<object, string>()
  let totals: Record<string, number> = {}
  let at = 0

  const settle = (now: number) => {
    for (const reason of new Set(open.values())) {
      const name = `wait/${reason}`
      totals[name] = (totals[name] ?? 0) + now - at
    }
    at = now
  }
  const change = (operation: object, reason: string | undefined) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      settle(now)
      if (reason === undefined) open.delete(operation)
      else open.set(operation, reason)
    })

  return {
    follow: (events) =>
      Effect.suspend(() => {
        const operation = {}
        return Stream.runForEach(events, (event) => change(operation, reasonOf(event))).pipe(
          Effect.ensuring(change(operation, undefined))
        )
      }),
    take: Effect.map(Clock.currentTimeMillis, (now) => {
      settle(now)
      const taken = totals
      totals = {}
      return taken
    })
  }
}

/** The client, with the waits of its passes and steps counted until the scope closes. @internal */
export const watch = (
  client: TrainingClient.Service
): Effect.Effect<Watched, never, Scope.Scope> =>
  Effect.map(Effect.scope, (scope) => {
    const waits = make()
    const watched = <A, E, R>(operation: TrainingClient.Operation<A, E, R>): TrainingClient.Operation<A, E, R> =>
      Effect.tap(operation, (future) => Effect.forkIn(waits.follow(future.events), scope))
    return {
      ...client,
      waits,
      forward: (data, ...rest) => watched(client.forward(data, ...rest)),
      forwardBackward: (data, ...rest) => watched(client.forwardBackward(data, ...rest)),
      forwardBackwardCustom: (data, loss) => watched(client.forwardBackwardCustom(data, loss)),
      optimStep: (params) => watched(client.optimStep(params)),
      trainStep: (data, ...rest) => watched(client.trainStep(data, ...rest))
    }
  })
