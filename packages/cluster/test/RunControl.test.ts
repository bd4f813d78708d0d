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

  it.scoped("questions come oldest first, asked once, until they are answered", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const key = (n: number) => String(n).repeat(64)
      const ask = (n: number, time: number) =>
        RunControl.ask(directory, new RunControl.Question({ key: key(n), question: `${n}?`, answer: "a", time }))
      // By their names they would come 1, 2, 3, 4.
      for (const [n, time] of [[3, 10], [2, 30], [4, 20], [1, 20]] as const) yield* ask(n, time)
      const order = Effect.map(
        RunControl.questions(directory),
        (found) => found.map(({ question, time }) => [question, time])
      )
      assert.deepStrictEqual(yield* order, [["3?", 10], ["1?", 20], ["4?", 20], ["2?", 30]])
      // Asked again it keeps its time.
      yield* ask(2, 5)
      yield* RunControl.answer(directory, key(1), 0.5)
      assert.deepStrictEqual(yield* order, [["3?", 10], ["4?", 20], ["2?", 30]])
      assert.deepStrictEqual((yield* RunControl.answers(directory)).map(({ grade }) => grade), [0.5])
      assert.instanceOf(yield* Effect.flip(RunControl.answer(directory, key(9), 1)), RunControl.NoSuchQuestion)
      assert.instanceOf(yield* Effect.flip(RunControl.answer(directory, key(2), NaN)), RunControl.InvalidGrade)
    }).pipe(Effect.provide(NodeContext.layer)))
})
