/**
 * Trains the model of an agent that was written with the AI SDK, and runs the same agent on the checkpoint.
 */
import { Agent, AgentModel, Recorder } from "@effect-tinker/agents"
import * as AiSdk from "@effect-tinker/agents/AiSdk"
import { Chat } from "@effect-tinker/tokenizer"
import { Array, Console, Effect, Option, Stream } from "effect"
import { SamplingClient } from "effect-tinker"
import { answer, statusOf } from "./agent/support.js"
import { ChatBackend } from "./shared/chat.js"

const order = (n: number) => `${n % 2 === 0 ? "E" : "U"}${100 + 37 * n % 900}`

/** The tasks, how the agent is run at one of them, and what its result is worth. */
const agent = AiSdk.agent({
  tasks: Array.range(1, 24).map(order),
  test: Array.range(101, 124).map(order),
  run: (order, { model, signal }) => answer(model, `Where is my order ${order}?`, signal),
  score: (order, { text }) => text.includes(statusOf(order))
})

const percent = (share: number | undefined) => `${Math.round(100 * (share ?? NaN))}%`

const program = Effect.gen(function*() {
  const { renderer } = yield* Chat.forModel("local/chat")
  const steps = Agent.train({
    agent,
    model: { baseModel: "local/chat", rank: 16 },
    renderer,
    learningRate: 5e-4,
    adam: { clip: 1 },
    maxTokens: 48,
    groupSize: 8,
    groupsPerBatch: 8,
    epochs: 4
  })
  const last = yield* steps.pipe(
    Stream.tap(({ evaluations, metrics, step }) =>
      step === 1 || step % 4 === 0
        ? Console.log(
          `step ${step}: ${percent(metrics["env/all/reward"])} of the tickets answered` +
            (step === 1 ? `, ${percent(evaluations["test"]?.["env/all/reward"])} of those held out` : "")
        )
        : Effect.void
    ),
    Stream.runLast
  )
  const { checkpoint, evaluations } = Option.getOrThrow(Option.flatMap(last, ({ final }) => final))
  yield* Console.log(`trained: ${percent(evaluations["test"]?.["env/all/reward"])} of those held out`)

  // The same agent on the checkpoint; its calls are recorded here too.
  const client = yield* SamplingClient.make({ modelPath: checkpoint.samplerPath ?? "" })
  const recorded = yield* AgentModel.make({ renderer, sampler: AgentModel.sampler(client) })
  const model = yield* AiSdk.make(recorded)
  for (const ticket of ["E321", "U654"]) {
    const { text } = yield* Effect.promise((signal) => answer(model, `Where is my order ${ticket}?`, signal))
    yield* Console.log(text)
  }
})

Effect.runPromise(program.pipe(Effect.scoped, Effect.provide([Recorder.layer(), ChatBackend])))
