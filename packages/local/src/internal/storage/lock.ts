/**
 * One owner per data directory: a lock file names the process that has it. A lock whose process is gone is taken over;
 * so is one that has not been refreshed for minutes, which covers another machine that crashed and a process id that was
 * used again.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type { StorageFailed } from "../../Storage.js"
import { Entropy, hex } from "../entropy.js"

/** What the lock has to know about processes. Where there are none (a browser), every process is this one. @internal */
export class Processes extends Context.Reference<Processes>()("@effect-tinker/local/Processes", {
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

const Owner = Schema.parseJson(Schema.Struct({
  pid: Schema.Int,
  nonce: Schema.String,
  /** When the owner last said it was there, in milliseconds. */
  seenAt: Schema.Number
}))

type Owner = typeof Owner.Type

const decode = ParseResult.decodeUnknownOption(Owner)
const encode = ParseResult.encodeSync(Owner)

const refreshEvery = Duration.seconds(20)
const staleAfter = Duration.minutes(3)

/** @internal */
export const lockFile = ".lock"

/** @internal */
export interface Lock {
  /** Fails when another process has taken the directory over. */
  readonly check: Effect.Effect<void, StorageFailed>
}

/** @internal */
export const acquireLock = Effect.fnUntraced(function*(options: {
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
  readonly root: string
  readonly failed: (operation: string, path: string) => (cause: unknown) => StorageFailed
}) {
  const { failed, fs, path, root } = options
  const { isRunning, pid } = yield* Processes
  const { bytes } = yield* Entropy
  const nonce = hex(yield* bytes(8))
  const file = path.join(root, lockFile)
  const own = Effect.map(Clock.currentTimeMillis, (seenAt) => encode({ pid, nonce, seenAt }))
  const fail = (why: string) => failed("open", root)(new Error(why))

  const readOwner = (name: string): Effect.Effect<Option.Option<Owner>> =>
    Effect.map(Effect.option(fs.readFileString(name)), Option.flatMap(decode))

  /** Creates a file with the owner in it, in one step; false when it exists. */
  const claim = (name: string): Effect.Effect<boolean, StorageFailed> => {
    const fresh = `${file}-${nonce}`
    return Effect.gen(function*() {
      yield* fs.writeFileString(fresh, yield* own, { mode: 0o600 })
      return yield* fs.link(fresh, name).pipe(
        Effect.as(true),
        Effect.catchIf(
          (error) => error._tag === "SystemError" && error.reason === "AlreadyExists",
          () => Effect.succeed(false)
        )
      )
    }).pipe(
      Effect.ensuring(Effect.ignore(fs.remove(fresh))),
      Effect.mapError(failed("lock", root))
    )
  }

  const isStale = (owner: Option.Option<Owner>) =>
    Effect.map(Clock.currentTimeMillis, (now) =>
      Option.match(owner, {
        onNone: () => true,
        onSome: ({ pid, seenAt }) => !isRunning(pid) || now - seenAt > Duration.toMillis(staleAfter)
      }))

  const nonceOf = (owner: Option.Option<Owner>): string =>
    Option.match(owner, { onNone: () => "damaged", onSome: ({ nonce }) => nonce })

  /** Replaces a stale lock. Only one process can claim the right to replace this very lock. */
  const replace = Effect.fnUntraced(function*(stale: Option.Option<Owner>) {
    const right = `${file}-of-${nonceOf(stale)}`
    if (!(yield* claim(right))) {
      const other = yield* readOwner(right)
      if (Option.isSome(other) && (yield* isStale(other))) yield* Effect.ignore(fs.remove(right))
      return
    }
    const same = nonceOf(yield* readOwner(file)) === nonceOf(stale)
    yield* (same ? Effect.ignore(fs.remove(file)) : Effect.void).pipe(
      Effect.ensuring(Effect.ignore(fs.remove(right)))
    )
  })

  const acquire: Effect.Effect<void, StorageFailed> = Effect.gen(function*() {
    for (let attempt = 0; attempt < 10; attempt++) {
      if (yield* claim(file)) return
      const owner = yield* readOwner(file)
      if (Option.isSome(owner) && !(yield* isStale(owner))) {
        return yield* fail(
          `process ${owner.value.pid} is using it; stop that process, talk to its server, or choose another directory`
        )
      }
      yield* replace(owner)
    }
    return yield* fail(`other processes are opening it at the same time; try again`)
  })

  const isOwn = Effect.map(readOwner(file), Option.exists((owner) => owner.nonce === nonce))
  let lost = false

  const refresh = Effect.gen(function*() {
    if (!(yield* isOwn)) {
      lost = true
      return yield* Effect.logError(`Another process has taken over ${root}; nothing more is written there`)
    }
    yield* Effect.flatMap(own, (content) => fs.writeFileString(file, content))
  }).pipe(Effect.catchAllCause((cause) => Effect.logWarning(`The lock of ${root} could not be refreshed`, cause)))

  yield* Effect.acquireRelease(
    acquire,
    () => Effect.ignore(Effect.whenEffect(fs.remove(file), isOwn))
  )
  yield* Effect.forkScoped(Effect.schedule(refresh, Schedule.spaced(refreshEvery)))

  const check = Effect.suspend(() => lost ? fail("another process has taken it over") : Effect.void)
  return { check } satisfies Lock
})
