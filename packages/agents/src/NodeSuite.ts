/**
 * Evaluation suites of other tools as evaluators of a run: Inspect tasks, suites of vitest-evals and of evalite, or any
 * command. The suite is not changed. It runs as it always does, in a process of its own, with the weights to be measured
 * behind a gateway at `OPENAI_BASE_URL` and `ANTHROPIC_BASE_URL`.
 *
 * The command has the rights of this process: what a suite executes, it executes on this machine.
 *
 * @since 0.2.0
 */
import type * as Evaluator from "@effect-tinker/cookbook/Evaluator"
import type * as RunEntry from "@effect-tinker/cookbook/RunEntry"
import type * as Renderer from "@effect-tinker/tokenizer/Renderer"
import * as Command from "@effect/platform/Command"
import type * as CommandExecutor from "@effect/platform/CommandExecutor"
import * as FileSystem from "@effect/platform/FileSystem"
import type * as TinkerError from "effect-tinker/TinkerError"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AgentModel from "./AgentModel.js"
import * as NodeGateway from "./NodeGateway.js"
import * as Recorder from "./Recorder.js"
import * as Sampler from "./Sampler.js"

/**
 * The suite could not be run, or left no results.
 *
 * @since 0.2.0
 * @category errors
 */
export class SuiteFailed extends Schema.TaggedError<SuiteFailed>("@effect-tinker/agents/NodeSuite/SuiteFailed")(
  "SuiteFailed",
  {
    suite: Schema.String,
    description: Schema.String,
    /** The end of what the command printed. */
    output: Schema.String
  }
) {
  override get message(): string {
    return `${this.suite}: ${this.description}${this.output === "" ? "" : `\n${this.output}`}`
  }
}

/**
 * Input of a suite: the address of the model, and a directory for its results.
 *
 * @since 0.2.0
 * @category models
 */
export interface Given {
  /** The address for clients of OpenAI's API, with `/v1`. */
  readonly baseURL: string
  /** The address for Anthropic's own client, which adds `/v1` itself. */
  readonly anthropicBaseURL: string
  readonly apiKey: string
  /** A directory that is empty when the command starts, and removed when its results have been read. */
  readonly directory: string
}

/**
 * Settings with which the weights answer a suite.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Model {
  readonly renderer: Renderer.Renderer
  /** Tokens of a prompt and its answer together. Defaults to no limit of ours. */
  readonly contextWindow?: number | undefined
  /** Default of requests that do not set it. */
  readonly maxTokens?: number | undefined
  /** Default of requests that do not set it. */
  readonly temperature?: number | undefined
  /** Default of requests that do not set it. */
  readonly seed?: number | undefined
}

/**
 * Where a suite is run.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Place {
  /** Name among the evaluators. Defaults to that of the tool. */
  readonly name?: string | undefined
  /** Defaults to the directory of this process. */
  readonly workingDirectory?: string | undefined
  /** Variables on top of those of this process and of the model's address, for suites that read others. */
  readonly environment?: ((given: Given) => Readonly<Record<string, string>>) | undefined
  /** Defaults to 1 hour. */
  readonly timeLimit?: Duration.DurationInput | undefined
}

/**
 * A command that evaluates a model.
 *
 * @since 0.2.0
 * @category configuration
 */
export interface Options extends Model, Place {
  readonly name: string
  /** Program and arguments. */
  readonly command: (given: Given) => readonly [string, ...ReadonlyArray<string>]
  /** The metrics of a command that has ended, by what it wrote into the directory. */
  readonly read: (
    given: Given,
    /** Files of the directory, by path. */
    files: ReadonlyMap<string, string>
  ) => Effect.Effect<RunEntry.Metrics, string>
}

/** Limits in characters: of the output that is kept, and of the results that are read. */
const limits = { output: 4000, results: 256 * 1024 * 1024 }

const endOf = <E>(stream: Stream.Stream<Uint8Array, E>) =>
  stream.pipe(Stream.decodeText(), Stream.runFold("", (end, text) => `${end}${text}`.slice(-limits.output)))

