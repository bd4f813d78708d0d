import { Dataset, Environment, Evaluator, Loss, Reinforce, RolloutRecord, RunLog } from "@effect-tinker/cookbook"
import type { RunEntry, Trainer } from "@effect-tinker/cookbook"
import { Rollout } from "@effect-tinker/cookbook"
import { Faults } from "@effect-tinker/local"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Schedule, Stream, TestClock } from "effect"
import { collect, Local, renderer } from "./utils/local.js"

/** Counts what environments hold. */
const counter = () => ({ acquired: 0, released: 0 })

/** Moves the clock until a fiber ends. */
const drive = <A, E>(fiber: Fiber.RuntimeFiber<A, E>, millis: number) =>
  Effect.gen(function*() {
    while (Option.isNone(yield* Fiber.poll(fiber))) {
      yield* TestClock.adjust(millis)
      yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 1)))
    }
    return yield* Fiber.join(fiber)
  })

/** Four tokens, rewarded by how many of them are small: the untrained model has no preference. */
const small = (n: number, latency = 0, held = counter()) =>
  Environment.group(() =>
    Effect.gen(function*() {
      yield* Effect.acquireRelease(Effect.sync(() => held.acquired++), () => Effect.sync(() => held.released++))
      const wait = latency === 0 ? Effect.void : Effect.sleep(latency)
      return {
        initial: Effect.as(wait, {
          _tag: "Continue",
          observation: { prompt: Int32Array.of(65, 66 + n), stop: [] }
        }),
        step: ({ tokens }) =>
          Effect.as(wait, {
            _tag: "Done",
            reason: "completed",
            reward: tokens.filter((token) => token < 64).length / tokens.length
          })
      } satisfies Environment.Environment
    }), { tags: [n % 2 === 0 ? "even" : "odd"] })

const options = {
  model: { baseModel: "local/tiny", rank: 8, seed: 1 },
  problems: Dataset.fromIterable(Array.from({ length: 4 }, (_, n) => small(n))),
  learningRate: 2e-3,
  maxTokens: 4,
  groupSize: 6,
  groupsPerBatch: 2,
  epochs: 4
}

const Live = Layer.merge(Local, NodeContext.layer)

const seriesOf = (reports: ReadonlyArray<Trainer.StepReport<Reinforce.Detail>>) =>
  reports.map(({ detail, loss, step }) => [step, loss, detail.reward] as const)

