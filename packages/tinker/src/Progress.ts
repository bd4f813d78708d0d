/**
 * The progress of a training loop, for observers: steps, metrics, tokens per second, what it waits for, time left.
 *
 * The loop reports; any number of readers subscribe. A slow reader misses snapshots and blocks nothing.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Logs from "./internal/observability/logs.js"
import * as Observer from "./internal/observability/observer.js"
import * as QueueState from "./QueueState.js"
import * as TinkerError from "./TinkerError.js"
import type * as TinkerFuture from "./TinkerFuture.js"

// -----------------------------------------------------------------------------
// The speed of steps, and the estimated time left.
// -----------------------------------------------------------------------------

/** Steps that rates are averaged over. */
const window = 20

/**
 * Speed, and time left, as of a moment.
 *
 * @since 0.1.0
 * @category models
 */
export interface PaceReading {
  readonly tokensPerSecond: number | undefined
  readonly stepTime: Duration.Duration | undefined
  readonly eta: Duration.Duration | undefined
  readonly sinceStep: Duration.Duration | undefined
}

/**
 * How fast steps follow each other: a mark for each step, and readings of rate and time left.
 *
 * @since 0.1.0
 * @category models
 */
export interface Pace {
  /** A step has ended. */
  readonly mark: (mark: { readonly at: number; readonly step: number; readonly tokens?: number | undefined }) => void
  readonly read: (now: number, totalSteps: number | undefined) => PaceReading
}

/**
 * The pace of steps outside a `Progress`, such as those of a log. `start` is the moment before the first step.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makePace = (start?: { readonly at: number; readonly step: number }): Pace => {
  const marks: Array<{ readonly at: number; readonly step: number; readonly tokens: number }> = []
  if (start !== undefined) marks.push({ ...start, tokens: 0 })
  let stepped: number | undefined
  return {
    mark: ({ at, step, tokens = 0 }) => {
      stepped = at
      marks.push({ at, step, tokens })
      if (marks.length > window + 1) marks.shift()
    },
    read: (now, totalSteps) => {
      const [first, last] = [marks[0], marks[marks.length - 1]]
      const sinceStep = stepped === undefined ? undefined : Duration.millis(Math.max(0, now - stepped))
      if (first === undefined || last === undefined || last.step <= first.step || last.at <= first.at) {
        return { tokensPerSecond: undefined, stepTime: undefined, eta: undefined, sinceStep }
      }
      const span = last.at - first.at
      const tokens = marks.slice(1).reduce((sum, mark) => sum + mark.tokens, 0)
      const stepTime = span / (last.step - first.step)
      const steps = totalSteps === undefined ? undefined : Math.max(0, totalSteps - last.step)
      return {
        tokensPerSecond: tokens > 0 ? tokens / span * 1000 : undefined,
        stepTime: Duration.millis(stepTime),
        // The current step has taken a part of its time, and of the next ones' nothing, however long it takes.
        eta: steps === undefined
          ? undefined
          : Duration.millis(steps * stepTime - Math.min(Math.max(0, now - last.at), steps === 0 ? 0 : stepTime)),
        sinceStep
      }
    }
  }
}

// -----------------------------------------------------------------------------
// Progress of a loop.
// -----------------------------------------------------------------------------

/**
 * Numbers of one step by name: `loss`, `reward`, whatever is worth watching.
 *
 * @since 0.1.0
 * @category models
 */
export type Metrics = Readonly<Record<string, number>>

/**
 * Where a loop stands, as known here or to a reader of its log (`MetricsWatch`).
 *
 * @since 0.1.0
 * @category models
 */
export interface Standing {
  /** Steps that are done, those before this loop included. */
  readonly step: number
  readonly totalSteps: number | undefined
  /** Those of the last step. */
  readonly metrics: Metrics
  /** Over the last steps. Absent until tokens were counted and time has passed. */
  readonly tokensPerSecond: number | undefined
  /** Mean of the last steps. */
  readonly stepTime: Duration.Duration | undefined
  /** Since the loop began. */
  readonly elapsed: Duration.Duration
  /** Since the last step, where there was one. */
  readonly sinceStep: Duration.Duration | undefined
  /** Time left, where the number of steps is known. */
  readonly eta: Duration.Duration | undefined
  /** Why nothing moves at the moment, in a few words. */
  readonly reason: string | undefined
}

/**
 * Where a loop of this process stands.
 *
 * @since 0.1.0
 * @category models
 */
export interface Snapshot extends Standing {
  /** Tokens of all steps of this loop. */
  readonly tokens: number
  /** The current reason for which the loop waits. */
  readonly waiting: QueueState.Event | undefined
}

