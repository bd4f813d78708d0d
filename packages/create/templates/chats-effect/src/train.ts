/**
 * Fine-tunes a model on conversations in a file. Run it again to go on where it was stopped.
 */
import { Evaluator, Example, RunLog, Supervised } from "@effect-tinker/cookbook"
import { Chat } from "@effect-tinker/tokenizer"
import { NodeContext, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Option, Stream } from "effect"
import { SamplingClient } from "effect-tinker"
import { Backend, model } from "./backend.js"

const question = "Where is my drum? The order is 417."

const program = Effect.gen(function*() {
  const baseModel = yield* model
  const chat = yield* Chat.forModel(baseModel)
  const ask = (client: SamplingClient.Service) =>
    Effect.map(chat.ask(client, question, { temperature: 0, maxTokens: 40 }), ({ text }) => text)

  yield* Console.log(`before: ${question} → ${yield* ask(yield* SamplingClient.make({ baseModel }))}`)
  const last = yield* Supervised.train({
    model: { baseModel, rank: 16, seed: 0 },
    data: Example.chats("data/chats.jsonl"),
    renderer: chat.renderer,
    learningRate: { peak: 1e-3, decay: "cosine", warmUp: 2 },
    batchSize: 8,
    epochs: 8,
    shuffle: 0,
    evaluate: [Evaluator.nll(Example.toData({ renderer: chat.renderer })(Example.chats("data/held-out.jsonl")))],
    log: RunLog.directory("runs/chats")
  }).pipe(
    Stream.tap(({ loss, step, totalSteps }) =>
      Console.log(`step ${step} of ${Option.getOrElse(totalSteps, () => "?")}: loss ${loss.toFixed(3)}`)
    ),
    Stream.runLast
  )

  const final = Option.flatMap(last, ({ final }) => final)
  if (Option.isNone(final)) return yield* Console.log("this run has ended; remove runs/chats to train again")
  const { checkpoint, evaluations } = final.value
  yield* Console.log(`held out: loss ${evaluations["test"]?.["nll"]?.toFixed(3)}`)
  const trained = yield* SamplingClient.make({ modelPath: checkpoint.samplerPath ?? "" })
  yield* Console.log(`after: ${question} → ${yield* ask(trained)}`)
  yield* Console.log(`checkpoint: ${checkpoint.samplerPath}`)
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide([Backend, NodeContext.layer])))
