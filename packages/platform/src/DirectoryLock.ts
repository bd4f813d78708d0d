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

/** What a claim says: when its process was last there, where that is, and when it started, as far as the system tells. */
interface Claim {
  readonly seenAt: number
  /** The boot of a machine and the numbering of its processes; empty where the system does not tell. */
  readonly place: string
  readonly started: string
}

const text = (fs: FileSystem.FileSystem, path: string) =>
  Effect.orElseSucceed(Effect.map(fs.readFileString(path), (content) => content.trim()), () => "")

/** Where process ids mean the same: containers of one machine number their processes each for itself. */
const placeOf = (fs: FileSystem.FileSystem) =>
  Effect.zipWith(
    text(fs, "/proc/sys/kernel/random/boot_id"),
    Effect.orElseSucceed(fs.readLink("/proc/self/ns/pid"), () => ""),
    (boot, numbering) => `${boot}${numbering}`.replace(/\s/g, "")
  )

/** When a process started, in ticks since the boot: of two that have the same id one after the other only one has the same. */
const startOf = (fs: FileSystem.FileSystem, pid: number) =>
  Effect.map(
    text(fs, `/proc/${pid}/stat`),
    // The name of the program is in brackets and may have spaces.
    (stat) => stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? ""
  )

/** What a claim says. One that is gone by now, or is being written, belongs to a process that is there. */
const readClaim = (fs: FileSystem.FileSystem, file: string) =>
  Effect.map(text(fs, file), (content): Claim => {
    const [seenAt = "", place = "", started = ""] = content.split(" ")
    return { seenAt: seenAt === "" ? NaN : Number(seenAt), place, started }
  })

/**
 * Whether the process of a claim is there. On another machine, or in another container, only its heartbeat tells a reader; who wants
 * to write goes by the process all the same, since a container that is started again need not wait for its own claim.
 */
const isThere = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  file: string,
  pid: number,
  elsewhere: "heartbeat" | "process"
) {
  const { isRunning } = yield* Processes
  const claim = yield* readClaim(fs, file)
  if ((yield* Clock.currentTimeMillis) - claim.seenAt > staleAfter) return false
  const isHere = claim.place === "" || claim.place === (yield* placeOf(fs))
  if (!isHere && elsewhere === "heartbeat") return true
  if (!isRunning(pid)) return false
  const started = !isHere || claim.started === "" ? "" : yield* startOf(fs, pid)
  return started === "" || started === claim.started
})

/**
 * Who has a directory, or had it and left its claim: none where there is no claim.
 *
 * @internal
 */
export const look = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, directory: string) {
  const { pid } = yield* Processes
  let gone: number | undefined
  for (const name of yield* Effect.orElseSucceed(fs.readDirectory(directory), () => [])) {
    const owner = claimName.exec(name)?.[1]
    if (owner === undefined) continue
    const file = `${directory}/${name}`
    const isOwn = Number(owner) === pid && own.held.has(file)
    if (isOwn || (yield* isThere(fs, file, Number(owner), "heartbeat"))) {
      return Option.some({ pid: Number(owner), isRunning: true })
    }
    gone = Number(owner)
  }
  return Option.map(Option.fromNullable(gone), (found) => ({ pid: found, isRunning: false }))
})

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
    const { pid } = yield* Processes
    const name = `.lock-${pid}-${own.next++}`
    const file = `${directory}/${name}`
    const place = yield* placeOf(fs)
    const started = yield* startOf(fs, pid)
    const refresh = Effect.flatMap(
      Clock.currentTimeMillis,
      (now) => fs.writeFileString(file, [now, place, started].join(" "))
    )

    const isLive = (other: string, owner: number) =>
      owner === pid
        ? Effect.succeed(own.held.has(`${directory}/${other}`))
        : isThere(fs, `${directory}/${other}`, owner, "process")

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
