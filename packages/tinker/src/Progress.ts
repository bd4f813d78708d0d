/**
 * How a training loop gets on, for those who watch: steps, metrics, tokens per second, what it waits for, time left.
 *
 * The loop tells; any number of readers look. A reader that is slow misses snapshots and holds nothing up.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Latest from "./internal/latest.js"
import * as QueueState from "./QueueState.js"
import * as TinkerError from "./TinkerError.js"
import type * as TinkerFuture from "./TinkerFuture.js"

/**
 * Numbers of one step by name: `loss`, `reward`, whatever is worth watching.
 *
 * @since 0.1.0
 * @category models
 */
export type Metrics = Readonly<Record<string, number>>

/**
 * Where a loop stands.
 *
 * @since 0.1.0
 * @category models
 */
export interface Snapshot {
  /** Steps that are done, those before this loop included. */
  readonly step: number
  readonly totalSteps: number | undefined
  /** Those of the last step. */
  readonly metrics: Metrics
  /** Tokens of all steps of this loop. */
  readonly tokens: number
  /** Over the last steps. Absent until tokens were counted and time has passed. */
  readonly tokensPerSecond: number | undefined
  /** Mean of the last steps. */
  readonly stepTime: Duration.Duration | undefined
  /** Since the loop began. */
  readonly elapsed: Duration.Duration
  /** Time left, where the number of steps is known. */
  readonly eta: Duration.Duration | undefined
  /** What holds the loop up at the moment. */
  readonly waiting: QueueState.Event | undefined
}

/**
 * One loop, told step by step.
 *
 * @since 0.1.0
 * @category models
 */
export interface Progress {
  /** A step is done. Yields what readers see, for a log of one's own. */
  readonly step: (metrics?: Metrics, options?: {
    /** Tokens it took; anything but a positive number counts as none. */
    readonly tokens?: number | undefined
  }) => Effect.Effect<Snapshot>
  /** Awaits a result, and shows meanwhile what it waits for. */
  readonly await: <A>(future: TinkerFuture.TinkerFuture<A>) => Effect.Effect<A, TinkerError.TinkerError>
  /** Shows what the events of a sampler say, until the scope closes. */
  readonly follow: (events: Stream.Stream<QueueState.Event>) => Effect.Effect<void, never, Scope.Scope>
  readonly current: Effect.Effect<Snapshot>
  /** The current snapshot, then each as it comes, until the loop has ended. */
  readonly changes: Stream.Stream<Snapshot>
  /** Ends the loop: waits until `render` has shown the last snapshot. Closing the scope does it too. */
  readonly end: Effect.Effect<void>
}

/**
 * How far the loop goes, and who looks.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Steps to do, those before this loop included. Without it there is no time left to tell. */
  readonly totalSteps?: number | undefined
  /** Steps done before, by the run this one resumes. Defaults to 0. */
  readonly startStep?: number | undefined
  /** Shows a snapshot. It runs beside the loop, and what it does wrong stays there. */
  readonly render?: ((snapshot: Snapshot) => Effect.Effect<void>) | undefined
  /** Time after which a snapshot comes though nothing has happened, so that clocks on a screen run. Defaults to never. */
  readonly every?: Duration.DurationInput | undefined
}

/** Steps that rates are averaged over. */
const window = 20

/** A screen that no longer takes anything does not keep the program. */
const patience = Duration.seconds(2)

const isCount = (n: number) => Number.isInteger(n) && n >= 0

/**
 * Watches one loop, from now on.
 *
 * @since 0.1.0
 * @category constructors
 */
