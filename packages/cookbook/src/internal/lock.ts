/**
 * One writer per run directory. Every opener leaves a claim file before it looks for those of others, so of two that open
 * at the same time at least one sees the other. Any opener removes the claim of a process that is gone. No stale lock is
 * ever taken over, so there is no race to take one over.
 *
 * The embedded backend locks its data directory differently, by one file that is taken over, and has a `Processes` like the
 * one here. The two packages do not depend on each other, and what both depend on runs in browsers, so there is no module
 * to share these lines in.
 */
import type * as PlatformError from "@effect/platform/Error"
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { globalValue } from "effect/GlobalValue"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"

/** What a claim has to know about processes. Where there are none (a browser), every claim is this process's. @internal */
export class Processes extends Context.Reference<Processes>()("@effect-tinker/cookbook/Processes", {
  defaultValue: () => {
    const { process } = globalThis
    return {
      pid: process?.pid ?? 0,
      isRunning: (pid: number): boolean => {
        try {
          return pid === 0 || process?.kill(pid, 0) === true
        } catch (error) {
          // it exists, and belongs to another user
          return Object(error).code === "EPERM"
        }
      }
    }
  }
}) {}

/** The claims of this process: in a container, a process that is started again may well have the id of the one before. */
const own = globalValue("@effect-tinker/cookbook/lock", () => ({ next: 1, held: new Set<string>() }))

const refreshEvery = Duration.seconds(20)
const staleAfter = Duration.toMillis(Duration.minutes(3))
const claimName = /^\.lock-(\d+)-\d+$/

/**
 * Holds a directory until the scope closes, or gives the id of the process that has it.
 *
 * @internal
 */
export const acquire: (
  fs: FileSystem.FileSystem,
  directory: string
) => Effect.Effect<Option.Option<number>, PlatformError.PlatformError, Scope.Scope> = Effect.fnUntraced(
  function*(fs, directory) {
    const { isRunning, pid } = yield* Processes
    const name = `.lock-${pid}-${own.next++}`
    const file = `${directory}/${name}`
    const refresh = Effect.flatMap(Clock.currentTimeMillis, (now) => fs.writeFileString(file, String(now)))

    const isLive = Effect.fnUntraced(function*(other: string, owner: number) {
      if (owner === pid) return own.held.has(`${directory}/${other}`)
      if (!isRunning(owner)) return false
      const seen = yield* Effect.option(fs.readFileString(`${directory}/${other}`))
      // A claim that is gone by now, or is being written, belongs to a process that is there.
      const seenAt = Option.match(seen, { onNone: () => NaN, onSome: (text) => text === "" ? NaN : Number(text) })
      return !((yield* Clock.currentTimeMillis) - seenAt > staleAfter)
    })

    yield* Effect.acquireRelease(
      Effect.zipRight(refresh, Effect.sync(() => own.held.add(file))),
      () =>
        Effect.zipRight(
          Effect.sync(() => own.held.delete(file)),
          Effect.ignore(fs.remove(file))
        )
    )
    for (const other of yield* fs.readDirectory(directory)) {
      const owner = claimName.exec(other)?.[1]
      if (other === name || owner === undefined) continue
      if (yield* isLive(other, Number(owner))) return Option.some(Number(owner))
      yield* Effect.ignore(fs.remove(`${directory}/${other}`))
    }
    yield* Effect.ignore(refresh).pipe(
      Effect.schedule(Schedule.spaced(refreshEvery)),
      Effect.forkScoped
    )
    return Option.none()
  }
)
