/**
 * Results that were sent to a trainer, until it says that they are stored. Those it does not speak of, since it has gone or
 * the connection broke, are stored from here.
 */
import type * as Trajectory from "@effect-tinker/cookbook/Trajectory"
import * as Permits from "@effect-tinker/platform/Permits"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type { RolloutRequest } from "../RolloutWorker.js"
import type * as TrajectoryStore from "../TrajectoryStore.js"

/** Longest result that is sent: messages are 4 MiB at most, and other results wait behind it. */
const longest = 1 << 20

/** Most characters of all results that were sent and are not stored. */
const most = 1 << 26

/** After which a trainer is taken to have gone. */
const patience = 30_000

interface Sent {
  readonly request: RolloutRequest
  readonly trajectories: ReadonlyArray<Trajectory.Trajectory>
  readonly text: string
  since: number
}

/** @internal */
export interface Outbox {
  /** Whether there is room for it: what does not fit is to be stored at once. */
  readonly add: (
    request: RolloutRequest,
    trajectories: ReadonlyArray<Trajectory.Trajectory>,
    text: string,
    now: number
  ) => boolean
  /** Text of a rollout that was sent and is not known to be stored. */
  readonly get: (key: TrajectoryStore.RolloutKey) => string | undefined
  /** A trainer has stored some, and found others to be stored already. */
  readonly stored: (kept: ReadonlyArray<string>, known: ReadonlyArray<string>) => Effect.Effect<void>
  /** Stores all of them. */
  readonly flush: Effect.Effect<void>
}

/** @internal */
export const make = Effect.fnUntraced(function*(options: {
  readonly store: TrajectoryStore.TrajectoryStore["Type"]
  /** Hears of each that was stored, once. */
  readonly onStored: (request: RolloutRequest) => Effect.Effect<void>
}): Effect.fn.Return<Outbox, never, Scope.Scope> {
  const sent = new Map<string, Sent>()
  let size = 0

  const take = (key: string): Sent | undefined => {
    const found = sent.get(key)
    if (found === undefined) return undefined
    sent.delete(key)
    size -= found.text.length
    return found
  }

  const one = yield* Permits.make(1)
  const store = (isDue: (entry: Sent, now: number) => boolean) =>
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const due = Array.from(sent.entries()).filter(([, entry]) => isDue(entry, now))
      if (due.length === 0) return
      const stored = yield* options.store.putMany(
        due.map(([, { request, trajectories }]) => ({ key: request.key, trajectories }))
      )
      for (const [index, [key, entry]] of due.entries()) {
        // The trainer may have spoken meanwhile.
        if (take(key) !== undefined && stored[index] === true) yield* options.onStored(entry.request)
      }
    }).pipe(one.withPermits(1))

  yield* store(({ since }, now) => now - since >= patience).pipe(
    Effect.catchAllCause((cause) => Effect.logDebug("results were not stored; it is tried again", cause)),
    Effect.repeat(Schedule.spaced("5 seconds")),
    Effect.forkScoped
  )

  return {
    get: ({ text }) => sent.get(text)?.text,
    add: (request, trajectories, text, now) => {
      if (text.length > longest || size + text.length > most) return false
      take(request.key.text)
      sent.set(request.key.text, { request, trajectories, text, since: now })
      size += text.length
      return true
    },
    stored: (kept, known) =>
      Effect.suspend(() => {
        for (const key of known) take(key)
        return Effect.forEach(kept, (key) => {
          const entry = take(key)
          return entry === undefined ? Effect.void : options.onStored(entry.request)
        }, { discard: true })
      }),
    flush: store(() => true).pipe(
      Effect.retry(Schedule.spaced("500 millis").pipe(Schedule.intersect(Schedule.recurs(10)))),
      Effect.catchAllCause((cause) =>
        Effect.annotateLogs(Effect.logWarning(`${sent.size} results could not be stored`, cause), {
          package: "@effect-tinker/cluster",
          module: "RolloutWorker"
        })
      )
    )
  }
})
