import { RunLog } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"

/** Modes of everything below a directory, by their paths. */
const modes = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const names = yield* fs.readDirectory(directory, { recursive: true })
  return yield* Effect.forEach(
    ["", ...names],
    (name) => Effect.map(fs.stat(`${directory}/${name}`), ({ mode, type }) => ({ name, type, mode: mode & 0o777 }))
  )
})

describe.skipIf(process.platform === "win32")("what a run leaves on the disk", () => {
  it.scoped("can be read by its user only: the journal, the configuration and what was sampled", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const root = yield* fs.makeTempDirectoryScoped()
      yield* fs.chmod(root, 0o755)
      const directory = `${root}/runs/one`
      yield* Effect.scoped(Effect.gen(function*() {
        const log = yield* RunLog.open(directory, { trainer: "supervised", config: { secret: "data" } })
        yield* log.append({ _tag: "Step", step: 1, metrics: { loss: 1 }, timings: {} })
        yield* log.appendRollouts(1, [{ group: 0, member: 0, reward: 1, stop: "completed", turns: [] }])
        yield* log.finish
      }))
      const found = yield* modes(directory)
      assert.isAbove(found.filter(({ type }) => type === "File").length, 2)
      for (const { mode, name, type } of found) {
        assert.strictEqual(mode, type === "Directory" ? 0o700 : 0o600, `${name} ${type}`)
      }
    }).pipe(Effect.provide(NodeContext.layer)))
})
