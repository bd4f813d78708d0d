/**
 * Accepted operations of one model whose outcome nobody has observed, so that a failure among them is not lost.
 *
 * Nothing is polled for their sake until a barrier (a save, a sampler, `settle`, closing the scope) needs to know what
 * became of the operations before it, or until more than `backlog` of them are outstanding: then the oldest are settled
 * in the background, which bounds the memory a loop that never awaits can take.
 *
 * A failure is logged when it becomes known, and raised by the next barrier; after that it counts as observed.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerError from "../../TinkerError.js"
import * as Logs from "../observability/logs.js"
import * as Accepted from "../polling/accepted.js"
import { forkQuietly } from "../transport/admission.js"

/** Operations outstanding before the oldest are settled in the background. */
const backlog = 128

/** Polls of one barrier at a time. */
const concurrency = 32

/** Failures kept one by one until a barrier raises them; further ones are counted. */
const mostKept = 16

/** How long closing a scope waits for operations nobody awaited. */
const closeWithin = Duration.seconds(10)

interface Entry {
  readonly operation: string
  readonly seqId: number
  readonly future: Accepted.Accepted<unknown>
  failure: TinkerError.TinkerError | undefined
}

/** @internal */
export interface Unobserved {
  /** Watches an accepted operation until it is observed, ignored or known to have succeeded. */
  readonly track: (operation: string, seqId: number, future: Accepted.Accepted<unknown>) => Effect.Effect<void>
  /** The outcome of an operation has been observed, or is ignored on purpose. */
  readonly observed: (seqId: number) => void
  /** Fails if an unobserved failure is already known; polls nothing. */
  readonly raiseKnown: (barrier: string) => Effect.Effect<void, TinkerError.UnobservedFailure>
  /** Settles every operation before this number, and fails if one failed unobserved. */
  readonly settle: (barrier: string, before?: number) => Effect.Effect<void, TinkerError.TinkerError>
  /** The future of a barrier: its own result, then what became of the operations before it. */
  readonly barrier: <A>(
    barrier: string,
    seqId: number,
    future: Accepted.Accepted<A>
  ) => Accepted.Derived<A>
}

const failureOf = (exit: Exit.Exit<unknown, TinkerError.TinkerError>) =>
  Exit.isSuccess(exit) ? Option.none() : Cause.failureOption(exit.cause)

/** Whether an error is the outcome of an operation, rather than a failure to learn the outcome. */
const isOutcome = (error: TinkerError.TinkerError): boolean => {
  switch (error._tag) {
    case "RequestFailed":
    case "BadRequest":
    case "NotFound":
    case "Unsupported":
    case "Conflict":
    case "MalformedResponse":
      return !TinkerError.isRetryable(error)
    default:
      return false
  }
}

