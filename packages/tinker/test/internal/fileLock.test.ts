import * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope, TestClock } from "effect"
import * as fileLock from "../../src/internal/archive/fileLock.js"

const path = "here.lock"

const missing = new PlatformError.SystemError({ reason: "NotFound", module: "FileSystem", method: "readFile" })

/** A disk on which a write that has begun is done a second later, whoever has stopped waiting for it. */
const slowDisk = () => {
  const files = new Map<string, string>()
  const layer = FileSystem.layerNoop({
    readFileString: (name) =>
      Effect.suspend(() => {
        const content = files.get(name)
        return content === undefined ? missing : Effect.succeed(content)
      }),
    writeFileString: (name, content, options) => {
      const done = Effect.sync(() => void files.set(name, content))
      return options?.flag === "wx"
        ? done
        : Effect.flatMap(Effect.forkDaemon(Effect.delay(done, "1 second")), Fiber.join)
    },
    remove: (name) => Effect.sync(() => void files.delete(name))
  })
  return { files, layer }
}

describe("fileLock", () => {
  it.effect("is gone after its scope, also when it is being renewed at that moment", () => {
    const { files, layer } = slowDisk()
    return Effect.gen(function*() {
      const scope = yield* Scope.make()
      yield* Scope.extend(fileLock.acquire(path, () => "busy"), scope)
      assert.isTrue(files.has(path))
      yield* TestClock.adjust("2500 millis")
      const closed = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(closed)
      assert.isFalse(files.has(path))
    }).pipe(Effect.provide(layer))
  })
})
