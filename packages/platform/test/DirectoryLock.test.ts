import { DirectoryLock, Processes } from "@effect-tinker/platform"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, TestClock, TestServices } from "effect"

const gone = 2 ** 30

const inDirectory = <A, E>(
  use: (directory: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E, FileSystem.FileSystem>
) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    return yield* use(yield* fs.makeTempDirectoryScoped(), fs)
  }).pipe(Effect.scoped, Effect.provide(NodeContext.layer))

/** A claim of another process, as it would have written it. */
const claim = (fs: FileSystem.FileSystem, directory: string, pid: number, content: string) =>
  fs.writeFileString(`${directory}/.lock-${pid}-1`, content)

const running = (...pids: ReadonlyArray<number>) =>
  Effect.provideService(Processes.Processes, {
    pid: process.pid,
    isRunning: (pid) => pids.includes(pid)
  })

describe("DirectoryLock", () => {
  it.effect("one opener at a time has a directory; the next gets it when the first has closed it", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function*() {
        yield* Effect.scoped(Effect.gen(function*() {
          const first = yield* DirectoryLock.acquire(directory)
          assert.isTrue(Option.isNone(first.owner))
          assert.isTrue(first.isHeld())
          const second = yield* Effect.scoped(DirectoryLock.acquire(directory))
          assert.deepStrictEqual(second.owner, Option.some(process.pid))
          assert.isFalse(second.isHeld())
          assert.deepStrictEqual(
            yield* DirectoryLock.holder(directory),
            Option.some({ pid: process.pid, isRunning: true })
          )
        }))
        assert.deepStrictEqual(yield* fs.readDirectory(directory), [])
        assert.isTrue(Option.isNone((yield* Effect.scoped(DirectoryLock.acquire(directory))).owner))
      })
    ))

  it.live("of openers at the same time exactly one gets it", () =>
    inDirectory((directory) =>
      Effect.gen(function*() {
        for (let round = 0; round < 20; round++) {
          const locks = yield* Effect.scoped(
            // Spelled differently, the openers know of each other by their files only.
            Effect.forEach(Array.from({ length: 8 }), (_, n) => DirectoryLock.acquire(directory + "/.".repeat(n)), {
              concurrency: "unbounded"
            })
          )
          assert.lengthOf(locks.filter(({ owner }) => Option.isNone(owner)), 1)
        }
      })
    ))

  it.effect("the claim of a process that is gone is removed, also where its id is used again", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function*() {
        yield* claim(fs, directory, gone, "0 - - held")
        assert.deepStrictEqual(yield* DirectoryLock.holder(directory), Option.some({ pid: gone, isRunning: false }))
        assert.isTrue(Option.isNone((yield* Effect.scoped(DirectoryLock.acquire(directory))).owner))
        assert.deepStrictEqual(yield* fs.readDirectory(directory), [])
        // of this very process, but from before it was started again with the same id
        yield* claim(fs, directory, process.pid, "0 - - held")
        assert.isTrue(Option.isNone((yield* Effect.scoped(DirectoryLock.acquire(directory))).owner))
      })
    ))

  it.effect("a claim of a live process stands, until it has not been refreshed for three minutes", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function*() {
        yield* claim(fs, directory, 4711, "0 - - held")
        const acquire = Effect.scoped(DirectoryLock.acquire(directory))
        assert.deepStrictEqual((yield* acquire).owner, Option.some(4711))
        yield* TestClock.adjust("2 minutes")
        assert.deepStrictEqual((yield* acquire).owner, Option.some(4711))
        yield* TestClock.adjust("61 seconds")
        assert.isTrue(Option.isNone((yield* acquire).owner))
      }).pipe(running(4711))
    ))

  it.effect("to a reader, a claim of another machine stands while it is refreshed, whatever runs here", () =>
    inDirectory((directory, fs) =>
      Effect.gen(function*() {
        yield* claim(fs, directory, 4711, "0 another-boot 12 held")
        assert.deepStrictEqual(yield* DirectoryLock.holder(directory), Option.some({ pid: 4711, isRunning: true }))
        yield* TestClock.adjust("4 minutes")
        assert.deepStrictEqual(yield* DirectoryLock.holder(directory), Option.some({ pid: 4711, isRunning: false }))
      }).pipe(running())
    ))

  it.effect("a holder whose claim is removed learns of it", () =>
    inDirectory((directory, fs) =>
      Effect.scoped(Effect.gen(function*() {
        const lock = yield* DirectoryLock.acquire(directory)
        for (const name of yield* fs.readDirectory(directory)) yield* fs.remove(`${directory}/${name}`)
        yield* TestClock.adjust("20 seconds")
        while (lock.isHeld()) yield* TestServices.provideLive(Effect.sleep("5 millis"))
        assert.isFalse(lock.isHeld())
        assert.deepStrictEqual(yield* fs.readDirectory(directory), [])
      }))
    ))
})