export const make: (options?: Options) => Effect.Effect<Progress, TinkerError.InvalidInput, Scope.Scope> = Effect
  .fnUntraced(function*(options = {}) {
    const { render, startStep = 0, totalSteps } = options
    if (!isCount(startStep) || (totalSteps !== undefined && !isCount(totalSteps))) {
      return yield* new TinkerError.InvalidInput({
        module: "Progress",
        method: "make",
        description: `steps are counted in whole numbers, not ${isCount(startStep) ? totalSteps : startStep}`
      })
    }
    const started = yield* Clock.currentTimeMillis
    const readers = Latest.make<Snapshot>()
    const marks: Array<{ readonly at: number; readonly tokens: number }> = [{ at: started, tokens: 0 }]
    const held = new Map<object, QueueState.Event>()
    let step = startStep
    let tokens = 0
    let metrics: Metrics = {}

    const look = (now: number): Snapshot => {
      const first = marks[0]?.at ?? started
      const last = marks[marks.length - 1]?.at ?? started
      const span = last - first
      const recent = marks.slice(1).reduce((sum, mark) => sum + mark.tokens, 0)
      const stepTime = marks.length > 1 ? span / (marks.length - 1) : undefined
      return {
        step,
        totalSteps,
        metrics,
        tokens,
        tokensPerSecond: recent > 0 && span > 0 ? recent / span * 1000 : undefined,
        stepTime: stepTime === undefined ? undefined : Duration.millis(stepTime),
        elapsed: Duration.millis(now - started),
        eta: stepTime === undefined || totalSteps === undefined
          ? undefined
          // The step under way has taken a part of its time.
          : Duration.millis(Math.max(0, Math.max(0, totalSteps - step) * stepTime - (now - last))),
        waiting: Array.from(held.values()).pop()
      }
    }

    const current = Effect.map(Clock.currentTimeMillis, look)
    const tell = Effect.tap(current, (snapshot) => Effect.sync(() => readers.push(snapshot)))

    const note = (key: object) => (event: QueueState.Event) =>
      Effect.suspend(() => {
        const had = held.delete(key)
        if (QueueState.isPaused(event)) held.set(key, event)
        else if (!had) return Effect.void
        return Effect.asVoid(tell)
      })

    const clear = (key: object) => Effect.suspend(() => held.delete(key) ? Effect.asVoid(tell) : Effect.void)

    const changes = readers.stream(current)
    const drawing = render === undefined ? undefined : yield* Effect.forkScoped(
      Stream.runForEach(changes, (snapshot) => Effect.catchAllCause(render(snapshot), Effect.logDebug))
    )
    if (options.every !== undefined) yield* Effect.forkScoped(Effect.forever(Effect.delay(tell, options.every)))

    const end = Effect.suspend(() => {
      readers.end()
      return drawing === undefined
        ? Effect.void
        : Effect.asVoid(Effect.timeoutOption(Effect.interruptible(Fiber.await(drawing)), patience))
    })
    yield* Effect.addFinalizer(() => end)

    return {
      step: (given = {}, counted) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          const more = counted?.tokens !== undefined && counted.tokens > 0 ? counted.tokens : 0
          step++
          tokens += more
          metrics = given
          held.clear()
          marks.push({ at: now, tokens: more })
          if (marks.length > window + 1) marks.shift()
          return tell
        }),
      await: (future) =>
        Effect.suspend(() => {
          const key = {}
          return Effect.scopedWith((scope) =>
            Effect.zipRight(Effect.forkIn(Stream.runForEach(future.events, note(key)), scope), future)
          ).pipe(Effect.ensuring(clear(key)))
        }),
      follow: (events) => Effect.asVoid(Effect.forkScoped(Stream.runForEach(events, note({})))),
      current,
      changes,
      end
    }
  })

const amount = (n: number): string =>
  n >= 1e6 ? `${(n / 1e6).toFixed(1)}M` : n >= 1e4 ? `${(n / 1e3).toFixed(1)}k` : n.toFixed(n >= 100 ? 0 : 1)

const number = (n: number): string => Number.isInteger(n) ? String(n) : Number(n.toPrecision(3)).toString()

const clock = (duration: Duration.Duration): string =>
  Duration.format(Duration.seconds(Math.ceil(Duration.toSeconds(duration))))

/**
 * What comes beside a bar: metrics, speed, time left, and what is waited for.
 *
 * @since 0.1.0
 * @category combinators
 */
export const note = (snapshot: Snapshot): string => {
  const parts = Object.entries(snapshot.metrics).map(([name, value]) => `${name} ${number(value)}`)
  if (snapshot.tokensPerSecond !== undefined) parts.push(`${amount(snapshot.tokensPerSecond)} tokens/s`)
  if (snapshot.eta !== undefined && snapshot.step !== snapshot.totalSteps) parts.push(`${clock(snapshot.eta)} left`)
  if (snapshot.waiting !== undefined) parts.push(`waiting: ${QueueState.reason(snapshot.waiting)}`)
  return parts.join(", ")
}

/**
 * One line for people.
 *
 * @since 0.1.0
 * @category combinators
 */
export const describe = (snapshot: Snapshot): string => {
  const of = snapshot.totalSteps === undefined ? "" : `/${snapshot.totalSteps}`
  const text = note(snapshot)
  return `step ${snapshot.step}${of}${text === "" ? "" : `: ${text}`}`
}
