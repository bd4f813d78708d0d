/**
 * Reinforcement learning: the CPU the client takes for a sampled token, a flat loop beside the official cookbook's flat loop
 * and the trainer beside its trainer, and how much faster steps follow each other when rollouts that wait overlap with
 * training.
 */
import { Dataset, Environment, Reinforce } from "@effect-tinker/cookbook"
import { LocalTokenizer, TinkerLocal } from "@effect-tinker/local"
import { Renderers, Tokenizer } from "@effect-tinker/tokenizer"
import { FileSystem, Path } from "@effect/platform"
import { Clock, Duration, Effect, Record, Schema, Stream } from "effect"
import type { Bench } from "./Bench.js"
import { BenchFailed, isSmoke, median, round, sized } from "./Bench.js"
import * as Inflight from "./cookbook/inflight.js"
import { baseModel, group, learningRate, maxTokens, problems } from "./cookbook/rollouts.js"
import * as Program from "./Program.js"
import * as Python from "./Python.js"

const Figures = Schema.parseJson(Schema.Struct({ cpu: Schema.Number, tokens: Schema.Number }))

/** Steps that are measured, in each round. */
const steps = sized(8, 1)

/**
 * Steps before those that are measured: a run has hundreds of them. Ours are compiled while they run, and V8 gives up code
 * and memory of a process that waited for its turn.
 */
const warmUp = { ours: sized(100, 1), python: 4 }

const rounds = sized(3, 1)

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
    const count = sized(12, 2)
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
    const ours = (name: string) => Program.startModule(`./cookbook/${name}.js`, baseUrl, apiKey)
    const theirs = (name: string) =>
      Python.startCookbook(
        "cookbook.py",
        name,
        baseUrl,
        apiKey,
        baseModel,
        String(learningRate),
        tokenizer,
        String(problems)
      )
    const clients: Readonly<Record<string, { readonly program: Program.Program; readonly warmUp: number }>> = {
      loop: { program: yield* ours("loop"), warmUp: warmUp.ours },
      trainer: { program: yield* ours("trainer"), warmUp: warmUp.ours },
      ...(isSmoke ? {} : {
        pythonLoop: { program: yield* theirs("loop"), warmUp: warmUp.python },
        pythonTrainer: { program: yield* theirs("trainer"), warmUp: warmUp.python }
      })
    }
    const run = ({ ask }: Program.Program, steps: number) =>
      Effect.map(
        Effect.flatMap(ask(`${steps} ${group} ${maxTokens}`), Schema.decode(Figures)),
        ({ cpu, tokens }) => 1e6 * cpu / tokens
      )
    const cpu: Array<Readonly<Record<string, number>>> = []
    const pace: Array<Record<"sync" | "async", number>> = []
    for (let turn = 0; turn < rounds; turn++) {
      cpu.push(
        yield* Effect.all(
          Record.map(clients, ({ program, warmUp }) => Effect.zipRight(run(program, warmUp), run(program, steps)))
        )
      )
      pace.push({
        sync: yield* paced(Reinforce.sync),
        async: yield* paced(Reinforce.async({ maxStepsOffPolicy: 2 }))
      })
    }
    const seeds = sized(3, 1)
    const courses: Array<Record<"snapshot" | "inflight", Inflight.Course>> = []
    for (let seed = 1; seed <= seeds; seed++) {
      // In turns, so that a machine that slows down slows both.
      const snapshot = yield* Inflight.run("snapshot", seed)
      courses.push({ snapshot, inflight: yield* Inflight.run("inflight", seed) })
    }
    const course = (of: "snapshot" | "inflight", what: keyof Inflight.Course) =>
      median(courses.map((pair) => pair[of][what]))
    const courseRow = (name: string, of: "snapshot" | "inflight") => [
      name,
      "",
      "",
      course(of, "reward").toFixed(3),
      course(of, "last").toFixed(3),
      `${course(of, "staleLeast").toFixed(2)} to ${course(of, "stale").toFixed(2)}`,
      course(of, "seconds").toFixed(1),
      String(course(of, "tokens"))
    ]
    const used = (of: string) => median(cpu.map((round) => round[of] ?? NaN)).toFixed(1)
    const over = (of: string, other: string) =>
      round(median(cpu.map((used) => (used[of] ?? NaN) / (used[other] ?? NaN))))
    const speed = (of: keyof typeof pace[number]) => (1 / median(pace.map((modes) => modes[of]))).toFixed(2)
    return {
      table: [
        ["variant", "CPU per token (µs)", "steps/s", "reward", "at the end", "token staleness", "seconds", "tokens"],
        ["a flat loop with our SDK", used("loop"), ""],
        ["a flat loop, Python cookbook", used("pythonLoop"), ""],
        ["our trainer", used("trainer"), ""],
        ["the trainer of the Python cookbook", used("pythonTrainer"), ""],
        ["sync", "", speed("sync")],
        ["async", "", speed("async")],
        courseRow("async, several turns", "snapshot"),
        courseRow("the same, weights in flight", "inflight")
      ],
      ratios: {
        cpu_to_python: over("loop", "pythonLoop"),
        trainer_to_python: over("trainer", "pythonTrainer"),
        trainer_to_python_loop: over("trainer", "pythonLoop"),
        trainer_to_loop: over("trainer", "loop"),
        async_to_sync: round(median(pace.map(({ async, sync }) => sync / async))),
        inflight_to_async: round(median(courses.map(({ inflight, snapshot }) => inflight.reward / snapshot.reward))),
        inflight_to_async_staleness: round(
          median(courses.map(({ inflight, snapshot }) => inflight.stale / snapshot.stale))
        )
      },
      notes: [
        `Medians of ${rounds} rounds of ${steps} steps in turns, each after a warm-up of ${warmUp.ours} steps (Python: ${warmUp.python}). The server is in a process of its own, and its model computes nothing.`,
        "`cpu_to_python`: CPU of the client per sampled token, our flat loop over the official one. `trainer_to_…`: our trainer over the official trainer, the official loop, our loop. Lower is better.",
        "`async_to_sync`: steps per second, higher is better.",
        `\`inflight_to_async\`: mean reward of all steps over the same number of sampled tokens, ${seeds} seeds, higher is better; \`…_staleness\`: the mean age of the weights that drew a token, by the oldest that may have, lower is better.`
      ]
    }
  }).pipe(Effect.catchTags({
    ParseError: (error) => new BenchFailed({ reason: error.message }),
    BadArgument: (error) => new BenchFailed({ reason: error.message }),
    SystemError: (error) => new BenchFailed({ reason: error.message })
  }))
}
