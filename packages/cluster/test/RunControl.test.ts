import { RunControl } from "@effect-tinker/cluster"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"

describe("RunControl", () => {
  it.scoped("resuming takes back a pause that nobody has taken up, and cancelling does not", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const asked = (action: RunControl.Action) => Effect.map(RunControl.requested(directory, action), Option.isSome)
      yield* RunControl.request(directory, "pause")
      assert.isTrue(yield* asked("pause"))
      yield* RunControl.request(directory, "cancel")
      assert.isTrue(yield* asked("pause"))
      yield* RunControl.request(directory, "resume")
      assert.isFalse(yield* asked("pause"))
      assert.isTrue(yield* asked("resume"))
      assert.isTrue(yield* asked("cancel"))
    }).pipe(Effect.provide(NodeContext.layer)))
})