/** @internal */
export const make: (modelId: string) => Effect.Effect<Unobserved, never, Scope.Scope> = Effect.fnUntraced(
  function*(modelId) {
    const scope = yield* Effect.scope
    /** By sequence number, in the order of acceptance. */
    const entries = new Map<number, Entry>()
    let failed = 0
    /** Failures beyond `mostKept`, since the last barrier. */
    let dropped = 0
    let settling = false

    const forget = (seqId: number): void => {
      const entry = entries.get(seqId)
      if (entries.delete(seqId) && entry?.failure !== undefined) failed--
    }

    const warn = ({ operation, seqId }: Entry, what: string) =>
      Effect.logWarning(`${operation} (operation ${seqId} of model ${modelId}) ${what}`).pipe(
        Logs.of("TrainingClient", { modelId, operation, seqId })
      )

    const record = (entry: Entry, error: TinkerError.TinkerError): Effect.Effect<void> => {
      if (entry.failure !== undefined) return Effect.void
      if (failed >= mostKept) {
        forget(entry.seqId)
        dropped++
        return Effect.void
      }
      entry.failure = error
      failed++
      return warn(
        entry,
        `failed and nothing awaited it: ${error.message}\n  ` +
          "The model's next save, sampler or close will fail with this. " +
          "Await each operation with TinkerFuture.await, or opt out with TinkerFuture.ignore."
      )
    }

    /** Fails if the outcome could not be determined; a later attempt may still succeed. */
    const settleOne = (
      entry: Entry,
      result: Effect.Effect<unknown, TinkerError.TinkerError>
    ): Effect.Effect<void, TinkerError.TinkerError> =>
      Effect.flatMap(Effect.exit(result), (exit) => {
        if (entry.future.isObserved || Exit.isSuccess(exit)) return Effect.sync(() => forget(entry.seqId))
        const failure = failureOf(exit)
        if (Option.isNone(failure)) return Effect.failCause(exit.cause)
        const error = failure.value
        if (error._tag === "FutureExpired") {
          forget(entry.seqId)
          return warn(entry, "was never awaited, and the server no longer knows its result")
        }
        return isOutcome(error) ? record(entry, error) : Effect.fail(error)
      })

    const unsettled = (before: number) =>
      Array.from(entries.values()).filter((entry) =>
        entry.seqId < before && entry.failure === undefined && !entry.future.isObserved
      )

    /** Failure of a barrier, and how to mark it as observed once it has reached a caller. */
    const known = (barrier: string, before: number) => {
      const all = Array.from(entries.values()).filter((entry) => entry.seqId < before && entry.failure !== undefined)
      const [first] = all
      if (first === undefined) return undefined
      const others = all.length - 1 + dropped
      return {
        error: new TinkerError.UnobservedFailure({
          module: "TrainingClient",
          method: barrier,
          modelId,
          operation: first.operation,
          seqId: first.seqId,
          others,
          requestId: first.future.requestIds[0],
          description: first.failure?.message,
          cause: first.failure
        }),
        observe: () => {
          all.forEach((entry) => entry.future.observe())
          dropped = 0
        }
      }
    }

    const settleBefore = (before: number) =>
      Effect.suspend(() =>
        Effect.forEach(
          unsettled(before),
          (entry) => settleOne(entry, Accepted.peek(entry.future)),
          { concurrency, discard: true }
        )
      )

    const raise = (barrier: string, before: number) =>
      Effect.suspend(() => {
        const found = known(barrier, before)
        if (found === undefined) return Effect.void
        found.observe()
        return Effect.fail(found.error)
      })

    const settleOldest: Effect.Effect<void, TinkerError.TinkerError> = Effect.suspend(() => {
      const [oldest] = unsettled(Infinity)
      return oldest === undefined || entries.size - failed <= backlog / 2
        ? Effect.void
        : Effect.zipRight(settleOne(oldest, Accepted.peek(oldest.future)), settleOldest)
    })

    const inBackground = Effect.suspend(() => {
      if (settling || entries.size - failed <= backlog) return Effect.void
      settling = true
      return Effect.asVoid(
        forkQuietly(
          // The server cannot be reached: the next operation tries again.
          Effect.ensuring(Effect.ignore(settleOldest), Effect.sync(() => void (settling = false))),
          scope
        )
      )
    })

    /** Outside the scope that closes, and each poll at most once: a service that is gone must not hold up a close. */
    const settleOnClose = Effect.suspend(() =>
      Effect.forEach(
        unsettled(Infinity),
        (entry) => Effect.ignore(settleOne(entry, entry.future.settleDetached())),
        { concurrency, discard: true }
      )
    ).pipe(
      RetryPolicy.provide({ poll: RetryPolicy.never }),
      Effect.interruptible,
      Effect.timeoutOption(closeWithin)
    )

    yield* Effect.addFinalizer((exit) => {
      if (entries.size === 0 || !Exit.isSuccess(exit)) return Effect.void
      return Effect.zipRight(
        settleOnClose,
        Effect.suspend(() => {
          const pending = unsettled(Infinity)
          const [first] = pending
          const found = known("close", Infinity)
          const unknown = first === undefined
            ? Effect.void
            : warn(
              first,
              `${pending.length === 1 ? "was" : `and ${pending.length - 1} more were`} not awaited before the scope ` +
                "closed: the outcome is unknown"
            )
          // A finalizer has no error channel: a defect is the only way to fail the scoped effect.
          return Effect.zipRight(unknown, found === undefined ? Effect.void : Effect.die(found.error))
        })
      )
    })

    return {
      track: (operation, seqId, future) => {
        entries.set(seqId, { operation, seqId, future, failure: undefined })
        return inBackground
      },
      observed: forget,
      raiseKnown: (barrier) => raise(barrier, Infinity),
      settle: (barrier, before = Infinity) => Effect.zipRight(settleBefore(before), raise(barrier, before)),
      barrier: (barrier, seqId, future) => {
        let found: ReturnType<typeof known>
        const earlier = Effect.suspend(() => {
          if (found !== undefined) return Effect.fail(found.error)
          return Effect.zipRight(
            settleBefore(seqId),
            Effect.suspend(() => {
              found = known(barrier, seqId)
              return found === undefined ? Effect.void : Effect.fail(found.error)
            })
          )
        })
        return new Accepted.Derived({
          effect: Effect.zipLeft(future, earlier),
          sources: [future],
          onObserved: () => found?.observe()
        })
      }
    }
  }
)
