/**
 * Benchmarks by name, run on a model: their rows from the hub, their answers graded, programs in the sandbox.
 *
 * @since 0.2.0
 */
import * as Benchmark from "@effect-tinker/cookbook/Benchmark"
import * as Benchmarks from "@effect-tinker/cookbook/Benchmarks"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as NodeBenchmarks from "@effect-tinker/cookbook/NodeBenchmarks"
import * as NodeSandbox from "@effect-tinker/cookbook/NodeSandbox"
import * as Policy from "@effect-tinker/cookbook/Policy"
import * as Sandbox from "@effect-tinker/cookbook/Sandbox"
import * as Statistics from "@effect-tinker/cookbook/Statistics"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as SamplingClient from "effect-tinker/SamplingClient"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { nearest } from "../internal/nearest.js"

/** The benchmarks that a list names. @internal */
export const parse = Effect.fnUntraced(function*(names: string) {
  const known = Benchmarks.all.map(({ name }) => name)
  return yield* Effect.forEach(
    names.split(",").map((name) => name.trim()),
    (name) =>
      Effect.mapError(Benchmarks.find(name), () => {
        const meant = nearest(name, known)
        return usage(
          `There is no benchmark ${name}${meant === undefined ? "" : `; did you mean ${meant}?`}`,
          `There are ${known.join(", ")}.`
        )
      })
  )
})

/** A sandbox for benchmarks without programs: none is ever run. */
const none = Sandbox.make({
  name: "none",
  run: () => new Sandbox.SandboxUnavailable({ sandbox: "none", description: "no program was expected" })
})

/** @internal */
export interface Measured {
  readonly report: Benchmark.Report
  readonly interval: Statistics.Interval
  /** Rows that are no problems. */
  readonly skipped: number
  readonly file: string | undefined
}

/**
 * Runs a benchmark, with its own settings where none were asked for.
 *
 * @internal
 */
export const run = Effect.fnUntraced(function*(sampler: SamplingClient.Service, options: {
  readonly definition: Benchmarks.Definition<Sandbox.Sandbox>
  readonly target: string
  readonly renderer: Renderer.Renderer
  readonly limit: Option.Option<number>
  readonly samples: number
  readonly maxTokens: Option.Option<number>
  readonly temperature: Option.Option<number>
  readonly seed: number
  readonly out: Option.Option<string>
}) {
  const { definition, seed } = options
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const sandbox = definition.runsPrograms
    ? yield* NodeSandbox.makeBubblewrap().pipe(
      Effect.mapError((error) =>
        new CliFailure({
          what: `${definition.name} runs programs that the model wrote: ${error.message}`,
          advice: "Install bubblewrap, on Linux, or leave the benchmark out.",
          cause: error
        })
      )
    )
    : none
  const rows = yield* NodeBenchmarks.rows(definition).pipe(
    Effect.provide(FetchHttpClient.layer),
    Effect.mapError((cause) =>
      new CliFailure({
        what: `${definition.name} cannot be read: ${
          "message" in cause ? cause.message : "the hub's settings are wrong"
        }`,
        advice: "HF_TOKEN names an account, which some datasets ask for; HF_ENDPOINT another hub.",
        cause
      })
    )
  )
  const problems = Benchmarks.problems(definition, rows)
  const { skipped } = yield* Dataset.inspect(problems, { examples: 0 })
  const file = Option.map(options.out, (directory) => path.join(directory, `${definition.name}.jsonl`))
  if (Option.isSome(options.out)) yield* fs.makeDirectory(options.out.value, { recursive: true })
  const report = yield* Benchmark.run({
    name: definition.name,
    model: options.target,
    policy: Policy.fromSampler(sampler, {
      maxTokens: Option.getOrElse(options.maxTokens, () => definition.sampling.maxTokens),
      temperature: Option.getOrElse(options.temperature, () => definition.sampling.temperature)
    }),
    problems: Option.match(options.limit, {
      onNone: () => problems,
      onSome: (n) => Dataset.take(problems, n)
    }),
    settings: { renderer: options.renderer, ...Benchmarks.settings },
    samples: options.samples,
    seed,
    file: Option.getOrUndefined(file)
  }).pipe(Effect.provideService(Sandbox.Sandbox, sandbox))
  if (report.results.length === 0) {
    return yield* new CliFailure({
      what: `${definition.name} has no problems`,
      advice: "The columns of its dataset are not those that are known, or --limit is 0."
    })
  }
  const measured: Measured = {
    report,
    interval: Statistics.interval(report.results.map(({ id, reward }) => ({ value: reward, cluster: id }))),
    skipped: Object.values(skipped).reduce((sum, count) => sum + count, 0),
    file: Option.getOrUndefined(file)
  }
  return measured
})
