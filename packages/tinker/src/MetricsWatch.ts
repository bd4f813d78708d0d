/**
 * A run watched from outside, by the log it writes (`MetricsLog`): where it stands, live, until it ends.
 *
 * The file is looked at again and again, which works on every file system. It need not be there yet; a last line that is
 * not whole is left until it is; a file that was written anew is read anew.
 *
 * @since 0.1.0
 */
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as MetricsTail from "./internal/metricsTail.js"
import * as Pace from "./internal/pace.js"
import type * as MetricsLog from "./MetricsLog.js"
import type * as Progress from "./Progress.js"

/**
 * What there is to see of a log.
 *
 * - `Missing`: there is no such file; we wait for it.
 * - `Restarted`: the file was written anew, or cut; what was read of it before no longer counts.
 * - `CaughtUp`: everything there is has been read, but for a `torn` last line.
 *
 * @since 0.1.0
 * @category models
 */
export type Event =
  | MetricsLog.Line
  | { readonly _tag: "Missing" }
  | { readonly _tag: "Restarted" }
  | { readonly _tag: "CaughtUp"; readonly torn: MetricsLog.TornLine | undefined }

/**
 * Where a run stood when a line was written, or stands now.
 *
 * @since 0.1.0
 * @category models
 */
export interface Standing extends Progress.Standing {
  /** Milliseconds since 1970 of what is told, as far as the log has times. */
  readonly time: number
  readonly ended: MetricsLog.Outcome | undefined
}

/**
 * The lines of a log as they are written, until a run's end is the last of them.
 *
 * @since 0.1.0
 * @category constructors
 */
export const events: (path: string, options?: {
  /** How often to look. Defaults to 250 milliseconds. */
  readonly every?: Duration.DurationInput | undefined
  /** Ends when all there is has been read; a file that is not there is a failure then. Defaults to false. */
  readonly once?: boolean | undefined
}) => Stream.Stream<Event, MetricsLog.MalformedLine | PlatformError.PlatformError, FileSystem.FileSystem> = (
  path,
  { every = "250 millis", once = false } = {}
) => MetricsTail.events(path, { every, once })

/** The run a log tells of, line by line. */
const makeRun = (totalSteps: number | undefined) => {
  let pace = Pace.make()
  let started: number | undefined
  let entry: MetricsLog.Entry | undefined
  let total = totalSteps
  let reason: string | undefined
  let ended: MetricsLog.Outcome | undefined
  let live = false

  const begin = () => {
    pace = Pace.make()
    started = undefined
    entry = undefined
    reason = undefined
    ended = undefined
  }

  const at = (time: number): Standing => {
    const { tokens_per_second: tokensPerSecond, ...metrics } = entry?.metrics ?? {}
    return {
      step: entry?.step ?? 0,
      totalSteps: total,
      metrics,
      ...pace.read(time, total),
      ...(ended === undefined ? {} : { eta: undefined, sinceStep: undefined }),
      tokensPerSecond,
      elapsed: Duration.millis(Math.max(0, time - (started ?? time))),
      reason,
      time,
      ended
    }
  }

  const step = (next: MetricsLog.Entry, now: number): Standing => {
    if (ended !== undefined || (entry !== undefined && next.step < entry.step)) begin()
    total = totalSteps ?? next.totalSteps ?? total
    reason = undefined
    // Lines that were there before we looked may have no times: then nothing is known of their pace.
    const time = next.time ?? (live ? now : undefined)
    if (entry?.step === next.step) entry = { ...next, metrics: { ...entry.metrics, ...next.metrics } }
    else {
      entry = next
      if (time !== undefined) pace.mark({ at: time, step: next.step })
    }
    if (time !== undefined) started ??= time
    return at(time ?? now)
  }

  return {
    /** Where it stands now, once there is something to say. */
    tick: (now: number): Option.Option<Standing> =>
      entry === undefined && reason === undefined ? Option.none() : Option.some(at(now)),
    tell: (event: Event, now: number): Option.Option<Standing> => {
      switch (event._tag) {
        case "Step":
          return Option.some(step(event.entry, now))
        case "Waiting":
          if (ended !== undefined) begin()
          reason = event.reason
          return Option.some(at(event.time ?? now))
        case "Ended":
          reason = undefined
          ended = event.outcome
          return Option.some(at(event.time ?? now))
        case "Restarted":
          begin()
          total = totalSteps
          return Option.none()
        case "CaughtUp":
          live = true
          return Option.none()
        case "Missing":
          return Option.none()
      }
    }
  }
}

/**
 * What the events of a log say: where the run stood at each of its lines and, with `every`, stands in between.
 *
 * @since 0.1.0
 * @category combinators
 */
export const standings = (options?: {
  /** Steps to do. Defaults to what the log says. */
  readonly totalSteps?: number | undefined
  /** Time after which a standing comes though nothing has happened, so that clocks on a screen run. Defaults to never. */
  readonly every?: Duration.DurationInput | undefined
}) =>
<E, R>(events: Stream.Stream<Event, E, R>): Stream.Stream<Standing, E, R> =>
  Stream.suspend(() => {
    const run = makeRun(options?.totalSteps)
    const told = Stream.mapEffect(events, (event) => Effect.map(Clock.currentTimeMillis, (now) => run.tell(event, now)))
    if (options?.every === undefined) return Stream.filterMap(told, (standing) => standing)
    const ticks = Stream.mapEffect(
      Stream.fromSchedule(Schedule.spaced(options.every)),
      () => Effect.map(Clock.currentTimeMillis, run.tick)
    )
    return Stream.filterMap(Stream.merge(told, ticks, { haltStrategy: "left" }), (standing) => standing)
  })

/**
 * Where the run of a log stands, live: `standings` of `events`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const watch = (
  path: string,
  options?: { readonly totalSteps?: number | undefined; readonly every?: Duration.DurationInput | undefined }
): Stream.Stream<Standing, MetricsLog.MalformedLine | PlatformError.PlatformError, FileSystem.FileSystem> =>
  standings(options)(events(path))
