/**
 * One writer for each directory. Every opener leaves a claim file before it looks at those of others, so of two that open at
 * the same time at least one sees the other; the one whose claim comes later in the order of names withdraws, the other waits
 * until it has. Any opener removes the claim of a process that is gone: no stale lock is ever taken over, so there is no race
 * to take one over.
 *
 * A claim says where its process runs and since when, since containers of one machine number their processes each for
 * itself, and a process id may be used again. It is refreshed while it is held, for readers elsewhere.
 *
 * @since 0.2.0
 */
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { globalValue } from "effect/GlobalValue"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { Processes } from "./Processes.js"

/**
 * The process that has a directory, or had it and left its claim.
 *
 * @since 0.2.0
 * @category models
 */
export interface Holder {
  readonly pid: number
  readonly isRunning: boolean
}

/**
 * The outcome of {@link acquire}.
 *
 * @since 0.2.0
 * @category models
 */
export interface Lock {
  /** The process that has the directory; none where this one has it now. */
  readonly owner: Option.Option<number>
  /** Whether the claim is still there: another process removes it where this one has stood still for minutes. */
  readonly isHeld: () => boolean
}

/** The claims of this process: in a container, a process that is started again may well have the id of the one before. */
const own = globalValue("@effect-tinker/platform/DirectoryLock", () => ({
  next: 1,
  held: new Set<string>(),
  directories: new Set<string>()
}))

const refreshEvery = Duration.seconds(20)
const staleAfter = Duration.toMillis(Duration.minutes(3))
const claimName = /^\.lock-(\d+)-\d+$/
/** Openers at the same time settle within milliseconds; one that has stopped in between must not hold up the other. */
const settling = Schedule.spaced("10 millis").pipe(Schedule.upTo("2 seconds"))

/**
 * Whether a file of a directory belongs to its lock.
 *
 * @since 0.2.0
 * @category predicates
 */
export const isClaim = (name: string): boolean => claimName.test(name)

interface Claim {
  /** When its process was last there. */
  readonly seenAt: number
  /** The boot of a machine and the numbering of its processes; empty where the system does not tell. */
  readonly place: string
  readonly started: string
  readonly state: "asking" | "held"
}

const text = (fs: FileSystem.FileSystem, path: string) =>
  Effect.orElseSucceed(Effect.map(fs.readFileString(path), (content) => content.trim()), () => "")

/** Where process ids mean the same. */
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
    (stat) => stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] || "-"
  )

/** A claim that is gone by now, or is being written, belongs to a process that is there. */
const readClaim = (fs: FileSystem.FileSystem, file: string) =>
  Effect.map(text(fs, file), (content): Claim => {
    const [seenAt = "", place = "-", started = "-", state] = content.split(" ")
    return {
      seenAt: seenAt === "" ? NaN : Number(seenAt),
      place: place === "-" ? "" : place,
      started: started === "-" ? "" : started,
      // An empty claim is being written.
      state: state === "asking" || content === "" ? "asking" : "held"
    }
  })

/**
 * Whether the process of a claim is there. On another machine, or in another container, only its heartbeat tells a reader; an
 * opener goes by the process all the same, since a container that is started again need not wait for its own claim.
 */
const isThere = Effect.fnUntraced(function*(
  fs: FileSystem.FileSystem,
  claim: Claim,
  pid: number,
  elsewhere: "heartbeat" | "process"
) {
  const { isRunning } = yield* Processes
  if ((yield* Clock.currentTimeMillis) - claim.seenAt > staleAfter) return false
  const isHere = claim.place === "" || claim.place === (yield* placeOf(fs))
  if (!isHere && elsewhere === "heartbeat") return true
  if (!isRunning(pid)) return false
  return !isHere || claim.started === "" || (yield* startOf(fs, pid)) === claim.started
})

/**
 * The process that has a directory, or had it and left its claim: none where there is no claim.
 *
 * @since 0.2.0
 * @category accessors
 */
