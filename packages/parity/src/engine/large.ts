/**
 * A directory with the shape of a real model: a hundred million random weights in 16 bits, written by the libraries that
 * write real ones, loaded onto worker threads, trained for a step and sampled from, with time and memory.
 */
import { Engine, LocalCheckpoint, LocalModel, LocalTokenizer } from "@effect-tinker/local"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import { FileSystem, Path } from "@effect/platform"
import { Console, Duration, Effect } from "effect"
import * as Python from "../Python.js"
import { PythonFailed } from "../Suite.js"

const seconds = (duration: Duration.Duration): string => `${Duration.toSeconds(duration).toFixed(1)} s`

const megabytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

export const largeModel = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const directory = yield* fs.makeTempDirectoryScoped()
  const python = yield* Python.makeCookbook
  yield* python.run("engine_large", directory, `${LocalTokenizer.specialTokens["<|im_end|>"]}`)
  const { tokenizerConfig, tokenizerJson } = LocalTokenizer.huggingFaceFiles
  yield* fs.writeFileString(path.join(directory, "tokenizer.json"), JSON.stringify(tokenizerJson))
  yield* fs.writeFileString(path.join(directory, "tokenizer_config.json"), JSON.stringify(tokenizerConfig))

  const before = process.memoryUsage().rss
  const model = yield* LocalCheckpoint.fromDirectory(directory, { name: "random/100m" })
  yield* Effect.gen(function*() {
    const engine = yield* Engine.Engine
    const [loading] = yield* Effect.timed(engine.load(model.name))
    const loaded = process.memoryUsage().rss - before
    yield* Console.log(
      `${
        (LocalModel.parameterCount(model) / 1e6).toFixed(0)
      } million parameters on ${engine.threads} thread(s): loaded in ${seconds(loading)}, ${megabytes(loaded)}`
    )
    const adapter = yield* engine.createAdapter({ baseModel: model.name, rank: 16, seed: 1 })
    const data = Array.from({ length: 4 }, (_, index) => {
      const tokens = Int32Array.from({ length: 129 }, (_, i) => (i * 37 + index * 91) % 256)
      return { tokens: tokens.slice(0, -1), lossInputs: { target_tokens: { data: tokens.slice(1), shape: [128] } } }
    })
    const pass = adapter.forwardBackward({ data, loss: "cross_entropy" })
    const [took, first] = yield* Effect.timed(pass)
    const [stepped] = yield* Effect.timed(adapter.optimStep({ learningRate: 1e-4 }))
    const second = yield* adapter.forwardBackward({ data, loss: "cross_entropy", forwardOnly: true })
    yield* Console.log(
      `a step of 4 x 128 tokens, rank 16: passes ${seconds(took)}, optimizer ${seconds(stepped)}; loss ${
        (first.metrics["loss:sum"] ?? NaN).toFixed(1)
      }, then ${(second.metrics["loss:sum"] ?? NaN).toFixed(1)}`
    )
    const sampler = yield* engine.sampler(yield* adapter.snapshot({ optimizer: false }))
    const [sampling, { sequences }] = yield* Effect.timed(
      sampler.sample({
        prompt: Array.from({ length: 64 }, (_, i) => i),
        numSamples: 4,
        params: { maxTokens: 32, seed: 1, stop: [] }
      })
    )
    const drawn = sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
    yield* Console.log(
      `${drawn} tokens in 4 samples: ${seconds(sampling)}; at most ${
        megabytes(process.resourceUsage().maxRSS * 1024 - before)
      } of memory in all`
    )
  }).pipe(Effect.provide(NodeEngine.layer({ models: [model] })))
}).pipe(
  Effect.scoped,
  Effect.catchTags({
    BadArgument: (error) => new PythonFailed({ program: "engine large", reason: error.message }),
    SystemError: (error) => new PythonFailed({ program: "engine large", reason: error.message })
  })
)
