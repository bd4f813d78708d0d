/**
 * Attempts of this process at the segments of a run: the trainer at work until its next checkpoint, a failure, or a signal
 * to end before.
 */
import type * as PlatformError from "@effect/platform/Error"
import * as WorkflowEngine from "@effect/workflow/WorkflowEngine"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import type * as Schedule from "effect/Schedule"
import type { Grading } from "../grading.js"
import type { TrainerSession } from "../trainerSession.js"
import type { Event, Segment, Signal } from "./segment.js"
import { annotated, firstLine } from "./segment.js"
import type { StatusFile } from "./status.js"

type Instance = WorkflowEngine.WorkflowInstance["Type"]

/** @internal */
export interface Options<E> {
  readonly run: string
  readonly session: TrainerSession<E, Instance>
  readonly grading: Pick<Grading, "leave">
  readonly status: StatusFile
  readonly events: Queue.Enqueue<Event>
  /** Failures after which the trainer goes on from the latest checkpoint at once. */
  readonly retry: Schedule.Schedule<unknown, E | PlatformError.PlatformError>
  readonly wait: ((at: { readonly now: number; readonly step: number }) => Duration.DurationInput) | undefined
  readonly waitAfter: ((error: E | PlatformError.PlatformError) => Option.Option<Duration.DurationInput>) | undefined
}

/** @internal */
export interface Attempts<out E> {
  /** Trains up to the next checkpoint. */
  readonly attempt: (n: number, from: number) => Effect.Effect<Segment, never, WorkflowEngine.WorkflowInstance>
  /** Ends the segment at work, if one is. */
  readonly signal: (signal: Signal) => Effect.Effect<void>
  /** Attempts nothing more: the next segment is suspended at once. */
  readonly stop: Effect.Effect<void>
  readonly isStopping: () => boolean
  /** Whether this process attempted a segment; the others are told from the rows of an earlier one. */
  readonly has: (n: number) => boolean
  /** Failure of a segment in this process. */
  readonly failure: (n: number) => Option.Option<Cause.Cause<E>>
  /** Closes the trainer, which saves. */
  readonly close: Effect.Effect<void>
}

/** @internal */
export const make = <E>(options: Options<E>): Attempts<E> => {
  const { events, session, status } = options
  const failures = new Map<number, Cause.Cause<E>>()
  const attempted = new Set<number>()
  let current = Option.none<Deferred.Deferred<Signal>>()
  let stopping = false

  const close = Effect.zipRight(Effect.sync(options.grading.leave), session.close)

  const advance = (from: number, instance: Instance) =>
    session.advance(from, instance).pipe(
      Effect.tapErrorCause((cause) =>
        Cause.isInterruptedOnly(cause)
          ? Effect.void
          : Effect.zipRight(annotated(options.run)(Effect.logDebug("a segment failed", cause)), close)
      ),
      Effect.retry(options.retry),
      Effect.map(({ checkpoint: { name, position, samplerPath, statePath, step }, complete }): Segment => ({
        _tag: "Advanced",
        checkpoint: { name, position, samplerPath, statePath, step },
        complete
      }))
    )

  /** A failure as the segment's outcome: a wait, or a suspension that a person ends. */
  const failed = (n: number, cause: Cause.Cause<E>): Segment => {
    const passing = Option.flatMap(
      Cause.failureOption(cause),
      (error) => options.waitAfter?.(error) ?? Option.none()
    )
    if (Option.isSome(passing)) return { _tag: "Waiting", millis: Duration.toMillis(passing.value) }
    failures.set(n, cause)
    return { _tag: "Suspended", reason: "failed", message: firstLine(cause) }
  }

  return {
    attempt: Effect.fnUntraced(function*(n, from) {
      attempted.add(n)
      const instance = yield* WorkflowEngine.WorkflowInstance
      const signal = Deferred.unsafeMake<Signal>(FiberId.none)
      current = Option.some(signal)
      yield* Queue.offer(events, { _tag: "Segment", n })
      if (stopping) return { _tag: "Suspended", reason: "stopped" }
      const now = yield* Clock.currentTimeMillis
      const millis = Duration.toMillis(options.wait?.({ now, step: from }) ?? Duration.zero)
      if (millis > 0) {
        yield* close
        return { _tag: "Waiting", millis }
      }
      yield* status.set("running", from)
      const exit = yield* Effect.exit(Effect.raceFirst(advance(from, instance), Deferred.await(signal)))
      if (Exit.isSuccess(exit)) {
        if (exit.value._tag !== "Advanced") yield* close
        return exit.value
      }
      yield* close
      // The engine shuts down: the activity is repeated by the next process.
      if (Cause.isInterruptedOnly(exit.cause)) return yield* Effect.interrupt
      return failed(n, exit.cause)
    }),
    signal: (signal) =>
      Option.match(current, {
        onNone: () => Effect.void,
        onSome: (deferred) => Effect.asVoid(Deferred.succeed(deferred, signal))
      }),
    stop: Effect.sync(() => {
      stopping = true
    }),
    isStopping: () => stopping,
    has: (n) => attempted.has(n),
    failure: (n) => Option.fromNullable(failures.get(n)),
    close
  }
}
