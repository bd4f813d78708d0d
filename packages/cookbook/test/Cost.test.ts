import { Cost, Dataset, Environment, Reinforce, RunLog, Supervised } from "@effect-tinker/cookbook"
import type { Trainer } from "@effect-tinker/cookbook"
import { FileSystem, HttpClient, HttpClientResponse } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Layer, Option, Stream } from "effect"
import { Datum } from "effect-tinker"
import { collect, Local, renderer } from "./utils/local.js"

const price = { train: 4, prefill: 1, cachedPrefill: 0.25, sample: 3 }

const answering = (status: number, body: unknown) =>
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request) => Effect.succeed(HttpClientResponse.fromWeb(request, Response.json(body, { status }))))
  )

const group = (rewards: ReadonlyArray<number>): Environment.Group =>
  Environment.group(({ member = 0 }) =>
    Effect.succeed(
      {
        initial: Effect.succeed({ _tag: "Continue", observation: { prompt: Int32Array.of(65, 66, 67), stop: [] } }),
        step: () => Effect.succeed({ _tag: "Done", reason: "completed", reward: rewards[member] ?? 0 })
      } satisfies Environment.Environment
    )
  )

const tokens = (report: Trainer.StepReport<unknown> | undefined, prefix: string) =>
  ["sampled", "prefill_cached", "prefill_uncached", "trained"].map((kind) => report?.metrics[`${prefix}/${kind}`])

const costs = (reports: ReadonlyArray<Pick<Trainer.StepReport<unknown>, "metrics" | "step">>) =>
  reports.map(({ metrics, step }) => [
    step,
    Object.fromEntries(
      Object.entries(metrics).filter(([name]) => name.startsWith("tokens/") || name.startsWith("cost/"))
    )
  ])

const data = Dataset.fromIterable(
  Array.from({ length: 12 }, (_, n) => Either.getOrThrow(Datum.fromTokens([1 + n, 2, 3, 4, 5])))
)

const supervised = { model: { baseModel: "local/tiny", rank: 4, seed: 1 }, data, learningRate: 1e-3, batchSize: 2 }

const Live = Layer.merge(Local, NodeContext.layer)

