import { Series, TensorBoard } from "@effect-tinker/studio"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Runs from "./utils/runs.js"

/** Written by TensorBoard's own `RecordWriter` and protobuf classes, with the events of the table below. */
const golden =
  "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c31000000000000009d8383e909000000000000f83f10032a240a0b0a046c6f7373150000803e0a150a0e656e762f616c6c2f726577617264150000c07f67c1cdf81c00000000000000c8c1951d09000000000000044010e0a7122a0d0a0b0a046c6f737315000000c09d226dc5"

describe("TensorBoard", () => {
  it("writes byte for byte what TensorBoard writes", () => {
    const table = Series.make()
    table.record(3, 1_500, [["loss", 0.25], ["env/all/reward", NaN]])
    table.record(300_000, 2_500, [["loss", -2]])
    assert.strictEqual(Buffer.from(TensorBoard.encode(table)).toString("hex"), golden)
  })

  it.scoped("every run below a directory gets its own directory; writing again replaces the files", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const from = yield* fs.makeTempDirectoryScoped()
      const to = yield* fs.makeTempDirectoryScoped()
      yield* Runs.python(`${from}/nested/python`)
      yield* Runs.supervised(`${from}/ours`, { steps: 5, learningRate: 1e-4, floor: 1, seed: 1 })
      for (const _ of [1, 2]) {
        const exported = yield* TensorBoard.write({ from, to })
        assert.deepStrictEqual(exported.map(({ run, steps }) => [run, steps]).sort(), [["nested/python", 60], [
          "ours",
          5
        ]])
      }
      const files = (yield* fs.readDirectory(to, { recursive: true })).filter((name) => name.includes("tfevents"))
      assert.strictEqual(files.length, 2)
    }).pipe(Effect.provide(NodeContext.layer)))
})
