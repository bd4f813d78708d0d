import { AgentModel, Recorder, Trace, TraceImport } from "@effect-tinker/agents"
import { Dataset } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Either, Stream } from "effect"
import { add, callOf, chatRenderer, scripted } from "./support/chat.js"

const text = (value: string) => ({ stringValue: value })
const attributes = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([key, value]) => ({ key, value: text(value) }))

/** A span of the conventions for generative AI. */
const span = (trace: string, id: string, at: number, prompt: unknown, answer: unknown, more = {}) => ({
  resourceSpans: [{
    scopeSpans: [{
      spans: [{
        traceId: trace,
        spanId: id,
        name: "chat m",
        startTimeUnixNano: String(BigInt(at) * 1_000_000n),
        attributes: attributes({
          "gen_ai.operation.name": "chat",
          "gen_ai.input.messages": JSON.stringify(prompt),
          "gen_ai.output.messages": JSON.stringify(answer),
          ...more
        })
      }]
    }]
  }]
})

const said = (role: string, content: string) => ({ role, parts: [{ type: "text", content }] })

const read = (path: string) => Effect.map(Stream.runCollect(Dataset.values(Trace.jsonl(path))), Chunk.toReadonlyArray)

const place = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const at = yield* fs.makeTempDirectoryScoped()
  const lines = (name: string, rows: ReadonlyArray<unknown>) =>
    fs.writeFileString(
      `${at}/${name}`,
      rows.map((row) => `${typeof row === "string" ? row : JSON.stringify(row)}\n`).join("")
    )
  return { fs, at, lines, out: `${at}/traces.jsonl` }
})

const start = 1_790_000_000_000

