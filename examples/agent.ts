/**
 * Trains the model of an agent that was written with the AI SDK, and runs the same agent on the checkpoint.
 */
import { Agent, AgentModel, Recorder, Sampler } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import type { RunEntry } from "@effect-tinker/cookbook"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import { Chat } from "@effect-tinker/tokenizer"
import { Array, Console, Effect, Option, Stream } from "effect"
import { SamplingClient } from "effect-tinker"
import { answer, remember } from "./agent/support.js"

const statuses = ["shipped", "delivered", "delayed", "packed", "lost", "returned"]

/** A past ticket: the question, and the status that answers it. */
const ticket = (n: number) => {
  const id = `${"KBDH"[n % 4] ?? ""}${100 + 37 * n % 900}`
  const status = statuses[n % 6] ?? ""
  remember(id, status)
  return { question: `Where is my order ${id}?`, status }
}

/** The tasks, how the agent is run at one of them, and what its result is worth. */
const agent = AiSdk.agent({
  tasks: Array.range(1, 24).map(ticket),
  test: Array.range(101, 124).map(ticket),
  run: ({ question }, { model, signal }) => answer(model, question, signal),
  score: ({ status }, { text }) => text.includes(status)
})

const percent = (metrics: RunEntry.Metrics | undefined) => `${Math.round(100 * (metrics?.["env/all/reward"] ?? NaN))}%`

const program = Effect.gen(function*() {
  const { renderer } = yield* Chat.forModel("local/chat")
  const steps = Agent.train({
    agent,
    model: { baseModel: "local/chat", rank: 16 },
    renderer,
    learningRate: 2e-4,
    adam: { clip: 1 },
    maxTokens: 48,
    groupSize: 8,
    groupsPerBatch: 8,
    epochs: 1
  })
  const last = yield* steps.pipe(
    Stream.tap(({ evaluations, metrics, step }) => {
      const before = evaluations["test"]
      return Console.log(
        `step ${step}: ${percent(metrics)} of the tickets answered` +
          (before === undefined ? "" : `, ${percent(before)} of those held out`)
      )
    }),
    Stream.runLast
  )
  const { checkpoint, evaluations } = Option.getOrThrow(Option.flatMap(last, ({ final }) => final))
  yield* Console.log(`trained: ${percent(evaluations["test"])} of those held out`)

  // The same agent on the checkpoint; its calls are recorded here too.
  const client = yield* SamplingClient.make({ modelPath: checkpoint.samplerPath ?? "" })
  const recorded = yield* AgentModel.make({
    renderer,
    sampler: Sampler.fromClient(client),
    defaults: { temperature: 0 }
  })
  const model = yield* AiSdk.make(recorded)
  for (const n of [200, 201]) {
    const { question } = ticket(n)
    const { text } = yield* Effect.promise((signal) => answer(model, question, signal))
    yield* Console.log(`${question} ${text}`)
  }
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide([Recorder.layer(), NodeTinkerLocal.layerInProcess()])))
