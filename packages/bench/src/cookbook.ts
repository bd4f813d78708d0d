/**
 * Reinforcement learning: the CPU the client takes for a sampled token, beside the official cookbook's RL loop, and how much
 * faster steps follow each other when rollouts that wait overlap with training.
 */
import { Dataset, Environment, Reinforce } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem, Path } from "@effect/platform"
import { Clock, Duration, Effect, Schema, Stream } from "effect"
import type { Bench } from "./Bench.js"
import { BenchFailed, median, round } from "./Bench.js"
import { baseModel, group, learningRate, maxTokens, problems } from "./cookbook/rollouts.js"
import * as Program from "./Program.js"
import * as Python from "./Python.js"

const Figures = Schema.parseJson(Schema.Struct({ cpu: Schema.Number, tokens: Schema.Number }))

interface Work {
  readonly steps: number
  readonly group: number
  readonly tokens: number
}

/** What is measured, in each round. */
const measured: Work = { steps: 8, group, tokens: maxTokens }

/** The same work before, for longer: a run has hundreds of steps, and compiles its code in the first ones. */
const warmUp: Work = { ...measured, steps: 100 }

const rounds = 3

/** How long a tool of the environment takes: what an asynchronous run does not wait for. */
const latency = Duration.millis(150)

/** Seconds a step takes in a mode, with environments that wait for something. */
const paced = (mode: Reinforce.Mode) =>
  Effect.gen(function*() {
    const renderer = yield* Effect.flatMap(
      Tokenizer.fromHuggingFace(LocalTokenizer.huggingFaceFiles),
      Renderers.qwen3Instruct
    )
    const waiting = Environment.group(() =>
      Effect.succeed(
        {
          initial: Effect.succeed({
            _tag: "Continue",
            observation: { prompt: Int32Array.from({ length: 16 }, (_, i) => 65 + i), stop: [] }
          }),
          step: ({ tokens }) =>
            Effect.delay(Effect.succeed({ _tag: "Done", reason: "completed", reward: (tokens[0] ?? 0) % 2 }), latency)
        } satisfies Environment.Environment
      )
    )
    const started = yield* Clock.currentTimeMillis
    const count = 12
    yield* Stream.runDrain(Reinforce.train({
      model: { baseModel: "local/tiny", rank: 16, seed: 1 },
      problems: Dataset.fromIterable(Array.from({ length: 4 * count }, () => waiting)),
      renderer,
      learningRate: 1e-4,
      maxTokens: 4,
      groupSize: 8,
      groupsPerBatch: 4,
      mode
    }))
    return ((yield* Clock.currentTimeMillis) - started) / 1000 / count
  }).pipe(
    Effect.provide(TinkerLocal.layer()),
    Effect.mapError((error) => new BenchFailed({ reason: error.message }))
  )

export const bench: Bench = {
  summary: `RL steps of ${problems} problems, ${group} rollouts each, ${maxTokens} tokens; environments that wait ${
    Duration.toMillis(latency)
  } ms`,
  run: Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const tokenizer = yield* fs.makeTempDirectoryScoped()
    yield* fs.writeFileString(
      path.join(tokenizer, "tokenizer.json"),
      JSON.stringify(LocalTokenizer.huggingFaceFiles.tokenizerJson)
    )
    yield* fs.writeFileString(
      path.join(tokenizer, "tokenizer_config.json"),
      JSON.stringify(LocalTokenizer.huggingFaceFiles.tokenizerConfig)
    )
    const server = yield* Program.startModule("./cookbook/server.js")
    const [baseUrl = "", apiKey = ""] = (yield* server.ask("")).split(" ")
    const ours = yield* Program.startModule("./cookbook/ours.js", baseUrl, apiKey)
    const loop = yield* Program.startModule("./cookbook/loop.js", baseUrl, apiKey)
    const python = yield* Python.startCookbook(
      "cookbook.py",
      baseUrl,
      apiKey,
      baseModel,
      String(learningRate),
      tokenizer,
      String(problems)
    )
    const ask = (program: Program.Program, work: Work) =>
      Effect.map(
        Effect.flatMap(program.ask(`${work.steps} ${work.group} ${work.tokens}`), Schema.decode(Figures)),
        ({ cpu, tokens }) => 1e6 * cpu / tokens
      )
    const cpu: Array<Record<"ours" | "loop" | "python", number>> = []
    const pace: Array<Record<"sync" | "async", number>> = []
    for (const program of [ours, loop, python]) yield* ask(program, warmUp)
    for (let turn = -1; turn < rounds; turn++) {
      const clients = {
        ours: yield* ask(ours, measured),
        loop: yield* ask(loop, measured),
        python: yield* ask(python, measured)
      }
      const modes = {
        sync: yield* paced(Reinforce.sync),
        async: yield* paced(Reinforce.async({ maxStepsOffPolicy: 2 }))
      }
      if (turn >= 0) {
        cpu.push(clients)
        pace.push(modes)
      }
    }
    const used = (of: keyof typeof cpu[number]) => median(cpu.map((clients) => clients[of])).toFixed(1)
    const speed = (of: keyof typeof pace[number]) => (1 / median(pace.map((modes) => modes[of]))).toFixed(2)
    return {
      table: [
        ["variant", "CPU per token (µs)", "steps/s"],
        ["ours", used("ours"), ""],
        ["a flat loop with our SDK", used("loop"), ""],
        ["Python cookbook, a flat loop", used("python"), ""],
        ["sync", "", speed("sync")],
        ["async", "", speed("async")]
      ],
      ratios: {
        cpu_to_python: round(median(cpu.map(({ ours, python }) => ours / python))),
        cpu_to_loop: round(median(cpu.map(({ loop, ours }) => ours / loop))),
        async_to_sync: round(median(pace.map(({ async, sync }) => sync / async)))
      },
      notes: [
        `Medians of ${rounds} rounds of ${measured.steps} steps in turns, each after ${warmUp.steps} steps. The server is in a process of its own, and its model computes nothing.`,
        "`cpu_to_python`, `cpu_to_loop`: CPU of the client per sampled token, over that of the others; lower is better.",
        "`async_to_sync`: steps per second, higher is better."
      ]
    }
  }).pipe(Effect.catchTags({
    ParseError: (error) => new BenchFailed({ reason: error.message }),
    BadArgument: (error) => new BenchFailed({ reason: error.message }),
    SystemError: (error) => new BenchFailed({ reason: error.message })
  }))
}
