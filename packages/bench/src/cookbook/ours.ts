/**
 * `Reinforce.train` over HTTP. A line `STEPS GROUP TOKENS` in, the CPU it took and the tokens it sampled as JSON out.
 */
import { Dataset, Environment, Reinforce } from "@effect-tinker/cookbook"
import { LocalTokenizer } from "@effect-tinker/local"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Effect, Layer, Logger, Redacted, Stream } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { createInterface } from "node:readline"
import { problems, question, reward, shown } from "./rollouts.js"

const [baseUrl = "", apiKey = ""] = process.argv.slice(2)

const Clients = Tinker.layer({ baseUrl, apiKey: Redacted.make(apiKey) }).pipe(
  Layer.provide(NodeTinker.layer()),
  // standard output is for the figures
  Layer.provideMerge(Logger.remove(Logger.defaultLogger))
)

/** One turn, graded as the official loop does: also an answer that was cut off. */
const problem = (renderer: Renderer.Renderer, prompt: Int32Array) =>
  Environment.group(() =>
    Effect.succeed(
      {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt, stop: renderer.stop } }),
        step: ({ tokens }) =>
          Effect.sync(() => ({
            _tag: "Done" as const,
            reason: "completed" as const,
            reward: reward(Message.text(renderer.parse(tokens).message))
          }))
      } satisfies Environment.Environment
    ), { samePrompt: true })

const train = (steps: number, groupSize: number, maxTokens: number) =>
  Effect.gen(function*() {
    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const used = process.cpuUsage()
    const tokens = yield* Reinforce.train({
      model: { baseModel: "local/tiny", rank: 32, seed: 1 },
      problems: Dataset.mapEffect(
        Dataset.fromIterable(Array.from({ length: problems * steps }, (_, n) => n)),
        (n) =>
          Effect.map(
            renderer.generationPrompt([...shown, Message.user(question(n))]),
            (prompt) => problem(renderer, prompt)
          )
      ),
      renderer,
      learningRate: 4e-5,
      maxTokens,
      groupSize,
      groupsPerBatch: problems
    }).pipe(Stream.runFold(0, (sum, { detail }) =>
      sum + detail.groups.flatMap(({ trajectories }) => trajectories).reduce(
        (of, { turns }) => of + turns.reduce((all, { action }) => all + action.tokens.length, 0),
        0
      )))
    const { system, user } = process.cpuUsage(used)
    return { cpu: (system + user) / 1e6, tokens }
  }).pipe(Effect.provide(Clients))

createInterface(process.stdin).on("line", (line) => {
  const [steps = 0, group = 0, tokens = 0] = line.split(" ").map(Number)
  Effect.runPromise(train(steps, group, tokens)).then(
    (figures) => process.stdout.write(`${JSON.stringify(figures)}\n`),
    (error) => {
      process.stderr.write(`${String(error)}\n`)
      process.exit(1)
    }
  )
})
