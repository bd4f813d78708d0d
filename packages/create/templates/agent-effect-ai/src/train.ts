/**
 * Trains the model of the agent: it runs several times at each ticket, and what was better than its group is reinforced.
 * Run it again to go on where it was stopped.
 */
import { Agent } from "@effect-tinker/agents"
import { RunLog } from "@effect-tinker/cookbook"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Option, Stream } from "effect"
import { agent } from "./agent.js"
import { Backend, model } from "./backend.js"

const percent = (share: number | undefined) => `${Math.round(100 * (share ?? NaN))} %`

const program = Effect.gen(function*() {
  const baseModel = yield* model
  const { renderer } = yield* Chat.forModel(baseModel)
  const last = yield* Agent.train({
    agent,
    model: { baseModel, rank: 16, seed: 0 },
    renderer,
    learningRate: 2e-4,
    adam: { clip: 1 },
    maxTokens: 48,
    groupSize: 8,
    groupsPerBatch: 8,
    epochs: 1,
    seed: 0,
    test: { seed: 0 },
    log: RunLog.directory("runs/agent")
  }).pipe(
    Stream.tap(({ evaluations, metrics, step }) => {
      const before = evaluations["test"]
      return Console.log(
        `step ${step}: ${percent(metrics["env/all/reward"])} of the tickets answered` +
          (before === undefined ? "" : `; held out: ${percent(before["env/all/reward"])}`)
      )
    }),
    Stream.runLast
  )

  const final = Option.flatMap(last, ({ final }) => final)
  if (Option.isNone(final)) return yield* Console.log("this run has ended; remove runs/agent to train again")
  const { checkpoint, evaluations } = final.value
  yield* Console.log(`held out, trained: ${percent(evaluations["test"]?.["env/all/reward"])}`)
  yield* Console.log(`checkpoint: ${checkpoint.samplerPath}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide([Backend, NodeContext.layer])))
