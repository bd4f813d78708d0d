import { DurableRun, RunControl } from "@effect-tinker/cluster"
import * as NodeDurable from "@effect-tinker/cluster/NodeDurable"
import { Evaluator, RunLog } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Workflow, WorkflowEngine } from "@effect/workflow"
import {
  Array,
  Cause,
  Clock,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Option,
  Schedule,
  Stream,
  TestClock
} from "effect"
import { backend, graded, reinforce, series, small } from "./utils/small.js"

const problems = Array.makeBy(8, (n) => small(n))

const prepared = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const root = yield* fs.makeTempDirectoryScoped({ prefix: "tinker-durable-" })
  yield* fs.makeDirectory(`${root}/run-backend`)
  return `${root}/run`
})

/** What the run computes without a workflow around it; once for all tests. */
const plain = Effect.gen(function*() {
  const directory = yield* prepared
  const run = reinforce(problems, RunLog.directory(directory))
  yield* Effect.provide(Stream.runDrain(run), backend(`${directory}-backend`))
  return (yield* series(directory)).steps
}).pipe(Effect.scoped, Effect.provide(NodeContext.layer), Effect.cached, Effect.runSync)

const durable = (directory: string) => DurableRun.train({ directory, train: (log) => reinforce(problems, log) })

const until = (directory: string, state: RunControl.State) =>
  RunControl.status(directory).pipe(
    Effect.flatten,
    Effect.filterOrFail((status) => status.state === state),
    Effect.retry(Schedule.spaced("100 millis").pipe(Schedule.upTo("120 seconds")))
  )

/** An engine that never answers. */
const silent: WorkflowEngine.Encoded = {
  register: () => Effect.void,
  execute: () => Effect.never,
  poll: () => Effect.never,
  interrupt: () => Effect.never,
  resume: () => Effect.never,
  activityExecute: () => Effect.never,
  deferredResult: () => Effect.never,
  deferredDone: () => Effect.never,
  scheduleClock: () => Effect.never
}

/** An engine of workflows that are one segment, which ends with a row. */
const oneSegment = (row: Effect.Effect<unknown>) => {
  let run: Effect.Effect<unknown, unknown, WorkflowEngine.WorkflowEngine | WorkflowEngine.WorkflowInstance>
  const instance = WorkflowEngine.WorkflowInstance.initial(DurableRun.workflow, "run")
  const engine: WorkflowEngine.WorkflowEngine["Type"] = WorkflowEngine.makeUnsafe({
    ...silent,
    register: (_, execute) =>
      Effect.sync(() => {
        run = execute({}, "run")
      }),
    // begun by an earlier process
    poll: () => Effect.succeed(new Workflow.Suspended({})),
    resume: () =>
      run.pipe(
        Effect.provideService(WorkflowEngine.WorkflowEngine, engine),
        Effect.provideService(WorkflowEngine.WorkflowInstance, instance),
        Effect.forkDaemon,
        Effect.asVoid
      ),
    activityExecute: () => Effect.map(row, (value) => new Workflow.Complete({ exit: Exit.succeed(value) }))
  })
  return engine
}

const yieldTimes = (n: number) => n > 0 ? Effect.repeatN(Effect.yieldNow(), n - 1) : Effect.void

const process = (directory: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.provide(NodeDurable.layerDirectory(directory)),
    Effect.provide(backend(`${directory}-backend`))
  )

