import * as Mcp from "@effect-tinker/agents/Mcp"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { call, http, play, toolOf } from "./support/mcp.js"

/** The server in this process, behind a port. */
const server = Effect.map(http, (running): Mcp.Server => {
  const address = running.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { url: `http://127.0.0.1:${port}/mcp` }
})

describe("Mcp", () => {
  it.scopedLive("speaks streamable HTTP, with a session for each connection", () =>
    Effect.gen(function*() {
      const address = { server: yield* server }
      const one = yield* Mcp.connect(address)
      const two = yield* Mcp.connect(address)
      yield* toolOf(one, "add").call("{\"by\": 3}")
      assert.strictEqual(yield* one.call("read"), "3")
      assert.strictEqual(yield* two.call("read"), "0")
    }))

  it.scopedLive("offers the tools that are named, in the server's order, and says which may run at once", () =>
    Effect.gen(function*() {
      const all = yield* Mcp.connect({ server: yield* server })
      assert.deepStrictEqual(
        all.tools.map(({ parallel, spec }) => [spec.name, parallel]),
        [["add", false], ["read", true], ["fail", false], ["wait", false], ["talk", false], ["draw", false]]
      )
      const add = toolOf(all, "add")
      assert.strictEqual(add.spec.description, "Adds to the count.")
      assert.deepInclude(add.spec.parameters, { type: "object", required: ["by"] })
      const some = yield* Mcp.connect({ server: yield* server, only: ["read", "add"] })
      assert.deepStrictEqual(some.tools.map(({ spec }) => spec.name), ["add", "read"])
      const missing = yield* Effect.flip(Mcp.connect({ server: yield* server, only: ["add", "multiply"] }))
      assert.include(missing.message, "it has no tool multiply: add, read")
      assert.isFalse(missing.isRetryable)
    }))

  it.scopedLive("an answer is text, up to its limit; a failure is one the policy reads", () =>
    Effect.gen(function*() {
      const session = yield* Mcp.connect({ server: yield* server, maxLength: 500 })
      const answer = (name: string, input: string) => toolOf(session, name).call(input)
      assert.deepStrictEqual(yield* answer("add", "{\"by\": 2}"), { text: "2", stop: false, failed: false })
      assert.deepStrictEqual(yield* answer("fail", "{}"), { text: "Error: out of order", stop: false, failed: true })
      assert.deepInclude(yield* answer("draw", "{}"), { text: "[image]", failed: false })
      assert.strictEqual((yield* answer("talk", "{}")).text, "x".repeat(500))
      for (const input of ["[1", "[1]", "null", "2"]) {
        assert.deepInclude(yield* answer("add", input), {
          text: "Error: the arguments are not a JSON object",
          failed: true
        })
      }
      const short = yield* Mcp.connect({ server: yield* server, maxLength: 499 })
      assert.strictEqual((yield* toolOf(short, "talk").call("{}")).text, `${"x".repeat(499)}\n[1 characters cut off]`)
      // What the test asks for itself is no exchange of the policy's.
      assert.strictEqual(yield* session.call("read"), "2")
      assert.strictEqual((yield* Effect.flip(session.call("fail"))).description, "out of order")
      assert.deepStrictEqual(
        (yield* session.transcript).map((
          { arguments: given, failed, text, tool }
        ) => [tool, given, text.length, failed]),
        [
          ["add", { by: 2 }, 1, false],
          ["fail", {}, 19, true],
          ["draw", {}, 7, false],
          ["talk", {}, 500, false],
          ["add", "[1", 42, true],
          ["add", [1], 42, true],
          ["add", null, 42, true],
          ["add", 2, 42, true]
        ]
      )
    }))

  it.scopedLive("a call that takes too long is an answer, and the session goes on", () =>
    Effect.gen(function*() {
      const session = yield* Mcp.connect({ server: yield* server, timeout: "200 millis" })
      assert.deepStrictEqual(yield* toolOf(session, "wait").call("{}"), {
        text: "Error: no answer within 200ms",
        stop: false,
        failed: true
      })
      const late = yield* Effect.flip(session.call("wait"))
      assert.deepInclude(late, { method: "callTool", reason: "TimedOut" })
      assert.isTrue(late.isRetryable)
      assert.strictEqual((yield* toolOf(session, "add").call("{\"by\": 1}")).text, "1")
    }))

  it.scopedLive("nobody at the address is an error that may pass", () =>
    Effect.gen(function*() {
      const none = yield* Effect.flip(Mcp.connect({ server: { url: "http://127.0.0.1:1/mcp" } }))
      assert.deepInclude(none, { _tag: "McpError", method: "connect", reason: "Failed" })
      assert.isTrue(none.isRetryable)
      assert.include(none.message, "connect of http://127.0.0.1:1/mcp")
    }))

  it.scopedLive("an episode is rewarded by its answer, its calls and what they changed", () =>
    Effect.gen(function*() {
      const counting = (reward: Mcp.GroupOptions<Mcp.McpError, never>["reward"]) =>
        Effect.map(server, (server) =>
          Mcp.group({
            server,
            question: "Bring the count to 7.",
            reset: (session) => session.call("add", { by: 5 }),
            reward,
            tags: ["counts"]
          }))
      const read = yield* counting((answer, { session, transcript }) =>
        Effect.map(session.call("read"), (count) => count === "7" && transcript.length === 2 && answer === "Done.")
      )
      assert.deepStrictEqual(read.tags, ["counts"])
      const calls = [call("fail", "{}"), call("add", "{\"by\": 2}")]
      const [first, second, last] = yield* play(read, [...calls, "Done."])
      assert.deepInclude(first, { _tag: "Continue", metrics: { forked: 0, tool_calls: 1, tool_errors: 1 } })
      assert.deepInclude(second, { _tag: "Continue", metrics: { forked: 0, tool_calls: 1, tool_errors: 0 } })
      assert.deepInclude(last, { _tag: "Done", reward: 1, metrics: { mcp_calls: 2, mcp_errors: 1 } })
      // Another episode has a session of its own: the count is 5 again.
      assert.deepInclude((yield* play(read, ["Done."])).at(-1), { _tag: "Done", reward: 0 })
      const plain = yield* counting((answer) => answer === "Done." ? 0.5 : false)
      assert.deepInclude((yield* play(plain, ["Done."])).at(-1), { reward: 0.5 })
      assert.deepInclude((yield* play(plain, ["No."])).at(-1), { reward: 0 })
    }))
})
