/**
 * What an agent did in production makes it better: its calls are recorded and its customers say what they think, the traces
 * are imported, and what was good is trained on. A page says whether to ship the result.
 */
import { Agent, AgentModel, Improve, Recorder, Sampler, Trace, TraceImport } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat, Message } from "@effect-tinker/tokenizer"
import { FileSystem } from "@effect/platform"
import { NodeFileSystem } from "@effect/platform-node"
import { Array, Console, Effect, Option } from "effect"
import { SamplingClient } from "effect-tinker"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { answer, remember } from "./agent/support.js"

/** Where the backend keeps its checkpoints. */
const directory = mkdtempSync(join(tmpdir(), "improve-"))

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

const tickets = Array.range(1, 160).map((n) => {
  const id = `${"KBDH"[n % 4] ?? ""}${100 + 37 * n % 900}`
  const status = statuses[n % 6] ?? ""
  remember(id, status)
  return { session: `customer-${n}`, question: `Where is my order ${id}?`, status }
})

/** The agent in production: its calls are recorded, and customers whose question was answered are content. */
const production = (directory: string, seed: number) =>
  Effect.gen(function*() {
    const { renderer } = yield* Chat.forModel("local/chat")
    const recorder = yield* Recorder.makeDirectory(directory)
    const sampler = Sampler.fromClient(yield* SamplingClient.make({ baseModel: "local/chat" }))
    yield* Effect.forEach(tickets, ({ question, session, status }, n) =>
      Effect.gen(function*() {
        const defaults = { temperature: 1, seed: 1000 * seed + n }
        const model = yield* AgentModel.make({ renderer, sampler, rollout: session, defaults })
        const sdk = yield* AiSdk.make(model)
        const said = yield* Effect.option(Effect.tryPromise((signal) => answer(sdk, question, signal)))
        yield* recorder.score(session, Number(Option.exists(said, ({ text }) => text.includes(status))))
      }), { concurrency: 8 }).pipe(Effect.provideService(Recorder.Recorder, recorder))
  }).pipe(Effect.scoped)

/** The agent as it is evaluated: at what the customers who are held out asked. */
const agent = AiSdk.agent({
  tasks: tickets,
  run: ({ question }, { model, signal }) => answer(model, question, signal),
  score: ({ status }, { text }) => text.includes(status)
})

const suite = Improve.suite((trace) => {
  const asked = Message.text(Trace.opening(trace).at(-1) ?? Message.user(""))
  const ticket = tickets.find(({ question }) => question === asked)
  return ticket && Agent.problem(agent, ticket)
}, { limits: Agent.defaultLimits })

const program = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const seed = Number(Option.getOrElse(Option.fromNullable(process.argv[2]), () => "1"))
  const at = yield* fs.makeTempDirectoryScoped()
  yield* production(`${at}/calls`, seed)

  const { added, rejected } = yield* TraceImport.run({ sources: [`${at}/calls`], out: `${at}/traces.jsonl` })
  yield* Console.log(`${added} traces, ${rejected} records put aside`)

  const { renderer } = yield* Chat.forModel("local/chat")
  const { comparison, examples, sessions, verdict } = yield* Improve.run({
    traces: Trace.jsonl(`${at}/traces.jsonl`),
    model: { baseModel: "local/chat", rank: 16, seed },
    renderer,
    suite,
    directory: `${at}/run`,
    split: { share: 0.3, seed },
    learningRate: 5e-4,
    sampling: { maxTokens: 48 }
  })
  const [before, after] = comparison.scores.map((score) => `${Math.round(100 * score)}%`)
  yield* Console.log(`${examples.sft} successes of ${sessions.train} sessions`)
  yield* Console.log(`${before} of ${sessions.heldOut} held-out sessions answered, ${after} after`)
  yield* Console.log(verdict)
})

Effect.runPromise(
  program.pipe(Effect.scoped, Effect.provide([NodeFileSystem.layer, NodeTinkerLocal.layerInProcess({ directory })]))
)