// at once: most of their time they wait for polls of the workflow engine
describe("DurableRun", { concurrent: true, timeout: 300_000 }, () => {
  it.scopedLive("computes what the plain run computes, and evaluates as often as it is told", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      const evaluated: Array<number> = []
      const run = DurableRun.train({
        directory,
        train: (log) => reinforce(problems, log),
        evaluate: [Evaluator.make("step", ({ step }) => {
          evaluated.push(step)
          return Effect.succeed({ value: step })
        })],
        // of the checkpoints, which are after every second step
        evaluateEvery: 2
      })
      const steps = yield* run.pipe(Stream.runCount, process(directory))
      assert.strictEqual(steps, 8)
      assert.deepStrictEqual(evaluated, [4, 8])
      const found = yield* series(directory)
      assert.isTrue(found.complete)
      assert.deepStrictEqual(found.steps, yield* plain)
      assert.strictEqual(Option.getOrThrow(yield* RunControl.status(directory)).state, "complete")
      // started again, it has nothing to do
      assert.strictEqual(yield* durable(directory).pipe(Stream.runCount, process(directory)), 0)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("goes on where it was cut short or interrupted", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      yield* durable(directory).pipe(Stream.take(3), Stream.runDrain, process(directory))
      assert.strictEqual(Option.getOrThrow(yield* RunControl.status(directory)).state, "stopped")
      const reached = yield* Deferred.make<void>()
      const fiber = yield* durable(directory).pipe(
        Stream.tap(({ step }) => step === 5 ? Deferred.succeed(reached, void 0) : Effect.void),
        Stream.runDrain,
        process(directory),
        Effect.fork
      )
      yield* Deferred.await(reached)
      yield* Fiber.interrupt(fiber)
      yield* durable(directory).pipe(Stream.runDrain, process(directory))
      const found = yield* series(directory)
      assert.strictEqual(found.resumes, 2)
      assert.deepStrictEqual(found.steps, yield* plain)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a database that no longer answers keeps a run from stopping for 90 seconds at most", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      const asked = yield* Deferred.make<void>()
      const engine = WorkflowEngine.makeUnsafe({
        ...silent,
        poll: () => Effect.zipRight(Deferred.succeed(asked, undefined), Effect.never)
      })
      const fiber = yield* durable(directory).pipe(
        Stream.runDrain,
        Effect.provideService(WorkflowEngine.WorkflowEngine, engine),
        Effect.provide(backend(`${directory}-backend`)),
        Effect.fork
      )
      yield* Deferred.await(asked)
      const stopping = yield* Effect.fork(Fiber.interrupt(fiber))
      yield* TestClock.adjust("89 seconds")
      assert.isTrue(Option.isNone(yield* Fiber.poll(stopping)))
      yield* TestClock.adjust("1 second")
      assert.isTrue(Exit.isInterrupted(yield* Fiber.join(stopping)))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("ends, also when its last segment ends just as it looks for requests", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      const live = yield* Effect.clock
      const checkpoint: typeof DurableRun.Saved.Encoded = {
        name: "final",
        step: 1,
        position: { epoch: 1, index: 0, offset: 0 },
        statePath: "tinker://run/weights/final"
      }
      /** A run of one segment, which ends so many yields before or after a wait of the supervisor does. */
      const endsAt = Effect.fnUntraced(function*(yields: number) {
        const now = yield* Deferred.make<void>()
        const clock = Object.assign(Clock.make(), {
          sleep: (duration: Duration.Duration) =>
            live.sleep(duration).pipe(
              Effect.zipRight(Deferred.succeed(now, undefined)),
              Effect.zipRight(yieldTimes(-yields))
            )
        })
        const engine = oneSegment(Effect.as(
          Effect.zipRight(Deferred.await(now), yieldTimes(yields)),
          { _tag: "Advanced", checkpoint, complete: true }
        ))
        const fiber = yield* durable(`${directory}/${yields}`).pipe(
          Stream.runDrain,
          Effect.withClock(clock),
          Effect.provideService(WorkflowEngine.WorkflowEngine, engine),
          Effect.forkDaemon
        )
        return Option.isSome(yield* Effect.timeoutOption(Fiber.join(fiber), "20 seconds"))
      })
      const offsets = Array.range(-12, 12)
      const ended = yield* Effect.forEach(offsets, endsAt, { concurrency: "unbounded" }).pipe(
        Effect.provide(backend(`${directory}-backend`))
      )
      assert.deepStrictEqual(offsets.filter((_, n) => !ended[n]), [])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("fails where a row of its database cannot be read", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      const exit = yield* durable(directory).pipe(
        Stream.runDrain,
        Effect.provideService(WorkflowEngine.WorkflowEngine, oneSegment(Effect.succeed({ _tag: "Unheard" }))),
        Effect.provide(backend(`${directory}-backend`)),
        Effect.exit
      )
      assert.isTrue(Exit.isFailure(exit) && Cause.isDie(exit.cause))
      const { message, state } = Option.getOrThrow(yield* RunControl.status(directory))
      assert.strictEqual(state, "failed")
      assert.include(message, "ParseError")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("pauses and resumes on request", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      // Slow enough that there is something left to pause.
      const slow = problems.map((_, n) => small(n, "200 millis"))
      const fiber = yield* DurableRun.train({ directory, train: (log) => reinforce(slow, log) }).pipe(
        Stream.tap(({ step }) => step === 3 ? RunControl.request(directory, "pause") : Effect.void),
        Stream.runCount,
        process(directory),
        Effect.fork
      )
      const paused = yield* until(directory, "paused")
      assert.isAtLeast(paused.step, 2)
      yield* RunControl.request(directory, "resume")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual((yield* series(directory)).steps, yield* plain)
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("stays paused when its command is started again", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      yield* RunControl.request(directory, "pause")
      const detached = DurableRun.train({ directory, train: (log) => reinforce(problems, log), detach: true })
      yield* detached.pipe(Stream.runCount, process(directory))
      assert.strictEqual((yield* until(directory, "paused")).state, "paused")
      assert.strictEqual(yield* detached.pipe(Stream.runCount, process(directory)), 0)
      yield* RunControl.request(directory, "cancel")
      const error = yield* durable(directory).pipe(Stream.runCount, process(directory), Effect.flip)
      assert.instanceOf(error, DurableRun.RunCancelled)
      assert.strictEqual((yield* until(directory, "cancelled")).state, "cancelled")
      // for good
      assert.instanceOf(
        yield* durable(directory).pipe(Stream.runCount, process(directory), Effect.flip),
        DurableRun.RunCancelled
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("waits for grades across restarts, and trains on them", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      const run = DurableRun.train({
        directory,
        train: (log) => reinforce([graded(0), graded(1)], log, { epochs: 1, groupSize: 2, saveEvery: 1 }),
        // long enough for all four rollouts to ask, also beside the other tests
        patience: "5 seconds",
        detach: true
      })
      // A process leaves when it has waited for a while; on a very busy machine, before all four rollouts have asked.
      const left = run.pipe(
        Stream.runCount,
        process(directory),
        Effect.zipRight(until(directory, "judging")),
        Effect.repeat({ until: ({ questions }) => questions.length === 4 })
      )
      // they come and go before anybody looks
      const { questions } = yield* left
      const asked = yield* RunControl.questions(directory)
      assert.deepStrictEqual(questions.slice().sort(), asked.map(({ key }) => key).sort())
      yield* left
      assert.deepStrictEqual(yield* RunControl.questions(directory), asked)
      const refused = yield* Effect.flip(RunControl.answer(directory, asked[0]?.key ?? "", NaN))
      assert.instanceOf(refused, RunControl.InvalidGrade)
      for (const [n, { key }] of asked.entries()) {
        // The first grade is a slip that the second one replaces.
        yield* RunControl.answer(directory, key, 7)
        yield* RunControl.answer(directory, key, n / 10)
      }
      assert.strictEqual(yield* run.pipe(Stream.runCount, process(directory)), 1)
      const { complete, steps } = yield* series(directory)
      assert.isTrue(complete)
      const rewards = yield* RunLog.rollouts(directory, 1)
      assert.deepStrictEqual(
        new Set(rewards.map((rollout) => Object(rollout).reward)),
        new Set(asked.map((_, n) => n / 10))
      )
      assert.strictEqual(steps.length, 1)
      assert.deepStrictEqual(yield* RunControl.questions(directory), [])
      assert.instanceOf(
        yield* Effect.flip(RunControl.answer(directory, "none", 1)),
        RunControl.NoSuchQuestion
      )
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("waits for a time, evaluates checkpoints in activities, and goes on after failures", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      let waits = 1
      let failures = 1
      const evaluations: Array<number> = []
      const run = DurableRun.train({
        directory,
        train: (log) =>
          reinforce(problems, log).pipe(
            Stream.tap(({ step }) => step === 3 && failures-- > 0 ? Effect.fail("lost" as const) : Effect.void)
          ),
        wait: ({ step }) => step === 4 && waits-- > 0 ? "50 millis" : 0,
        evaluate: [Evaluator.make("double", ({ step }) => {
          evaluations.push(step)
          return Effect.succeed({ value: 2 * step, none: NaN })
        })]
      })
      assert.strictEqual(yield* run.pipe(Stream.runDrain, process(directory), Effect.flip), "lost")
      assert.strictEqual((yield* until(directory, "failed")).step, 2)
      yield* run.pipe(Stream.runDrain, process(directory))
      assert.deepStrictEqual((yield* series(directory)).steps, yield* plain)
      assert.deepStrictEqual(evaluations, [2, 4, 6, 8])
      const found = Option.getOrThrow(yield* RunLog.read(directory)).evaluations
      assert.deepStrictEqual(found.map(({ metrics, step }) => [step, metrics["value"]]), [
        [2, 4],
        [4, 8],
        [6, 12],
        [8, 16]
      ])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scopedLive("belongs to one process", () =>
    Effect.gen(function*() {
      const directory = yield* prepared
      yield* RunLog.claim(RunControl.folder(directory))
      const error = yield* durable(directory).pipe(Stream.runDrain, process(directory), Effect.flip)
      assert.instanceOf(error, RunLog.RunInUse)
    }).pipe(Effect.provide(NodeContext.layer)))

  it("trains at night only", () => {
    const at = (hour: number) => Duration.toHours(DurableRun.between(22, 6)({ now: hour * 3_600_000 }))
    assert.deepStrictEqual([0, 5, 6, 12, 21, 22, 23].map(at), [0, 0, 16, 10, 1, 0, 0])
  })
})