export const holder: (
  directory: string
) => Effect.Effect<Option.Option<Holder>, never, FileSystem.FileSystem> = Effect.fnUntraced(function*(directory) {
  const fs = yield* FileSystem.FileSystem
  const { pid } = yield* Processes
  let gone: number | undefined
  for (const name of yield* Effect.orElseSucceed(fs.readDirectory(directory), () => [])) {
    const owner = claimName.exec(name)?.[1]
    if (owner === undefined) continue
    const file = `${directory}/${name}`
    const isOwn = Number(owner) === pid && own.held.has(name)
    if (isOwn || (yield* isThere(fs, yield* readClaim(fs, file), Number(owner), "heartbeat"))) {
      return Option.some({ pid: Number(owner), isRunning: true })
    }
    gone = Number(owner)
  }
  return Option.map(Option.fromNullable(gone), (found) => ({ pid: found, isRunning: false }))
})

/**
 * Holds a directory until the scope closes, or names the process that has it.
 *
 * @since 0.2.0
 * @category constructors
 */
export const acquire: (
  directory: string
) => Effect.Effect<Lock, PlatformError.PlatformError, FileSystem.FileSystem | Scope.Scope> = Effect.fnUntraced(
  function*(directory) {
    const fs = yield* FileSystem.FileSystem
    const { pid } = yield* Processes
    const name = `.lock-${pid}-${own.next++}`
    const file = `${directory}/${name}`
    // Openers of this process need not look at files to know of each other.
    if (own.directories.has(directory)) return { owner: Option.some(pid), isHeld: () => false }
    yield* Effect.acquireRelease(
      Effect.sync(() => own.directories.add(directory)),
      () => Effect.sync(() => own.directories.delete(directory))
    )
    const place = (yield* placeOf(fs)) || "-"
    const started = yield* startOf(fs, pid)
    const write = (state: Claim["state"]) =>
      Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => fs.writeFileString(file, [now, place, started, state].join(" "), { mode: 0o600 })
      )
    let held = false

    const remove = (claim: string) => Effect.ignore(fs.remove(`${directory}/${claim}`))
    const withdraw = Effect.suspend(() => {
      held = false
      own.held.delete(name)
      return remove(name)
    })

    /** The process of another claim that stands against this one. */
    const rivalOf = Effect.fnUntraced(function*(other: string, owner: number) {
      const path = `${directory}/${other}`
      const claim = yield* readClaim(fs, path)
      const live = owner === pid ? own.held.has(other) : yield* isThere(fs, claim, owner, "process")
      if (!live) {
        yield* remove(other)
        return "gone"
      }
      return claim.state === "asking" && name < other ? "undecided" : "stands"
    })

    yield* Effect.acquireRelease(
      Effect.zipRight(write("asking"), Effect.sync(() => own.held.add(name))),
      () => withdraw
    )
    for (const other of yield* fs.readDirectory(directory)) {
      const owner = claimName.exec(other)?.[1]
      if (other === name || owner === undefined) continue
      const rival = Effect.flatMap(
        fs.exists(`${directory}/${other}`),
        (exists) => exists ? rivalOf(other, Number(owner)) : Effect.succeed("gone" as const)
      )
      const outcome = yield* Effect.repeat(rival, {
        while: (state) => state === "undecided",
        schedule: Schedule.zipRight(settling, Schedule.identity<"undecided" | "gone" | "stands">())
      })
      if (outcome !== "gone") {
        yield* withdraw
        return { owner: Option.some(Number(owner)), isHeld: () => false }
      }
    }
    yield* write("held")
    held = true
    const refresh = Effect.flatMap(fs.exists(file), (exists) => {
      held = exists
      return exists ? write("held") : Effect.logError(`Another process has taken over ${directory}`)
    })
    yield* Effect.ignoreLogged(refresh).pipe(
      Effect.repeat({ while: () => held, schedule: Schedule.spaced(refreshEvery) }),
      Effect.delay(refreshEvery),
      Effect.forkScoped
    )
    return { owner: Option.none(), isHeld: () => held }
  }
)
