import { Evaluator, Example, RunLog, Supervised } from "@effect-tinker/cookbook"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Console, Stream } from "effect"

const program = (renderer: Renderer.Renderer) =>
  Supervised.train({
    model: { baseModel: "Qwen/Qwen3-8B", rank: 32 },
    data: Example.chats("chats.jsonl"),
    renderer,
    maxLength: 8192,
    learningRate: { peak: 2e-4, decay: "cosine", warmUp: 10 },
    epochs: 2,
    shuffle: 1,
    evaluate: [Evaluator.nll(Example.toData({ renderer })(Example.chats("held-out.jsonl")))],
    log: RunLog.directory("runs/support") // run again = resume, exactly
  }).pipe(
    Stream.tap(({ loss, step }) => Console.log(`step ${step}: ${loss.toFixed(3)}`)),
    Stream.runDrain
  )

export { program }
