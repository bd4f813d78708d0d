import { Trace, TraceImport } from "@effect-tinker/agents"
import * as NodeTraceReceiver from "@effect-tinker/agents/NodeTraceReceiver"
import { Dataset } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import { fileURLToPath } from "node:url"
import { install } from "../../../.ci/install.mjs"
import { answer, type Conversation, type Log, question } from "./exporters/programs/shared.js"
import { logServer } from "./support/logServer.js"

const directory = fileURLToPath(new URL("./exporters/programs", import.meta.url))
const { missing } = await install("packages/agents/test/exporters")

const conversations: ReadonlyArray<Conversation> = [
  { session: "s-1", city: "Oslo", degrees: 4, thumb: 1 },
  { session: "s-2", city: "Bergen", degrees: 6, thumb: 0 },
  { session: "s-2", city: "Tromso", degrees: -3, thumb: 1 }
]

interface Program {
  readonly name: string
  readonly module: string
  readonly log: string
  /** The files it leaves, the spans among them. */
  readonly files: ReadonlyArray<string>
  readonly source: Trace.Source
  /** What the library does not log is not there. */
  readonly without?: ReadonlyArray<"session" | "feedback" | "usage" | "tools">
  /** Calls of each trace, where they are not two. */
  readonly calls?: number
}

const bare = ["tools"] as const

const programs: ReadonlyArray<Program> = [
  {
    name: "AI SDK 6 through OTLP as JSON",
    module: "ai-sdk",
    log: "sixJson",
    files: ["spans.jsonl"],
    source: "otel",
    without: ["feedback"]
  },
  {
    name: "AI SDK 6 through OTLP as protobuf",
    module: "ai-sdk",
    log: "sixProtobuf",
    files: ["spans.jsonl"],
    source: "otel",
    without: ["feedback"]
  },
  {
    name: "AI SDK 7 (conventions for generative AI)",
    module: "ai-sdk",
    log: "seven",
    files: ["spans.jsonl"],
    source: "otel",
    without: ["feedback", "session"]
  },
  {
    name: "Langfuse 3",
    module: "langfuse",
    log: "three",
    files: ["langfuse.jsonl"],
    source: "langfuse",
    without: bare
  },
  {
    name: "Langfuse 5",
    module: "langfuse",
    log: "five",
    files: ["spans.jsonl", "langfuse.jsonl"],
    source: "langfuse",
    without: bare
  },
  {
    name: "Braintrust",
    module: "braintrust",
    log: "log",
    files: ["braintrust.jsonl"],
    source: "braintrust",
    without: bare
  },
  {
    name: "LangSmith",
    module: "langsmith",
    log: "log",
    files: ["langsmith.jsonl", "langsmith-feedback.jsonl"],
    source: "langsmith",
    without: bare
  },
  {
    name: "a batch of OpenAI",
    module: "openai",
    log: "batch",
    files: ["batch-input.jsonl", "batch-output.jsonl"],
    source: "openai",
    without: ["feedback", "tools"],
    calls: 1
  },
  {
    name: "stored completions of OpenAI",
    module: "openai",
    log: "stored",
    files: ["stored.jsonl"],
    source: "openai",
    without: ["feedback", "tools"]
  }
]

const load = (module: string, name: string): Effect.Effect<Log> =>
  Effect.promise(async () => (await import(`${directory}/${module}.ts`))[name])

describe.skipIf(missing !== undefined).sequential("files of the real exporters", () => {
  for (const program of programs) {
    const { calls = 2, without = [] } = program
    it.scopedLive(`${program.name}: every conversation once, whole`, () =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const at = yield* fs.makeTempDirectoryScoped()
        const receiver = yield* NodeTraceReceiver.serve({ out: `${at}/spans.jsonl`, port: 0 })
        const server = yield* logServer(receiver.url, conversations)
        const log = yield* load(program.module, program.log)
        yield* Effect.promise(() => log(server.url, conversations))
        for (const [name, lines] of server.files) yield* fs.writeFileString(`${at}/${name}`, lines.join("\n"))
        const sources = program.files.map((name) => `${at}/${name}`)
        const out = `${at}/traces.jsonl`
        const report = yield* TraceImport.run({ sources, out })
        assert.deepStrictEqual(report.examples, [])
        const traces = Chunk.toReadonlyArray(yield* Stream.runCollect(Dataset.values(Trace.jsonl(out))))
        assert.strictEqual(traces.length, conversations.length)
        assert.strictEqual(report.added, conversations.length)
        assert.strictEqual(report.sources[program.source], report.added)
        for (const one of conversations) {
          const trace = traces.find((trace) => Trace.answer(trace) === answer(one))
          assert(trace !== undefined, `no trace ends with ${answer(one)}`)
          assert.deepStrictEqual(trace.messages.map(({ role }) => role), [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant"
          ])
          assert.strictEqual(trace.messages.map(Message.text)[1], question(one))
          const [call] = trace.messages[2]?.toolCalls ?? []
          assert.deepStrictEqual([call?.name, JSON.parse(call?.arguments ?? "")], ["weather", { city: one.city }])
          assert.deepStrictEqual(JSON.parse(Message.text(trace.messages[3] ?? Message.user(""))), {
            degrees: one.degrees
          })
          assert.strictEqual(trace.calls, calls)
          assert.deepStrictEqual(trace.usage, { input: 10 * calls, output: 3 * calls })
          assert.match(trace.model ?? "", /^(mock-6|mock-7|gpt-4o)$/)
          if (!without.includes("session")) assert.strictEqual(trace.session, one.session)
          if (!without.includes("feedback")) assert.strictEqual(trace.feedback?.value, one.thumb)
          if (!without.includes("tools")) assert.deepStrictEqual(trace.tools?.map(({ name }) => name), ["weather"])
          if (program.log === "five") assert.strictEqual(trace.cost, 1)
          if (program.log === "log" && program.module === "braintrust") {
            assert.deepStrictEqual(trace.scores, { brief: 0.5 })
          }
        }
        const again = yield* TraceImport.run({ sources, out })
        assert.deepStrictEqual([again.added, again.records], [0, 0])
      }).pipe(Effect.provide(NodeFileSystem.layer)), 120_000)
  }
})
