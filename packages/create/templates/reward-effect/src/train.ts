/**
 * Trains a model by trial: a program scores its answers. Run it again to go on where it was stopped.
 */
import { Environment, Evaluator, Loss, Reinforce, RunLog } from "@effect-tinker/cookbook"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Option, Stream } from "effect"
import { Backend, model } from "./backend.js"
import { heldOut, question, reward, training } from "./task.js"

const percent = (share: number | undefined) => `${Math.round(100 * (share ?? NaN))} %`

const program = Effect.gen(function*() {
  const baseModel = yield* model
  const { renderer } = yield* Chat.forModel(baseModel)
  const last = yield* Reinforce.train({
    model: { baseModel, rank: 16, seed: 0 },
    problems: Environment.problems(training, { question, reward }),
    renderer,
    learningRate: { peak: 2e-4, decay: "linear" },
    adam: { clip: 1 },
    maxTokens: 8,
    groupSize: 8, // answers to one problem, which are compared with each other
    groupsPerBatch: 16,
    epochs: 1,
    shuffle: 0,
    seed: 0,
    loss: Loss.ppo(),
    evaluate: [
      Evaluator.rollouts(Environment.problems(heldOut, { question, reward }), {
        settings: { renderer },
        maxTokens: 8,
        groupSize: 4,
        seed: 0
      })
    ],
    evaluateEvery: 1000, // before the first step and after the last one
    log: RunLog.directory("runs/reward")
  }).pipe(
    Stream.tap(({ evaluations, metrics, step }) => {
      const before = evaluations["rollouts"]
      return Console.log(
        `step ${step}: ${percent(metrics["env/all/reward"])} right` +
          (before === undefined ? "" : `; held out: ${percent(before["env/all/reward"])}`)
      )
    }),
    Stream.runLast
  )

  const final = Option.flatMap(last, ({ final }) => final)
  if (Option.isNone(final)) return yield* Console.log("this run has ended; remove runs/reward to train again")
  const { checkpoint, evaluations } = final.value
  yield* Console.log(`held out, trained: ${percent(evaluations["rollouts"]?.["env/all/reward"])}`)
  yield* Console.log(`checkpoint: ${checkpoint.samplerPath}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide([Backend, NodeContext.layer])))