/** Runs the command to its end; what it printed last, and its exit code. */
const execute = (options: Options, given: Given) =>
  Effect.gen(function*() {
    const [program, ...args] = options.command(given)
    const child = yield* Command.make(program, ...args).pipe(
      Command.env({
        OPENAI_BASE_URL: given.baseURL,
        OPENAI_API_KEY: given.apiKey,
        ANTHROPIC_BASE_URL: given.anthropicBaseURL,
        ANTHROPIC_API_KEY: given.apiKey,
        ...options.environment?.(given)
      }),
      (command) =>
        options.workingDirectory === undefined ? command : Command.workingDirectory(command, options.workingDirectory),
      Command.start
    )
    const [stdout, stderr, code] = yield* Effect.all([endOf(child.stdout), endOf(child.stderr), child.exitCode], {
      concurrency: "unbounded"
    })
    return { code, output: [stdout, stderr].map((text) => text.trim()).filter((text) => text !== "").join("\n") }
  }).pipe(
    Effect.scoped,
    Effect.timeoutFail({
      duration: options.timeLimit ?? "1 hour",
      onTimeout: () =>
        new SuiteFailed({
          suite: options.name,
          description: `the command ran longer than ${Duration.format(options.timeLimit ?? "1 hour")}`,
          output: ""
        })
    })
  )

const readFiles = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const files = new Map<string, string>()
  let size = 0
  for (const path of yield* fs.readDirectory(directory)) {
    const found = yield* fs.stat(`${directory}/${path}`)
    if (found.type !== "File" || (size += Number(found.size)) > limits.results) continue
    files.set(path, yield* fs.readFileString(`${directory}/${path}`))
  }
  return files
})

/**
 * An evaluator that runs a command.
 *
 * @since 0.2.0
 * @category constructors
 */
export const evaluator = (
  options: Options
): Evaluator.Evaluator<
  SuiteFailed | TinkerError.TinkerError,
  CommandExecutor.CommandExecutor | FileSystem.FileSystem
> => {
  const failed = (description: string, output = "") => new SuiteFailed({ suite: options.name, description, output })
  return {
    name: options.name,
    evaluate: (weights) =>
      Effect.gen(function*() {
        const fs = yield* FileSystem.FileSystem
        const sampler = Sampler.fromClient(yield* weights.sampler, { version: weights.step })
        const recorder = yield* Recorder.make()
        const { apiKey, url } = yield* AgentModel.make({
          renderer: options.renderer,
          sampler,
          contextWindow: options.contextWindow,
          defaults: { maxTokens: options.maxTokens, temperature: options.temperature, seed: options.seed }
        }).pipe(
          Effect.flatMap((model) =>
            Effect.provideService(
              NodeGateway.serve({ model: options.renderer.name, onRollout: () => Effect.void }),
              AgentModel.AgentModel,
              model
            )
          ),
          Effect.provideService(Recorder.Recorder, recorder),
          Effect.mapError(({ message }) => failed(`there is no gateway: ${message}`))
        )
        const broken = ({ message }: { readonly message: string }) => failed(message)
        const directory = yield* Effect.mapError(fs.makeTempDirectoryScoped({ prefix: "suite-" }), broken)
        const given = {
          baseURL: `${url}/v1`,
          anthropicBaseURL: url,
          apiKey: Redacted.value(apiKey),
          directory
        }
        const { code, output } = yield* Effect.mapError(
          execute(options, given),
          (error) => error._tag === "SuiteFailed" ? error : failed(`the command could not be run: ${error.message}`)
        )
        const files = yield* Effect.mapError(readFiles(directory), broken)
        if (files.size === 0) {
          return yield* failed(`the command ended with exit code ${code} and left no results`, output)
        }
        return yield* Effect.mapError(options.read(given, files), (reason) => failed(reason, output))
      }).pipe(Effect.scoped)
  }
}

const decodeWith = <A, I>(schema: Schema.Schema<A, I>) => {
  const decode = Schema.decode(Schema.parseJson(schema))
  return (path: string, text: string): Effect.Effect<A, string> =>
    Effect.mapError(decode(text), ({ message }) => `${path} cannot be read: ${message}`)
}

