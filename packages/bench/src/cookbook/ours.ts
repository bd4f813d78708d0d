/**
 * `Reinforce.train` over HTTP. A line `STEPS` in, the CPU it took and the tokens it sampled as JSON out.
 */
import { Environment, Reinforce } from "@effect-tinker/cookbook"
import { LocalTokenizer } from "@effect-tinker/local"
import { Message, Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Effect, Layer, Logger, Redacted, Stream } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { createInterface } from "node:readline"
import { group, maxTokens, problems, question, reward, shown } from "./rollouts.js"

const [baseUrl = "", apiKey = ""] = process.argv.slice(2)

const Clients = Tinker.layer({ baseUrl, apiKey: Redacted.make(apiKey) }).pipe(
  Layer.provide(NodeTinker.layer()),
  // standard output is for the figures
  Layer.provideMerge(Logger.remove(Logger.defaultLogger))
)

const train = (steps: number) =>
  Effect.gen(function*() {
    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const used = process.cpuUsage()
    const tokens = yield* Reinforce.train({
      model: { baseModel: "local/tiny", rank: 32, seed: 1 },
      problems: Environment.problems(Array.from({ length: problems * steps }, (_, n) => n), {
        question: (n) => [...shown, Message.user(question(n))],
        reward: (_, answer) => reward(answer)
      }),
      renderer,
      learningRate: 4e-5,
      maxTokens,
      groupSize: group,
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
  Effect.runPromise(train(Number(line))).then(
    (figures) => process.stdout.write(`${JSON.stringify(figures)}\n`),
    (error) => {
      process.stderr.write(`${String(error)}\n`)
      process.exit(1)
    }
  )
})
