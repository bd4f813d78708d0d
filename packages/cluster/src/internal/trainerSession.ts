/**
 * The trainer at work, between two suspensions of a durable run: started when steps are asked for, closed when the run
 * waits. Its journal tells which checkpoint the weights were last saved in.
 */
import * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import type * as RunLog from "@effect-tinker/cookbook/RunLog"
import type * as Trainer from "@effect-tinker/cookbook/Trainer"
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberId from "effect/FiberId"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"

type Evaluation = Omit<RunEntry.Evaluation, "time">

type Target = RunLog.Target<FileSystem.FileSystem>

type Pull<Detail, E> = Effect.Effect<Chunk.Chunk<Trainer.StepReport<Detail>>, Option.Option<E>>

interface Session<Detail, E> {
  readonly scope: Scope.CloseableScope
  readonly pull: Pull<Detail, E>
  readonly log: () => RunLog.RunLog | undefined
  /** The checkpoint the weights were last saved in, or began with. */
  readonly saved: () => RunEntry.Checkpoint | undefined
}

/** @internal */
export interface Options<Detail, E, Context> {
  /** Where the run is recorded. */
  readonly target: Target
  /** Starts the trainer in a scope, one step at a time. */
  readonly start: (log: Target, context: Context, scope: Scope.Scope) => Effect.Effect<Pull<Detail, E>>
  readonly onSteps: (steps: Chunk.Chunk<Trainer.StepReport<Detail>>) => Effect.Effect<unknown>
}

/** @internal */
export interface TrainerSession<E, Context> {
  /** Trains up to the first checkpoint after so many steps. */
  readonly advance: (from: number, context: Context) => Effect.Effect<
    { readonly checkpoint: RunEntry.Checkpoint; readonly complete: boolean },
    E
  >
  /** Records what an activity has measured, while the trainer is at work. */
  readonly record: (evaluation: Evaluation) => Effect.Effect<void, PlatformError.PlatformError>
  /** Measurements of activities, to be recorded by the next session where the journal does not have them. */
  readonly measured: Array<Evaluation>
  /** Lets the trainer save a checkpoint on exit. */
  readonly close: Effect.Effect<void>
  /** Marks the journal as complete. */
  readonly complete: Effect.Effect<void>
}

/** @internal */
export const make = <Detail, E, Context>(options: Options<Detail, E, Context>): TrainerSession<E, Context> => {
  const measured: Array<Evaluation> = []
  let session: Session<Detail, E> | undefined

  const open = Effect.fnUntraced(function*(context: Context) {
    if (session !== undefined) return session
    const scope = yield* Scope.make()
    let log: RunLog.RunLog | undefined
    let saved: RunEntry.Checkpoint | undefined
    const observed: Target = {
      open: Effect.fnUntraced(function*(run) {
        const opened = yield* options.target.open(run)
        // What an activity measured after the checkpoint that is resumed is not measured again.
        const known = Option.match(opened.resumed, { onNone: () => [], onSome: ({ run }) => run.evaluations })
        for (const entry of measured) {
          if (!known.some(({ name, step }) => name === entry.name && step === entry.step)) yield* opened.append(entry)
        }
        saved = Option.getOrUndefined(Option.flatMap(opened.resumed, ({ checkpoint }) => checkpoint))
        log = {
          ...opened,
          append: (entry) =>
            Effect.tap(opened.append(entry), () => {
              if (entry._tag === "Checkpoint") saved = new RunEntry.Checkpoint({ ...entry, time: 0 })
            })
        }
        return log
      })
    }
    const pull = yield* options.start(observed, context, scope)
    session = { scope, pull, log: () => log, saved: () => saved }
    return session
  })

  const take = Effect.sync(() => {
    const taken = session
    session = undefined
    return taken
  })

  return {
    measured,
    advance: Effect.fnUntraced(function*(from, context) {
      const { pull, saved: latest } = yield* open(context)
      for (;;) {
        const next = yield* pull.pipe(
          Effect.map(Option.some),
          Effect.catchAll(Option.match({
            onNone: () => Effect.succeed(Option.none<Chunk.Chunk<Trainer.StepReport<Detail>>>()),
            onSome: Effect.fail
          }))
        )
        if (Option.isSome(next)) yield* options.onSteps(next.value)
        const checkpoint = latest()
        const complete = Option.isNone(next) || checkpoint?.kind === "final"
        if (checkpoint !== undefined && (complete || (checkpoint.step > from && checkpoint.kind !== "exit"))) {
          return { checkpoint, complete }
        }
        if (complete) return yield* Effect.dieMessage("the trainer ended without a checkpoint")
      }
    }),
    record: (entry) =>
      Effect.suspend(() => {
        const log = session?.log()
        return log === undefined ? Effect.void : log.append(entry)
      }),
    close: Effect.flatMap(
      take,
      (open) => open === undefined ? Effect.void : Scope.close(open.scope, Exit.interrupt(FiberId.none))
    ),
    complete: Effect.flatMap(
      take,
      (open) =>
        open === undefined
          ? Effect.void
          : Effect.zipRight(Effect.ignore(open.pull), Scope.close(open.scope, Exit.void))
    )
  }
}