describe("TraceImport", () => {
  it.scoped("calls that continue each other are one conversation, whatever their order; other calls are others", () =>
    Effect.gen(function*() {
      const { at, lines, out } = yield* place
      const [u1, a1, u2, a2] = [
        said("user", "1"),
        said("assistant", "one"),
        said("user", "2"),
        said("assistant", "two")
      ]
      yield* lines("spans.jsonl", [
        span("t", "second", start + 20, [u1, a1, u2], [a2], { "session.id": "s" }),
        span("t", "first", start + 10, [u1], [a1]),
        span("t", "other", start + 15, [said("user", "title?")], [said("assistant", "Numbers")]),
        span("v", "next", start + 30, [u1, a1, u2, a2, said("user", "3")], [said("assistant", "three")])
      ])
      const report = yield* TraceImport.run({ sources: [`${at}/spans.jsonl`], out })
      assert.deepStrictEqual([report.records, report.added, report.rejected], [4, 3, 0])
      const traces = yield* read(out)
      assert.deepStrictEqual(
        traces.map((trace) => [trace.id, trace.session, trace.calls, trace.messages.map(Message.text)]),
        [
          ["t/second", "s", 2, ["1", "one", "2", "two"]],
          ["t/other", "s", 1, ["title?", "Numbers"]],
          ["v/next", "v", 1, ["1", "one", "2", "two", "3", "three"]]
        ]
      )
      // of the last one, only its own answer is trained on
      assert.deepStrictEqual(traces[2]?.messages.map(({ trainable }) => trainable), [
        undefined,
        false,
        undefined,
        false,
        undefined,
        true
      ])
      assert.strictEqual(Trace.opening(traces[2] ?? { messages: [] }).length, 5)
      assert.strictEqual(traces[0]?.started_at, start + 10)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("of several conversations that a call continues it belongs to the longest; tools are those that were told last", () =>
    Effect.gen(function*() {
      const { at, fs, lines, out } = yield* place
      const [u1, a1, u2, a2, u3, a3] = ["1", "one", "2", "two", "3", "three"].map((text, i) =>
        said(i % 2 === 0 ? "user" : "assistant", text)
      )
      const tools = { "gen_ai.tool.definitions": JSON.stringify([{ name: "f", description: "Does.", parameters: {} }]) }
      yield* lines("spans.jsonl", [
        span("t", "a", start + 1, [u1], [a1]),
        // The same question again, which is a conversation of its own.
        span("t", "b", start + 2, [u1], [a1]),
        span("t", "c", start + 3, [u1, a1, u2], [a2], tools),
        span("t", "d", start + 4, [u1, a1, u2, a2, u3], [a3])
      ])
      yield* TraceImport.run({ sources: [`${at}/spans.jsonl`], out })
      const traces = yield* read(out)
      assert.deepStrictEqual(traces.map(({ calls, messages }) => [calls, messages.length]).sort(), [[1, 2], [3, 6]])
      const long = traces.find(({ calls }) => calls === 3)
      assert.deepStrictEqual(long?.tools, [{ name: "f", description: "Does.", parameters: {} }])
      assert.deepStrictEqual([long?.started_at, long?.id], [start + 1, "t/d"])
      // A file that holds one record over several lines.
      yield* fs.writeFileString(`${at}/one.json`, JSON.stringify(span("u", "a", start, [u1], [a1]), null, 2))
      const report = yield* TraceImport.run({ sources: [`${at}/one.json`], out: `${at}/more.jsonl` })
      assert.deepStrictEqual([report.records, report.added, report.rejected], [1, 1, 0])
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("what cannot be used is counted, named and kept, once", () =>
    Effect.gen(function*() {
      const { at, fs, lines, out } = yield* place
      yield* lines("spans.jsonl", [
        span("t", "a", start, [said("user", "1")], [said("assistant", "one")]),
        "{ not json",
        { colour: "green" },
        span("t", "b", start, [{ role: "user", parts: [{ type: "video", content: "x" }] }], [said("assistant", "one")]),
        span("t", "c", start, [said("user", "ann@example.org")], []),
        { run_id: "nobody", key: "thumb", score: 1 }
      ])
      const options = { sources: [`${at}/spans.jsonl`], out }
      const report = yield* TraceImport.run(options)
      assert.deepStrictEqual([report.added, report.rejected], [1, 5])
      assert.deepStrictEqual(report.examples.map(({ row }) => row).sort(), [2, 3, 4, 5, 6])
      const reason = (row: number) => report.examples.find((one) => one.row === row)?.reason ?? ""
      assert.match(reason(3), /its fields are colour/)
      assert.match(reason(4), /a part of type video/)
      assert.match(reason(5), /without an answer/)
      assert.match(reason(6), /a call that is not there/)
      const kept = yield* fs.readFileString(report.rejectedFile)
      assert.strictEqual(kept.trim().split("\n").length, 5)
      assert.notInclude(kept, "ann@example.org")
      const records = kept.trim().split("\n").map((line) => JSON.parse(line))
      assert.deepStrictEqual(records.find(({ row }) => row === 3)?.record, { colour: "green" })
      // a record of many characters is cut
      yield* lines("long.jsonl", [{ colour: "g".repeat(150_000) }])
      const long = yield* TraceImport.run({ sources: [`${at}/long.jsonl`], out: `${at}/long-traces.jsonl` })
      const { record } = JSON.parse(yield* fs.readFileString(long.rejectedFile))
      assert.match(record, /^\{"colour":"g{1000}/)
      assert.strictEqual(record.length, 100_000)
      // from the start again: the same records are not put aside twice
      yield* fs.remove(`${out}.import.json`)
      const again = yield* TraceImport.run(options)
      assert.deepStrictEqual([again.records, again.added, again.duplicates, again.rejected], [6, 0, 1, 0])
      assert.strictEqual(yield* fs.readFileString(report.rejectedFile), kept)
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("goes on where it was cut short, and takes what was added", () =>
    Effect.gen(function*() {
      const { at, fs, lines, out } = yield* place
      const rows = Array.from({ length: 40 }, (_, n) => ({
        messages: [{ role: "user", content: `question ${n}` }, { role: "assistant", content: `answer ${n}` }]
      }))
      yield* lines("chats.jsonl", rows.slice(0, 30))
      const options = { sources: [`${at}/chats.jsonl`], out }
      yield* TraceImport.run(options)
      const whole = yield* fs.readFileString(out)
      // a process that was killed while it wrote: the last line is cut, and the state is older than the file
      yield* fs.writeFileString(out, whole.slice(0, -20))
      yield* fs.remove(`${out}.import.json`)
      const repaired = yield* TraceImport.run(options)
      assert.deepStrictEqual([repaired.added, repaired.duplicates], [1, 29])
      assert.strictEqual(yield* fs.readFileString(out), whole)
      yield* lines("chats.jsonl", rows)
      const more = yield* TraceImport.run(options)
      assert.deepStrictEqual([more.records, more.added, more.duplicates], [10, 10, 0])
      const traces = yield* read(out)
      assert.strictEqual(new Set(traces.map(({ id }) => id)).size, 40)
      assert.strictEqual(Trace.answer(traces[39] ?? { messages: [] }), "answer 39")
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("personal data are replaced, and sessions named by them stay apart", () =>
    Effect.gen(function*() {
      const { at, lines, out } = yield* place
      yield* lines("spans.jsonl", [
        span("t", "a", start, [said("user", "I am ann@example.org")], [said("assistant", "Hi")], {
          "session.id": "ann@example.org"
        }),
        span("u", "b", start, [said("user", "Hello")], [said("assistant", "Hi")], { "session.id": "bob@example.org" })
      ])
      const report = yield* TraceImport.run({ sources: [`${at}/spans.jsonl`], out })
      assert.strictEqual(report.redacted, 2)
      const [ann, bob] = yield* read(out)
      assert.strictEqual(Message.text(ann?.messages[0] ?? Message.user("")), "I am [EMAIL]")
      assert.match(ann?.session ?? "", /^session-[0-9a-f]+$/)
      assert.notStrictEqual(ann?.session, bob?.session)
      const kept = `${at}/kept.jsonl`
      yield* TraceImport.run({ sources: [`${at}/spans.jsonl`], out: kept, redact: false })
      assert.strictEqual((yield* read(kept))[0]?.session, "ann@example.org")
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("little room: traces leave early, and none is lost", () =>
    Effect.gen(function*() {
      const { at, lines, out } = yield* place
      yield* lines(
        "spans.jsonl",
        Array.from({ length: 50 }, (_, n) =>
          span(`t${n}`, "a", start + n, [said("user", `question ${n}`)], [said("assistant", "yes")]))
      )
      const report = yield* TraceImport.run({ sources: [`${at}/spans.jsonl`], out, maxHeldBytes: 2000 })
      assert.deepStrictEqual([report.added, report.rejected], [50, 0])
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("recordings of the gateway keep their tokens", () =>
    Effect.gen(function*() {
      const { at, out } = yield* place
      const recorder = yield* Recorder.makeDirectory(`${at}/calls`)
      const renderer = yield* chatRenderer
      const sampler = yield* scripted(renderer, [callOf("{\"a\": 1, \"b\": 2}"), "It is 3."], 7)
      yield* Effect.gen(function*() {
        const agent = yield* AgentModel.make({ renderer, sampler, rollout: "run" })
        const question = [Message.user("1+2?")]
        const first = yield* agent.generate({ messages: question, tools: [add] })
        const answer = { role: "tool", content: "3", toolCallId: first.toolCalls[0]?.id }
        yield* agent.generate({ messages: [...question, first.message, answer], tools: [add] })
      }).pipe(Effect.provideService(Recorder.Recorder, recorder))
      yield* recorder.score("run", 0.5, { turns: 2 })
      const { calls } = yield* recorder.rollout("run")
      const report = yield* TraceImport.run({ sources: [`${at}/calls`], out })
      assert.strictEqual(report.sources.gateway, 1)
      const [trace] = yield* read(out)
      assert.strictEqual(trace?.session, "run")
      assert.deepStrictEqual(trace?.scores, { reward: 0.5, turns: 2 })
      const sampled = calls.flatMap(({ turn }) => Array.from(turn.completion))
      const { ids = [], logprobs = [], sampled: mask = [] } = trace?.tokens ?? {}
      assert.deepStrictEqual(ids.filter((_, i) => mask[i] === 1), sampled)
      assert.deepStrictEqual(
        logprobs.filter((_, i) => mask[i] === 1),
        calls.flatMap((call) => Array.from(call.logprobs))
      )
      const again = yield* TraceImport.run({ sources: [`${at}/calls`], out })
      assert.deepStrictEqual([again.added, again.duplicates], [0, 1])
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it.scoped("exports as one JSON array, with traces and their observations and scores", () =>
    Effect.gen(function*() {
      const { at, fs, out } = yield* place
      const observation = (id: string, type: string) => ({
        id,
        type,
        input: { messages: [{ role: "user", content: "Hello" }] },
        output: { role: "assistant", content: "Hi" },
        model: "m",
        usageDetails: { input: 3, output: 1 },
        calculatedTotalCost: 0.25
      })
      const trace = {
        id: "t",
        sessionId: "s",
        tags: ["vip"],
        observations: [observation("o", "GENERATION"), observation("p", "SPAN")],
        scores: [{ name: "helpful", value: 0.75 }, { name: "user-rating", value: 5, comment: "great" }]
      }
      yield* fs.writeFileString(`${at}/export.json`, JSON.stringify([trace], null, 2))
      const report = yield* TraceImport.run({ sources: [`${at}/export.json`], out })
      assert.strictEqual(report.added, 1)
      const [found] = yield* read(out)
      assert.deepStrictEqual(found?.scores, { helpful: 0.75 })
      assert.deepStrictEqual(found?.feedback, { value: 5, comment: "great" })
      assert.deepStrictEqual([found?.session, found?.cost, found?.tags], ["s", 0.25, ["vip"]])
    }).pipe(Effect.provide(NodeFileSystem.layer)))

  it("messages in the spellings of other libraries", () => {
    const call = { id: "c", name: "f", arguments: "{\"a\":1}" }
    const whole = [
      { role: "user", content: "Go" },
      { role: "assistant", content: "Well.", toolCalls: [call] },
      { role: "tool", content: "3", toolCallId: "c" },
      { role: "assistant", content: "Done" }
    ]
    const spellings: Readonly<Record<string, unknown>> = {
      openai: [
        { role: "user", content: [{ type: "text", text: "Go" }] },
        {
          role: "assistant",
          content: "Well.",
          tool_calls: [{ id: "c", function: { name: "f", arguments: "{\"a\":1}" } }]
        },
        { role: "tool", tool_call_id: "c", content: "3" },
        { role: "assistant", content: "Done" }
      ],
      responses: {
        input: [
          { role: "user", content: [{ type: "input_text", text: "Go" }] },
          { type: "message", role: "assistant", content: [{ type: "output_text", text: "Well." }] },
          { type: "function_call", call_id: "c", name: "f", arguments: "{\"a\":1}" },
          { type: "function_call_output", call_id: "c", output: "3" },
          { type: "message", role: "assistant", content: [{ type: "output_text", text: "Done" }] }
        ]
      },
      anthropic: [
        { role: "user", content: "Go" },
        {
          role: "assistant",
          content: [{ type: "text", text: "Well." }, { type: "tool_use", id: "c", name: "f", input: { a: 1 } }]
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "3" }] }] },
        { role: "assistant", content: [{ type: "text", text: "Done" }] }
      ],
      langchain: [[
        { lc: 1, type: "constructor", id: ["langchain_core", "messages", "HumanMessage"], kwargs: { content: "Go" } },
        {
          lc: 1,
          type: "constructor",
          id: ["langchain_core", "messages", "AIMessage"],
          kwargs: { content: "Well.", tool_calls: [{ id: "c", name: "f", args: { a: 1 } }] }
        },
        {
          lc: 1,
          type: "constructor",
          id: ["langchain_core", "messages", "ToolMessage"],
          kwargs: { content: "3", tool_call_id: "c" }
        },
        { type: "ai", data: { content: "Done" } }
      ]]
    }
    for (const [name, value] of Object.entries(spellings)) {
      assert.deepStrictEqual(
        Either.getOrThrow(TraceImport.messagesOf(value)).map((message) => ({ ...message })),
        whole,
        name
      )
    }
    assert.deepStrictEqual(
      Either.getOrThrow(TraceImport.messagesOf({ generations: [[{ message: { role: "assistant", content: "Hi" } }]] })),
      [{ role: "assistant", content: "Hi" }]
    )
    assert.isTrue(Either.isLeft(TraceImport.messagesOf([{ role: "user", content: [{ type: "input_audio" }] }])))
  })
})
