/**
 * A model measured on a set of problems, example by example: each result is recorded when it is there, a run that was cut
 * short goes on with the examples that are missing, and two runs can be compared.
 *
 * Answers that were cut off and rollouts that failed are counted apart: they say something about limits and about the
 * service, and only then about the model.
 *
 * @since 0.1.0
 */
import * as Lines from "@effect-tinker/platform/Lines"
import * as Message from "@effect-tinker/tokenizer/Message"
import type * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type * as Dataset from "./Dataset.js"
import { values } from "./Dataset.js"
import type * as Environment from "./Environment.js"
import * as AppendFile from "./internal/appendFile.js"
import * as random from "./internal/random.js"
import type * as Policy from "./Policy.js"
import * as Rollout from "./Rollout.js"
import * as Trajectory from "./Trajectory.js"

/**
 * A problem with a name that stays the same from run to run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Problem<out E = never, out R = never> {
  readonly id: string
  readonly problem: Environment.Group<E, R>
  /** The question, for the record. */
  readonly input?: string | undefined
  /** The right answer, for the record. */
  readonly target?: string | undefined
}

/**
 * One attempt at a problem.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Result extends Schema.Class<Result>("@effect-tinker/cookbook/Benchmark/Result")({
  id: Schema.String,
  /** The number of the attempt, from 0. */
  sample: Schema.NonNegativeInt,
  /** `truncated`: it ran into a limit. `failed`: it has no answer, and is tried again when the benchmark is run again. */
  outcome: Schema.Literal("completed", "truncated", "failed"),
  reward: Schema.Number,
  answer: Schema.String,
  /** Sampled tokens. */
  tokens: Schema.NonNegativeInt,
  stop: Schema.optional(Schema.String),
  error: Schema.optional(Schema.String),
  input: Schema.optional(Schema.String),
  target: Schema.optional(Schema.String)
}) {}

/**
 * Result of a model.
 *
 * @since 0.1.0
 * @category models
 */
export interface Report {
  readonly name: string
  /** Subject of the measurement: a model, a checkpoint. */
  readonly model: string
  readonly examples: number
  /** The mean reward of all attempts; one that failed counts nothing. */
  readonly score: number
  /** By `k`: the chance that at least one of `k` attempts is right. */
  readonly passAt: Readonly<Record<number, number>>
  readonly truncated: number
  readonly failed: number
  /** Attempts that a run before this one had recorded. */
  readonly resumed: number
  readonly results: ReadonlyArray<Result>
}

/**
 * The file holds results of another model or with other settings.
 *
 * @since 0.1.0
 * @category errors
 */
export class BenchmarkChanged
  extends Schema.TaggedError<BenchmarkChanged>("@effect-tinker/cookbook/Benchmark/BenchmarkChanged")(
    "BenchmarkChanged",
    {
      path: Schema.String,
      found: Schema.String,
      wanted: Schema.String
    }
  )
{
  override get message(): string {
    return `${this.path} holds results of ${this.found}, not of ${this.wanted}: use another file`
  }
}

/**
 * How a benchmark is run.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options<EP, RP, E, R, ED, RD> {
  readonly name: string
  /** Subject of the measurement, for the record: a model, a checkpoint. */
  readonly model: string
  readonly policy: Policy.Policy<EP, RP>
  readonly problems: Dataset.Dataset<Problem<E, R>, ED, RD>
  readonly settings: Environment.Settings
  /** Attempts at each problem. Defaults to 1. */
  readonly samples?: number | undefined
  /** Values of `k` to give the chance of success for. Defaults to 1 and the number of attempts. */
  readonly passAt?: ReadonlyArray<number> | undefined
  /** The reward from which an attempt is right. Defaults to 0.5. */
  readonly threshold?: number | undefined
  readonly limits?: Rollout.Limits | undefined
  /** Problems at once. Defaults to 64. */
  readonly concurrency?: number | undefined
  /** Of all draws. Defaults to 0. */
  readonly seed?: number | undefined
  /** A file to record results in as they come, and to go on from. Defaults to none. */
  readonly file?: string | undefined
}

const Header = Schema.Struct({ benchmark: Schema.String, model: Schema.String, samples: Schema.Int, seed: Schema.Int })
const decodeHeader = Schema.decodeUnknownEither(Schema.parseJson(Header))
const decodeResult = Schema.decodeUnknownEither(Schema.parseJson(Result))
const encodeResult = Schema.encodeSync(Schema.parseJson(Result))
const decoder = new TextDecoder()
const truncating: ReadonlySet<Trajectory.StopReason> = new Set([
  "max_turns",
  "max_tokens",
  "max_sampled_tokens",
  "max_tool_calls",
  "context_overflow",
  "rollout_timeout"
])

