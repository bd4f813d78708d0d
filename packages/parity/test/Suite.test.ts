import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Suite from "../src/Suite.js"

const suite = (name: string, run: ReturnType<Suite.Suite["run"]>): Suite.Suite => ({
  name,
  summary: `what ${name} compares`,
  run: () => run
})

const same = suite("same", Suite.against("tinker 0.38.0", "torch 2.9", "tinker 0.38.0"))
const alone = suite("alone", Effect.void)
const differs = suite("differs", new Suite.Differs({ suite: "differs", differences: ["a: 1", "b: 2"] }))
const missing = suite("missing", new Suite.PythonMissing({ reason: "no Python" }))

const outcomes = (suites: ReadonlyArray<Suite.Suite>) =>
  Effect.provide(Effect.forEach(suites, (one) => Suite.outcome(one, [])), NodeContext.layer)

describe("Suite", () => {
  it.effect("summarizes what was compared, with which version, with what result", () =>
    Effect.map(outcomes([same, alone, differs, missing]), (all) => {
      assert.deepStrictEqual(
        Suite.summarize(all).split("\n").map((line) => line.split(/ {2,}/)),
        [
          ["suite", "result", "against", "what was compared"],
          ["same", "same", "tinker 0.38.0, torch 2.9", "what same compares"],
          ["alone", "same", "ours alone", "what alone compares"],
          ["differs", "2 different", "ours alone", "what differs compares"],
          ["missing", "not compared", "ours alone", "what missing compares"]
        ]
      )
    }))

  it.effect("a suite that differs does not keep the others from running, and decides the exit code", () =>
    Effect.gen(function*() {
      assert.strictEqual(Suite.exitCodeOf(yield* outcomes([same, alone])), Suite.exitCode.same)
      assert.strictEqual(Suite.exitCodeOf(yield* outcomes([missing, same])), Suite.exitCode.pythonMissing)
      assert.strictEqual(Suite.exitCodeOf(yield* outcomes([missing, differs, same])), Suite.exitCode.differs)
    }))
})