describe("Reinforce.train", () => {
  it.scoped("learns what is rewarded, and reports what it trained on", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const test = Evaluator.rollouts(Dataset.fromIterable([small(10), small(11), small(12)]), {
        settings: { renderer: write },
        maxTokens: 4,
        groupSize: 4
      })
      const reports = yield* collect(
        Reinforce.train({ ...options, renderer: write, evaluate: [test], evaluateEvery: 100, measureUpdate: true })
      )
      assert.strictEqual(reports.length, 8)
      const measured = (from: Readonly<Record<string, RunEntry.Metrics>> | undefined) =>
        from?.["rollouts"]?.["env/all/reward"] ?? NaN
      const final = Option.getOrThrow(reports[7]?.final ?? Option.none())
      assert.isAbove(measured(final.evaluations), measured(reports[0]?.evaluations) + 0.3)
      const [first, last] = [reports[0], reports[7]]
      assert.isBelow(first?.detail.reward ?? NaN, 0.5)
      assert.isAbove(last?.detail.reward ?? NaN, (first?.detail.reward ?? 0) + 0.3)
      // the sampler and the trainer are the same weights
      assert.isBelow(Math.abs(first?.metrics["kl_sample_train_v1"] ?? NaN), 1e-4)
      // after the step they are not
      assert.isAbove(first?.metrics["kl_update_v2"] ?? NaN, 1e-4)
      assert.deepStrictEqual(first?.detail.staleness, [0, 0])
      assert.isDefined(first?.metrics["env/even/reward"])
      assert.isTrue(
        reports.every(({ detail, step }) =>
          detail.groups.every(({ trajectories }) =>
            trajectories.every(({ turns }) => turns.every(({ action }) => action.policyVersion === step - 1))
          )
        )
      )
    }).pipe(Effect.provide(Live)))

  it.scoped("a rate that decays knows from the problems where it ends", () =>
    Effect.gen(function*() {
      const reports = yield* collect(Reinforce.train({
        ...options,
        epochs: 2,
        learningRate: { peak: 1e-3, decay: "linear" },
        renderer: yield* renderer
      }))
      assert.deepStrictEqual(reports.map(({ learningRate }) => learningRate), [1e-3, 7.5e-4, 5e-4, 2.5e-4])
      assert.deepStrictEqual(reports[0]?.totalSteps, Option.some(4))
    }).pipe(Effect.provide(Live)), 60_000)

  it.scoped("cut short, it resumes bit for bit, samples included", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      for (const mode of [Reinforce.sync, Reinforce.stream({ minibatches: 2 })]) {
        const log = RunLog.directory(`${directory}/${mode._tag}`)
        const short = { ...options, epochs: 3, mode, renderer: write }
        const whole = seriesOf(yield* collect(Reinforce.train(short)))
        assert.strictEqual(whole.length, 6)
        const run = Reinforce.train({ ...short, log, checkpoints: { periodic: { steps: 2 } } })
        const parts = [yield* collect(Stream.take(run, 3)), yield* collect(run)]
        assert.deepStrictEqual(seriesOf(parts.flat()), whole)
        const { steps } = Option.getOrThrow(yield* RunLog.read(`${directory}/${mode._tag}`))
        assert.deepStrictEqual(steps.map(({ metrics, step }) => [step, metrics["loss"]]), whole.map(([s, l]) => [s, l]))
        const rollouts = yield* RunLog.rollouts(`${directory}/${mode._tag}`, 5)
        assert.strictEqual(rollouts.length, 2 * 6)
        const records = yield* Effect.forEach(rollouts, RolloutRecord.decode)
        assert.isTrue(records.every(({ turns }) => turns.every(({ policyVersion }) => policyVersion === 4)))
        for (const group of [0, 1]) {
          const of = records.filter((record) => record.group === group)
          const mean = of.reduce((sum, { reward }) => sum + reward, 0) / of.length
          assert.deepStrictEqual(of.map(({ advantage }) => advantage), of.map(({ reward }) => reward - mean))
          if (of.some(({ reward }) => reward !== of[0]?.reward)) assert.isTrue(of.every(({ trained }) => trained))
        }
      }
    }).pipe(Effect.provide(Live)), 120_000)

  it.scoped("a penalty keeps it near the reference", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const distance = (coefficient: number) =>
        Effect.map(
          collect(Reinforce.train({
            ...options,
            epochs: 3,
            renderer: write,
            loss: Loss.ppo(),
            advantage: "standardize",
            kl: { coefficient }
          })),
          (reports) => reports[5]?.metrics["kl_reference"] ?? NaN
        )
      const [free, bound] = [yield* distance(0), yield* distance(2)]
      assert.isBelow(bound, free)
    }).pipe(Effect.provide(Live)))

  it.scoped(
    "async: staleness keeps its bound, every group is trained on once, in full batches",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        for (const maxStepsOffPolicy of [0, 1, 2]) {
          const held = counter()
          const seen: Array<number> = []
          const problems = Dataset.map(
            Dataset.fromIterable(Array.from({ length: 12 }, (_, n) => n)),
            // some take much longer than others
            (n) => ({ ...small(n, 10 + (n % 5) * 40, held), tags: [String(n)] })
          )
          const fiber = yield* Reinforce.train({
            ...options,
            problems,
            epochs: 1,
            groupSize: 2,
            renderer: write,
            mode: Reinforce.async({ maxStepsOffPolicy })
          }).pipe(collect, Effect.fork)
          while (Option.isNone(yield* Fiber.poll(fiber))) {
            yield* TestClock.adjust(20)
            yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 1)))
          }
          const reports = yield* Fiber.join(fiber)
          assert.strictEqual(reports.length, 6)
          for (const { detail } of reports) {
            assert.strictEqual(detail.groups.length, 2)
            assert.isTrue(detail.staleness.every((steps) => steps >= 0 && steps <= maxStepsOffPolicy))
            seen.push(...detail.groups.map(({ tags }) => Number(tags[0])))
          }
          assert.deepStrictEqual(seen, Array.from({ length: 12 }, (_, n) => n))
          if (maxStepsOffPolicy > 0) {
            assert.isAbove(Math.max(...reports.flatMap(({ detail }) => detail.staleness)), 0, "sampling ran ahead")
          }
          assert.deepStrictEqual(held, { acquired: 24, released: 24 })
        }
      }).pipe(Effect.provide(Live)),
    120_000
  )

  it.scoped(
    "async with weights in flight: rollouts go on with newer weights, within the bound, and each token says how old its were",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        /** Five short turns with a wait after each, in which steps are taken. */
        const long = (n: number) =>
          Environment.group(() =>
            Effect.sync(() => {
              let prompt = Int32Array.of(65, 66 + n)
              let turns = 0
              return {
                initial: Effect.succeed({ _tag: "Continue", observation: { prompt, stop: [] } }),
                step: ({ tokens }) =>
                  Effect.delay(
                    Effect.sync(() => {
                      prompt = Int32Array.from([...prompt, ...tokens])
                      return ++turns === 5
                        ? { _tag: "Done", reason: "completed", reward: (tokens[0] ?? 0) % 2 }
                        : { _tag: "Continue", observation: { prompt, stop: [] }, reward: 0 }
                    }),
                    10 + (n % 5) * 40
                  )
              } satisfies Environment.Environment
            }), { tags: [String(n)] })
        const train = (sampler: "snapshot" | "inflight") =>
          Effect.flatMap(
            Effect.fork(collect(Reinforce.train({
              ...options,
              problems: Dataset.fromIterable(Array.from({ length: 11 }, (_, n) => long(n))),
              epochs: 1,
              groupSize: 2,
              maxTokens: 2,
              renderer: write,
              loss: Loss.discountStale(Loss.ppo()),
              mode: Reinforce.async({ maxStepsOffPolicy: 2, sampler })
            }))),
            (fiber) => drive(fiber, 20)
          )
        for (const sampler of ["snapshot", "inflight"] as const) {
          const reports = yield* train(sampler)
          assert.strictEqual(reports.length, 6)
          assert.deepStrictEqual(
            reports.flatMap(({ detail }) => detail.groups.map(({ tags }) => Number(tags[0]))),
            Array.from({ length: 11 }, (_, n) => n)
          )
          assert.deepStrictEqual(reports.map(({ detail }) => detail.groups.length), [2, 2, 2, 2, 2, 1])
          let moved = 0
          for (const { detail, metrics, step } of reports) {
            assert.isTrue(detail.staleness.every((steps) => steps >= 0 && steps <= 2))
            const rollouts = detail.groups.flatMap(({ trajectories }) => trajectories)
            let [oldest, newest, tokens] = [0, 0, 0]
            for (const { turns } of rollouts) {
              const versions = turns.map(({ action }) => action.policyVersion)
              assert.deepStrictEqual(versions, [...versions].sort((a, b) => a - b))
              if (versions.at(-1) !== versions[0]) moved++
              for (const { action } of turns) {
                assert.isAtLeast(action.policyVersionAtMost ?? action.policyVersion, action.policyVersion)
                oldest += action.tokens.length * (step - 1 - action.policyVersion)
                newest += action.tokens.length * (step - 1 - (action.policyVersionAtMost ?? action.policyVersion))
                tokens += action.tokens.length
              }
            }
            assert.closeTo(metrics["staleness_tokens"] ?? NaN, oldest / tokens, 1e-12)
            assert.closeTo(metrics["staleness_tokens_least"] ?? NaN, Math.max(0, newest / tokens), 1e-12)
          }
          if (sampler === "inflight") assert.isAbove(moved, 0, "rollouts went on with newer weights")
          else assert.strictEqual(moved, 0)
        }
      }).pipe(Effect.provide(Live)),
    120_000
  )

  it.scoped(
    "interrupted in the middle of its rollouts, it leaves nothing behind and resumes",
    () =>
      Effect.gen(function*() {
        const write = yield* renderer
        const directory = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
        const held = counter()
        const problems = Dataset.fromIterable(Array.from({ length: 8 }, (_, n) => small(n, n < 4 ? 0 : 50, held)))
        const run = Reinforce.train({
          ...options,
          problems,
          epochs: 1,
          renderer: write,
          log: RunLog.directory(directory),
          mode: Reinforce.async({ maxStepsOffPolicy: 1 })
        })
        // the third batch waits for a clock that does not move
        const fiber = yield* Effect.fork(Stream.runDrain(run))
        const steps = Effect.map(RunLog.read(directory), (found) =>
          Option.match(found, {
            onNone: () => 0,
            onSome: ({ steps }) => steps.length
          }))
        yield* Effect.repeat(
          Effect.zipRight(Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 5))), steps),
          { until: (count) => count === 2 }
        )
        yield* Fiber.interrupt(fiber)
        assert.isAbove(held.acquired, 24)
        assert.strictEqual(held.released, held.acquired)
        const { checkpoints } = Option.getOrThrow(yield* RunLog.read(directory))
        assert.deepStrictEqual(checkpoints.map(({ kind, step }) => [kind, step]), [["exit", 2]])
        const rest = yield* drive(yield* Effect.fork(collect(run)), 20)
        assert.deepStrictEqual(rest.map(({ step }) => step), [3, 4])
      }).pipe(Effect.provide(Live)),
    60_000
  )

  it.scoped("faults on the way change nothing: the same rewards and losses", () =>
    Effect.gen(function*() {
      const write = yield* renderer
      const run = Reinforce.train({
        ...options,
        epochs: 2,
        renderer: write,
        strategy: Rollout.retry(Schedule.recurs(3))
      })
      const clean = seriesOf(yield* collect(run).pipe(Effect.provide(Local)))
      const faults = yield* Faults.make({
        seed: 3,
        rules: [
          {
            probability: 0.05,
            endpoints: ["asample", "forwardBackward", "optimStep"],
            fault: { _tag: "Status", status: 503 }
          },
          { probability: 0.05, fault: { _tag: "Drop", when: "before" } }
        ]
      })
      const fiber = yield* collect(run).pipe(
        Effect.provide(Local),
        Effect.provideService(Faults.Faults, faults),
        Effect.fork
      )
      assert.deepStrictEqual(seriesOf(yield* drive(fiber, 500)), clean)
      assert.isAbove((yield* faults.struck).size, 0)
    }).pipe(Effect.provide(NodeContext.layer)), 120_000)
})