/** Results that a file has of a run with these settings. */
const recorded = Effect.fnUntraced(function*(path: string, header: typeof Header.Type) {
  const known = new Map<string, Result>()
  const describe = (of: typeof Header.Type) => `${of.benchmark} on ${of.model}, ${of.samples} attempts, seed ${of.seed}`
  yield* Lines.stream(path, { offset: 0, limit: 16 * 1024 * 1024 }).pipe(
    Stream.zipWithIndex,
    Stream.runForEach(([{ bytes }, n]) => {
      const text = decoder.decode(bytes)
      if (n === 0) {
        const found = Either.getOrElse(
          decodeHeader(text),
          () => ({ benchmark: "something else", model: "?", samples: 0, seed: 0 })
        )
        return describe(found) === describe(header)
          ? Effect.void
          : Effect.fail(new BenchmarkChanged({ path, found: describe(found), wanted: describe(header) }))
      }
      const line = decodeResult(text)
      if (Either.isRight(line)) known.set(`${line.right.sample}:${line.right.id}`, line.right)
      return Effect.void
    })
  )
  return known
})

const answerOf = ({ turns }: Trajectory.Trajectory): string => {
  const message = turns[turns.length - 1]?.message
  return message === undefined ? "" : Message.text(message)
}

/**
 * Runs a benchmark. With a file, what it holds already is not done again, except what had failed.
 *
 * @since 0.1.0
 * @category constructors
 */
export const run: <EP, RP, E, R, ED, RD>(
  options: Options<EP, RP, E, R, ED, RD>
) => Effect.Effect<Report, ED | BenchmarkChanged | PlatformError.PlatformError, RP | R | RD | FileSystem.FileSystem> =
  Effect.fnUntraced(function*<EP, RP, E, R, ED, RD>(options: Options<EP, RP, E, R, ED, RD>) {
    const samples = Math.max(1, options.samples ?? 1)
    const seed = options.seed ?? 0
    const header = { benchmark: options.name, model: options.model, samples, seed }
    let known = new Map<string, Result>()
    let write: (line: string) => Effect.Effect<void, PlatformError.PlatformError> = () => Effect.void
    if (options.file !== undefined) {
      const fs = yield* FileSystem.FileSystem
      write = (yield* AppendFile.open(fs, options.file)).append
      known = yield* recorded(options.file, header)
      if (Number((yield* fs.stat(options.file)).size) === 0) yield* write(`${JSON.stringify(header)}\n`)
    }
    let resumed = 0

    const attempt = Effect.fnUntraced(
      function*({ id, input, problem, target }: Problem<E, R>, row: number, sample: number) {
        const before = known.get(`${sample}:${id}`)
        if (before !== undefined && before.outcome !== "failed") {
          resumed++
          return before
        }
        const exit = yield* Effect.exit(Rollout.group(options.policy, problem, {
          size: 1,
          settings: options.settings,
          limits: options.limits,
          seed: random.seedOf(seed, row, sample)
        }))
        if (Exit.isFailure(exit) && Cause.isInterrupted(exit.cause)) return yield* Effect.interrupt
        const about = { id, sample, input, target }
        const trajectory = Exit.isSuccess(exit) ? exit.value.trajectories[0] : undefined
        const result = Exit.isFailure(exit) || trajectory === undefined
          ? new Result({
            ...about,
            outcome: "failed",
            reward: 0,
            answer: "",
            tokens: 0,
            error: Exit.isFailure(exit) ? Cause.pretty(exit.cause).split("\n")[0] : "no rollout"
          })
          : new Result({
            ...about,
            outcome: truncating.has(trajectory.stop) ? "truncated" : "completed",
            reward: Trajectory.rewardsOf(exit.value)[0] ?? 0,
            answer: answerOf(trajectory),
            tokens: trajectory.turns.reduce((sum, { action }) => sum + action.tokens.length, 0),
            stop: trajectory.stop
          })
        yield* write(`${encodeResult(result)}\n`)
        return result
      }
    )

    const results = yield* values(options.problems).pipe(
      Stream.zipWithIndex,
      Stream.mapConcat(([problem, row]) => Array.from({ length: samples }, (_, sample) => ({ problem, row, sample }))),
      Stream.mapEffect(({ problem, row, sample }) => attempt(problem, row, sample), {
        concurrency: options.concurrency ?? 64
      }),
      Stream.runCollect
    )
    return summarize(options.name, options.model, [...results], {
      threshold: options.threshold,
      passAt: options.passAt ?? [1, samples],
      resumed
    })
  }, Effect.scoped)

/**
 * The chance that at least one of `k` attempts is right when `right` of `total` were: the unbiased estimate.
 *
 * @since 0.1.0
 * @category combinators
 */