const meansOf = (scores: Iterable<readonly [name: string, score: number]>): RunEntry.Metrics => {
  const sums = new Map<string, { sum: number; count: number }>()
  for (const [name, score] of scores) {
    const known = sums.get(name) ?? { sum: 0, count: 0 }
    sums.set(name, { sum: known.sum + score, count: known.count + 1 })
  }
  return Object.fromEntries(Array.from(sums, ([name, { count, sum }]) => [name, sum / count]))
}

// =============================================================================
// Inspect
// =============================================================================

const decodeLog = decodeWith(Schema.Struct({
  status: Schema.String,
  error: Schema.optionalWith(Schema.Struct({ message: Schema.String }), { nullable: true }),
  eval: Schema.Struct({ task: Schema.String }),
  results: Schema.optionalWith(
    Schema.Struct({
      completed_samples: Schema.optionalWith(Schema.Number, { nullable: true }),
      scores: Schema.Array(Schema.Struct({
        name: Schema.String,
        metrics: Schema.Record({ key: Schema.String, value: Schema.Struct({ value: Schema.Number }) })
      }))
    }),
    { nullable: true }
  )
}))

/**
 * Tasks of Inspect (`inspect_ai`), run by `inspect eval`. A metric is named `TASK/SCORER/METRIC`, such as
 * `sums/match/accuracy`, with the number of samples as `TASK/samples`; errors of single samples are Inspect's to count.
 *
 * @since 0.2.0
 * @category constructors
 */
export const inspect = (
  options: Model & Place & {
    /** Arguments of `inspect eval`: files, `file.py@task`, names of installed packages. */
    readonly tasks: readonly [string, ...ReadonlyArray<string>]
    /** Further arguments, such as `--limit 100`. Defaults to none. */
    readonly arguments?: ReadonlyArray<string> | undefined
    /** Program and its first arguments. Defaults to `inspect`; `uvx`, `--from`, `inspect-ai` and so on without an installation. */
    readonly program?: readonly [string, ...ReadonlyArray<string>] | undefined
  }
): ReturnType<typeof evaluator> =>
  evaluator({
    ...options,
    name: options.name ?? "inspect",
    command: ({ directory }) => [
      ...options.program ?? ["inspect"] as const,
      "eval",
      ...options.tasks,
      ...["--model", `openai/${options.renderer.name}`, "--log-format", "json", "--log-dir", directory],
      ...["--display", "none", ...options.arguments ?? []]
    ],
    read: (_, files) =>
      Effect.gen(function*() {
        const metrics: Record<string, number> = {}
        for (const [path, text] of files) {
          if (!path.endsWith(".json")) continue
          const { error, eval: { task }, results, status } = yield* decodeLog(path, text)
          if (status !== "success" || results === undefined) {
            return yield* Effect.fail(`the task ${task} ended as ${status}${error ? `: ${error.message}` : ""}`)
          }
          for (const score of results.scores) {
            for (const [metric, { value }] of Object.entries(score.metrics)) {
              metrics[`${task}/${score.name}/${metric}`] = value
            }
          }
          metrics[`${task}/samples`] = results.completed_samples ?? NaN
        }
        return metrics
      })
  })

// =============================================================================
// vitest-evals
// =============================================================================

const decodeVitest = decodeWith(Schema.Struct({
  testResults: Schema.Array(Schema.Struct({
    message: Schema.optional(Schema.String),
    assertionResults: Schema.Array(Schema.Struct({
      status: Schema.String,
      meta: Schema.optional(Schema.Struct({
        eval: Schema.optional(Schema.Struct({
          avgScore: Schema.optionalWith(Schema.Number, { nullable: true }),
          scores: Schema.optional(Schema.Array(Schema.Struct({
            name: Schema.String,
            score: Schema.optionalWith(Schema.Number, { nullable: true })
          })))
        }))
      }))
    }))
  }))
}))