describe("Cost", () => {
  it("is tokens times prices, and nothing where one of the four is not known", () => {
    const usage = { sampled: 1000, prefillCached: 2000, prefillUncached: 3000, trained: 4000 }
    // 1000 * 3 + 2000 * 0.25 + 3000 * 1 + 4000 * 4 = 22 500, by a million
    assert.deepStrictEqual(Cost.amount(usage, price), Option.some(0.0225))
    assert.deepStrictEqual(Cost.amount(usage, { ...price, cachedPrefill: undefined }), Option.none())
    assert.deepStrictEqual(Cost.amount(usage, undefined), Option.none())
  })

  it("an action without figures of its own has read its whole prompt", () => {
    const action = { tokens: Int32Array.of(1, 2) }
    assert.deepStrictEqual(Cost.sampled(action, 5), { ...Cost.none, sampled: 2, prefillUncached: 5 })
    assert.deepStrictEqual(Cost.sampled({ ...action, prefill: { cached: 4, uncached: 1 } }, 5), {
      sampled: 2,
      prefillCached: 4,
      prefillUncached: 1,
      trained: 0
    })
  })

  it.effect("published prices are read for the exact name, if all four are there", () =>
    Effect.gen(function*() {
      const listed = [
        { tinker_id: "a", prefill: "$1,000.50", cached_prefill: "$0.25", sample: "$3", train: 4 },
        { tinker_id: "b", prefill: "$1", sample: "$3", train: "$4" }
      ]
      const find = (model: string, layer = answering(200, listed)) => Effect.provide(Cost.published(model), layer)
      assert.deepStrictEqual(yield* find("a"), Option.some({ ...price, prefill: 1000.5 }))
      for (const model of ["b", "c"]) assert.deepStrictEqual(yield* find(model), Option.none())
      assert.deepStrictEqual(yield* find("a", answering(403, "no")), Option.none())
      assert.deepStrictEqual(yield* find("a", answering(200, { not: "a list" })), Option.none())
    }))

  it.scoped(
    "of reinforcement: what was sampled, read and trained on, and apart what taught nothing",
    () =>
      Effect.gen(function*() {
        const [report] = yield* collect(Reinforce.train({
          model: supervised.model,
          problems: Dataset.fromIterable([group([0, 1]), group([1, 1])]),
          renderer: yield* renderer,
          learningRate: 1e-3,
          maxTokens: 4,
          groupSize: 2,
          groupsPerBatch: 2,
          cost: { price }
        }))
        // Two rollouts of a group: 3 tokens of prompt and 4 sampled each, of which 6 are inputs of a pass.
        assert.deepStrictEqual(tokens(report, "tokens"), [8, 0, 6, 12])
        assert.deepStrictEqual(tokens(report, "tokens/discarded"), [8, 0, 6, 0])
        assert.deepStrictEqual(tokens(report, "tokens/cumulative"), [16, 0, 12, 12])
        assert.closeTo(report?.metrics["cost/step_usd"] ?? NaN, (16 * 3 + 12 * 1 + 12 * 4) / 1e6, 1e-15)
        assert.closeTo(report?.metrics["cost/discarded_usd"] ?? NaN, (8 * 3 + 6 * 1) / 1e6, 1e-15)
      }).pipe(Effect.provide(Live)),
    60_000
  )

  it.scoped("is the same for a run that was cut short twice as for one that was not", () =>
    Effect.gen(function*() {
      const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const write = yield* renderer
      const cost = { price, currency: "eur" }
      const problems = Dataset.fromIterable(Array.from({ length: 8 }, (_, n) => group([n % 3, 1])))
      type Log = RunLog.Target<FileSystem.FileSystem>
      const compare = <D, E, R>(name: string, run: (log?: Log) => Stream.Stream<Trainer.StepReport<D>, E, R>) =>
        Effect.gen(function*() {
          const whole = costs(yield* collect(run()))
          assert.isAbove(whole.length, 3)
          const log = RunLog.directory(`${directory}/${name}`)
          for (const part of [Stream.take(run(log), 1), Stream.take(run(log), 1), run(log)]) yield* collect(part)
          const { steps } = Option.getOrThrow(yield* RunLog.read(`${directory}/${name}`))
          assert.deepStrictEqual(costs(steps), whole)
          assert.isAbove(steps.at(-1)?.metrics["cost/cumulative_eur"] ?? NaN, 0)
        })
      yield* compare("supervised", (log) => Supervised.train({ ...supervised, cost, log }))
      yield* compare("reinforce", (log) =>
        Reinforce.train({
          model: supervised.model,
          problems,
          renderer: write,
          learningRate: 1e-3,
          maxTokens: 4,
          groupSize: 2,
          groupsPerBatch: 2,
          cost,
          log
        }))
    }).pipe(Effect.provide(Live)), 60_000)

  it.scoped(
    "a budget stops a run before it is exceeded, with a checkpoint from which a larger one goes on",
    () =>
      Effect.gen(function*() {
        const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
        // A step trains on 2 * 4 tokens.
        const step = 8 * price.train / 1e6
        const run = (steps: number) =>
          Supervised.train({
            ...supervised,
            cost: { price, budget: (steps + 0.5) * step },
            log: RunLog.directory(directory)
          })
        const read = Effect.map(RunLog.read(directory), Option.getOrThrow)
        const first = yield* collect(run(2))
        assert.deepStrictEqual(first.map(({ final, step }) => [step, Option.isSome(final)]), [[1, false], [2, false]])
        const { checkpoints, ended, notes } = yield* read
        assert.deepStrictEqual(checkpoints.map(({ kind, step }) => [kind, step]), [["exit", 2]])
        assert.deepStrictEqual(Option.map(ended, ({ complete }) => complete), Option.some(false))
        assert.include(notes.at(-1)?.message ?? "", "budget")
        assert.lengthOf(yield* collect(run(2)), 0)
        const rest = yield* collect(run(100))
        assert.deepStrictEqual(rest.map(({ step }) => step), [3, 4, 5, 6])
        assert.isTrue(Option.isSome(rest.at(-1)?.final ?? Option.none()))
        assert.closeTo(rest.at(-1)?.metrics["cost/cumulative_usd"] ?? NaN, 6 * step, 1e-15)
      }).pipe(Effect.provide(Live)),
    60_000
  )
})
