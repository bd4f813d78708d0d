import * as Mcp from "@effect-tinker/agents/Mcp"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { fileURLToPath } from "node:url"
import { call, play, toolOf } from "./support/mcp.js"

const program = fileURLToPath(new URL("./support/mcpServer.ts", import.meta.url))

/** The server as a process of its own, over stdio. */
const stdio: Mcp.Server = { command: process.execPath, args: ["--import", "tsx", program, "--stdio"] }

describe("Mcp", () => {
  it.scopedLive("offers the tools of a command, and writes down how they were used", () =>
    Effect.gen(function*() {
      const session = yield* Mcp.connect({
        server: stdio,
        only: ["add", "read", "fail", "talk", "draw"],
        maxLength: 100
      })
      assert.deepStrictEqual(session.tools.map(({ spec }) => spec.name), ["add", "read", "fail", "talk", "draw"])
      const add = toolOf(session, "add")
      assert.strictEqual(add.spec.description, "Adds to the count.")
      assert.deepInclude(add.spec.parameters, { type: "object", required: ["by"] })
      // a tool that changes something waits for the one before it
      assert.deepStrictEqual(session.tools.map(({ parallel }) => parallel), [false, true, false, false, false])
      assert.deepStrictEqual(yield* add.call("{\"by\": 2}"), { text: "2", stop: false, failed: false })
      assert.deepStrictEqual(yield* toolOf(session, "read").call("{}"), { text: "2", stop: false, failed: false })
      assert.deepInclude(yield* toolOf(session, "fail").call("{}"), { text: "Error: out of order", failed: true })
      assert.deepInclude(yield* toolOf(session, "draw").call("{}"), { text: "[image]" })
      const long = yield* toolOf(session, "talk").call("{}")
      assert.strictEqual(long.text, `${"x".repeat(100)}\n[400 characters cut off]`)
      const wrong = yield* add.call("{\"by\": \"two\"}")
      assert.isTrue(wrong.failed)
      assert.include((yield* add.call("[1")).text, "not a JSON object")
      // its own calls are no part of the transcript
      assert.strictEqual(yield* session.call("read"), "2")
      const transcript = yield* session.transcript
      assert.deepStrictEqual(transcript.map(({ arguments: given, failed, tool }) => [tool, given, failed]), [
        ["add", { by: 2 }, false],
        ["read", {}, false],
        ["fail", {}, true],
        ["draw", {}, false],
        ["talk", {}, false],
        ["add", { by: "two" }, true],
        ["add", "[1", true]
      ])
      assert.isTrue(transcript.every(({ endedAt, startedAt }) => endedAt >= startedAt))
      assert.strictEqual((yield* Effect.flip(session.call("fail"))).reason, "Failed")
    }), 60_000)

  it.scopedLive("cancels a call that takes too long, and the session goes on", () =>
    Effect.gen(function*() {
      const session = yield* Mcp.connect({ server: stdio, timeout: "300 millis" })
      const waited = yield* toolOf(session, "wait").call("{}")
      assert.deepStrictEqual(waited, { text: "Error: no answer within 300ms", stop: false, failed: true })
      assert.strictEqual((yield* toolOf(session, "add").call("{\"by\": 1}")).text, "1")
    }), 60_000)

  it.scopedLive("a server that cannot be used is an error that says why", () =>
    Effect.gen(function*() {
      const none = yield* Effect.flip(Mcp.connect({ server: { command: "no-such-command" } }))
      assert.deepInclude(none, { _tag: "McpError", method: "connect", reason: "Failed", server: "no-such-command" })
      const script = "process.stderr.write('no licence\\n'); process.exit(1)"
      const ended = yield* Effect.flip(Mcp.connect({ server: { command: process.execPath, args: ["-e", script] } }))
      assert.include(ended.message, "no licence")
      const silent = { command: process.execPath, args: ["-e", "setInterval(() => {}, 1000)"] }
      const late = yield* Effect.flip(Mcp.connect({ server: silent, connectTimeout: "500 millis" }))
      assert.strictEqual(late.reason, "TimedOut")
      const missing = yield* Effect.flip(Mcp.connect({ server: stdio, only: ["multiply"] }))
      assert.include(missing.message, "it has no tool multiply: add, read")
    }), 60_000)

  it.scopedLive(
    "its tools are an environment: each rollout has its own session, and is rewarded by what it did",
    () =>
      Effect.gen(function*() {
        const counting = Mcp.group({
          server: stdio,
          question: "Bring the count to 7.",
          reset: (session) => session.call("add", { by: 5 }),
          reward: (answer, { session, transcript }) =>
            Effect.map(session.call("read"), (count) => count === "7" && transcript.length === 1 && answer === "Done.")
        })
        const reward = (texts: ReadonlyArray<string>) => Effect.map(play(counting, texts), (steps) => steps.at(-1))
        const right = yield* reward([call("add", "{\"by\": 2}"), "Done."])
        assert.deepInclude(right, { _tag: "Done", reward: 1, metrics: { mcp_calls: 1, mcp_errors: 0 } })
        // a further rollout does not see what this one did
        assert.deepInclude(yield* reward([call("add", "{\"by\": 2}"), "Done."]), { _tag: "Done", reward: 1 })
        assert.deepInclude(yield* reward(["Done."]), { _tag: "Done", reward: 0 })
        const [first] = yield* play(counting, [call("fail", "{}")])
        assert.deepInclude(first, { _tag: "Continue", metrics: { forked: 0, tool_calls: 1, tool_errors: 1 } })
      }),
    60_000
  )
})