/**
 * Suites of vitest-evals, run by Vitest. The mean of the cases is `score`, that of each judge `judge/NAME`, and the shares of
 * tests that failed `failed`: a low score is no failure unless the suite says so.
 *
 * @since 0.2.0
 * @category constructors
 */
export const vitestEvals = (
  options: Model & Place & {
    /** Names of files to run. Defaults to all that Vitest's own settings include. */
    readonly files?: ReadonlyArray<string> | undefined
    /** Program and its first arguments. Defaults to `npx vitest`. */
    readonly program?: readonly [string, ...ReadonlyArray<string>] | undefined
  }
): ReturnType<typeof evaluator> =>
  evaluator({
    ...options,
    name: options.name ?? "vitest-evals",
    command: ({ directory }) => [
      ...options.program ?? ["npx", "vitest"] as const,
      ...["run", "--reporter=vitest-evals/reporter", "--reporter=json"],
      `--outputFile.json=${directory}/report.json`,
      ...options.files ?? []
    ],
    read: (_, files) =>
      Effect.gen(function*() {
        const { testResults } = yield* decodeVitest("report.json", files.get("report.json") ?? "")
        const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
        const scores = tests.flatMap(({ meta }) => {
          const { avgScore, scores = [] } = meta?.eval ?? {}
          return [
            ...avgScore === undefined ? [] : [["score", avgScore] as const],
            ...scores.flatMap(({ name, score }) => score === undefined ? [] : [[`judge/${name}`, score] as const])
          ]
        })
        if (scores.length === 0) {
          const reason = testResults.map(({ message = "" }) => message).find((message) => message !== "")
          return yield* Effect.fail(`no test was scored${reason === undefined ? "" : `: ${reason}`}`)
        }
        return {
          ...meansOf(scores),
          failed: tests.filter(({ status }) => status === "failed").length / tests.length
        }
      })
  })

// =============================================================================
// evalite
// =============================================================================

const decodeEvalite = decodeWith(Schema.Struct({
  suites: Schema.Array(Schema.Struct({
    name: Schema.String,
    evals: Schema.Array(Schema.Struct({
      status: Schema.String,
      averageScore: Schema.optionalWith(Schema.Number, { nullable: true }),
      scores: Schema.Array(Schema.Struct({
        name: Schema.String,
        score: Schema.optionalWith(Schema.Number, { nullable: true })
      }))
    }))
  }))
}))

/**
 * Suites of evalite, run by `evalite run`, tested with 1.0.0-beta.16. The mean of a suite is `SUITE/score`, that of each of its scorers
 * `SUITE/SCORER`, and the share of its cases that failed `SUITE/failed`.
 *
 * @since 0.2.0
 * @category constructors
 */
export const evalite = (
  options: Model & Place & {
    /** A file or directory to run. Defaults to all files named `*.eval.ts`. */
    readonly path?: string | undefined
    /** Program and its first arguments. Defaults to `npx evalite`. */
    readonly program?: readonly [string, ...ReadonlyArray<string>] | undefined
  }
): ReturnType<typeof evaluator> =>
  evaluator({
    ...options,
    name: options.name ?? "evalite",
    command: ({ directory }) => [
      ...options.program ?? ["npx", "evalite"] as const,
      ...["run", `--outputPath=${directory}/report.json`, "--hideTable"],
      ...options.path === undefined ? [] : [options.path]
    ],
    read: (_, files) =>
      Effect.gen(function*() {
        const { suites } = yield* decodeEvalite("report.json", files.get("report.json") ?? "")
        if (suites.every(({ evals }) => evals.length === 0)) return yield* Effect.fail("the suites have no cases")
        return meansOf(suites.flatMap(({ evals, name }) =>
          evals.flatMap(({ averageScore, scores, status }) => [
            [`${name}/failed`, status === "fail" ? 1 : 0] as const,
            // what failed was worth nothing
            [`${name}/score`, status === "fail" ? 0 : averageScore ?? 0] as const,
            ...scores.map(({ name: scorer, score }) => [`${name}/${scorer}`, score ?? 0] as const)
          ])
        ))
      })
  })