/**
 * Reports the progress of one loop, step by step.
 *
 * @since 0.1.0
 * @category models
 */
export interface Progress {
  /** A step is done. Yields the snapshot that readers see, for a custom log. */
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
  /** Shows a snapshot. It runs concurrently with the loop, and its failures do not affect it. */
  readonly render?: ((snapshot: Snapshot) => Effect.Effect<void>) | undefined
  /** Time after which a snapshot comes though nothing has happened, so that clocks on a screen run. Defaults to never. */
  readonly every?: Duration.DurationInput | undefined
}

/** A terminal that no longer accepts output must not keep the program alive. */
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
        description: `steps must be non-negative integers, not ${isCount(startStep) ? totalSteps : startStep}`
      })
    }
    const started = yield* Clock.currentTimeMillis
    const readers = Observer.makeLatest<Snapshot>()
    const pace = makePace({ at: started, step: startStep })
    const held = new Map<object, QueueState.Event>()
    let step = startStep
    let tokens = 0
    let metrics: Metrics = {}

    const look = (now: number): Snapshot => {
      const waiting = Array.from(held.values()).pop()
      return {
        step,
        totalSteps,
        metrics,
        tokens,
        ...pace.read(now, totalSteps),
        elapsed: Duration.millis(now - started),
        waiting,
        reason: waiting === undefined ? undefined : QueueState.reason(waiting)
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
      Stream.runForEach(
        changes,
        (snapshot) => Effect.catchAllCause(render(snapshot), (cause) => Logs.of("Progress")(Effect.logDebug(cause)))
      )
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
          pace.mark({ at: now, step, tokens: more })
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

const clock = (duration: Duration.Duration): string => {
  const seconds = Math.ceil(Duration.toSeconds(duration))
  return seconds === 0 ? "0s" : Duration.format(Duration.seconds(seconds))
}

/** A step this many times slower than the others, and at least this long, is reported. */
const slow = 3
const noticeable = Duration.seconds(10)

const overdue = ({ sinceStep, stepTime }: Standing): boolean =>
  sinceStep !== undefined && Duration.greaterThan(sinceStep, noticeable) &&
  (stepTime === undefined || Duration.greaterThan(sinceStep, Duration.times(stepTime, slow)))

/**
 * Text next to a bar: metrics, speed, time left, and what the loop waits for.
 *
 * @since 0.1.0
 * @category combinators
 */
export const note = (standing: Standing): string => {
  const parts = Object.entries(standing.metrics).map(([name, value]) => `${name} ${number(value)}`)
  const done = standing.step === standing.totalSteps
  if (standing.tokensPerSecond !== undefined) parts.push(`${amount(standing.tokensPerSecond)} tokens/s`)
  if (standing.eta !== undefined && !done) parts.push(`${clock(standing.eta)} left`)
  if (standing.reason !== undefined) parts.push(`waiting: ${standing.reason}`)
  else if (!done && standing.sinceStep !== undefined && overdue(standing)) {
    parts.push(`last step ${clock(standing.sinceStep)} ago`)
  }
  return parts.join(", ")
}

/**
 * One line for people.
 *
 * @since 0.1.0
 * @category combinators
 */
export const describe = (standing: Standing): string => {
  const of = standing.totalSteps === undefined ? "" : `/${standing.totalSteps}`
  const text = note(standing)
  return `step ${standing.step}${of}${text === "" ? "" : `: ${text}`}`
}

const blocks = "▁▂▃▄▅▆▇█"

/**
 * A curve of one line, `█▆▄▃▂▁`: numbers from left to right between the lowest and the highest, neighbours averaged
 * where there are more than `width`. What is no finite number is left out.
 *
 * @since 0.1.0
 * @category combinators
 */
export const sparkline = (values: ReadonlyArray<number>, width = 20): string => {
  const finite = values.filter(Number.isFinite)
  const columns = finite.length <= width ? finite : Array.from({ length: width }, (_, column) => {
    const run = finite.slice(
      Math.floor(column * finite.length / width),
      Math.floor((column + 1) * finite.length / width)
    )
    return run.reduce((sum, value) => sum + value, 0) / run.length
  })
  const low = columns.reduce((a, b) => Math.min(a, b), Infinity)
  const high = columns.reduce((a, b) => Math.max(a, b), -Infinity)
  const share = (value: number) => high > low ? (value - low) / (high - low) : 0
  return columns.map((value) => blocks[Math.round(share(value) * (blocks.length - 1))]).join("")
}
