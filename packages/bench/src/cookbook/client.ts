/**
 * A client in its own process: a line `STEPS GROUP TOKENS` in, the CPU it took and the tokens it sampled as JSON out.
 */
import { LocalTokenizer } from "@effect-tinker/local"
import type { Renderer } from "@effect-tinker/tokenizer"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { Effect, Layer, Logger, Redacted } from "effect"
import { Tinker } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { createInterface } from "node:readline"

const [baseUrl = "", apiKey = ""] = process.argv.slice(2)

const Clients = Tinker.layer({ baseUrl, apiKey: Redacted.make(apiKey) }).pipe(
  Layer.provide(NodeTinker.layer()),
  // standard output is for the figures
  Layer.provideMerge(Logger.remove(Logger.defaultLogger))
)

interface Work {
  readonly steps: number
  readonly group: number
  readonly maxTokens: number
  readonly renderer: Renderer.Renderer
}

/** Answers each line with the figures of a run, which gives the number of tokens it sampled. */
export const measure = <E>(train: (work: Work) => Effect.Effect<number, E, Tinker.Tinker>): void => {
  const figures = Effect.fnUntraced(function*(steps: number, group: number, maxTokens: number) {
    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const used = process.cpuUsage()
    const tokens = yield* train({ steps, group, maxTokens, renderer }).pipe(Effect.provide(Clients))
    const { system, user } = process.cpuUsage(used)
    return { cpu: (system + user) / 1e6, tokens }
  })
  createInterface(process.stdin).on("line", (line) => {
    const [steps = 0, group = 0, tokens = 0] = line.split(" ").map(Number)
    Effect.runPromise(figures(steps, group, tokens)).then(
      (found) => process.stdout.write(`${JSON.stringify(found)}\n`),
      (error) => {
        process.stderr.write(`${String(error)}\n`)
        process.exit(1)
      }
    )
  })
}