export const passAt = (total: number, right: number, k: number): number => {
  if (total - right < k) return 1
  let none = 1
  for (let i = total - right + 1; i <= total; i++) none *= 1 - k / i
  return 1 - none
}

const byId = (results: ReadonlyArray<Result>): ReadonlyMap<string, ReadonlyArray<Result>> => {
  const groups = new Map<string, Array<Result>>()
  for (const result of results) {
    const group = groups.get(result.id)
    if (group === undefined) groups.set(result.id, [result])
    else group.push(result)
  }
  return groups
}

const mean = (values: ReadonlyArray<number>) =>
  values.length === 0 ? NaN : values.reduce((sum, one) => sum + one, 0) / values.length

const summarize = (name: string, model: string, results: ReadonlyArray<Result>, options: {
  readonly threshold: number | undefined
  readonly passAt: ReadonlyArray<number>
  readonly resumed: number
}): Report => {
  const examples = byId(results)
  const right = (list: ReadonlyArray<Result>) =>
    list.filter(({ reward }) => reward >= (options.threshold ?? 0.5)).length
  const count = (outcome: Result["outcome"]) => results.filter((result) => result.outcome === outcome).length
  return {
    name,
    model,
    examples: examples.size,
    score: mean(results.map(({ reward }) => reward)),
    passAt: Object.fromEntries(
      options.passAt.map((k) => [k, mean(Array.from(examples.values(), (list) => passAt(list.length, right(list), k)))])
    ),
    truncated: count("truncated"),
    failed: count("failed"),
    resumed: options.resumed,
    results
  }
}

/**
 * Two runs, example by example.
 *
 * @since 0.1.0
 * @category models
 */
export interface Comparison {
  /** Examples both have. */
  readonly shared: number
  /** Ids of those whose mean reward went up, and down, with both rewards. */
  readonly improved: ReadonlyArray<{ readonly id: string; readonly before: number; readonly after: number }>
  readonly regressed: ReadonlyArray<{ readonly id: string; readonly before: number; readonly after: number }>
  /** Of the shared examples. */
  readonly before: number
  readonly after: number
}

/**
 * Changes from one run to another, by the examples both have. Attempts that failed do not count.
 *
 * @since 0.1.0
 * @category combinators
 */
export const compare = (before: Pick<Report, "results">, after: Pick<Report, "results">): Comparison => {
  const rewards = ({ results }: Pick<Report, "results">) => {
    const scored = byId(results.filter(({ outcome }) => outcome !== "failed"))
    return new Map(Array.from(scored, ([id, list]) => [id, mean(list.map(({ reward }) => reward))]))
  }
  const [then, now] = [rewards(before), rewards(after)]
  const shared = Array.from(then).flatMap(([id, was]) => {
    const is = now.get(id)
    return is === undefined ? [] : [{ id, before: was, after: is }]
  })
  return {
    shared: shared.length,
    improved: shared.filter((one) => one.after > one.before),
    regressed: shared.filter((one) => one.after < one.before),
    before: mean(shared.map((one) => one.before)),
    after: mean(shared.map((one) => one.after))
  }
}

/**
 * A report as the JSON of a log that `inspect_ai` reads.
 *
 * @since 0.1.0
 * @category combinators
 */
export const toInspect = (report: Report): Effect.Effect<unknown> =>
  Effect.map(DateTime.now, (now) => {
    const created = DateTime.formatIso(now)
    const scorer = "reward"
    return {
      version: 2,
      status: "success",
      eval: {
        created,
        task: report.name,
        task_id: report.name,
        run_id: `${report.name}-${created}`,
        eval_id: `${report.name}-${created}`,
        model: report.model,
        dataset: { name: report.name, samples: report.examples },
        config: {}
      },
      results: {
        total_samples: report.results.length,
        completed_samples: report.results.length - report.failed,
        scores: [{
          name: scorer,
          scorer,
          metrics: {
            mean: { name: "mean", value: report.score },
            ...Object.fromEntries(
              Object.entries(report.passAt).map(([k, value]) => [`pass_at_${k}`, { name: `pass_at_${k}`, value }])
            )
          }
        }]
      },
      stats: { started_at: created, completed_at: created },
      samples: report.results.map((result) => ({
        id: result.id,
        epoch: result.sample + 1,
        input: result.input ?? "",
        target: result.target ?? "",
        output: {
          model: report.model,
          choices: [{
            message: { role: "assistant", content: result.answer },
            stop_reason: result.outcome === "truncated" ? "max_tokens" : "stop"
          }]
        },
        scores: { [scorer]: { value: result.reward, answer: result.answer } },
        ...(result.error === undefined
          ? {}
          : { error: { message: result.error, traceback: result.error, traceback_ansi: result.error } })
      }))
    }
  })
