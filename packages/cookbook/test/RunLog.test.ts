import { Dataset, RunConfig, RunEntry, RunLog, Supervised, Trainer } from "@effect-tinker/cookbook"
import { FileSystem } from "@effect/platform"
import { NodeContext } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Either, Option, Schema, TestClock } from "effect"

const run = { trainer: "test", config: { rate: 1, model: { rank: 4 } } }

const step = (n: number, loss = n) => ({ _tag: "Step" as const, step: n, metrics: { loss }, timings: {} })

const checkpoint = (n: number, kind: RunEntry.CheckpointKind = "periodic", expiresAt?: number) => ({
  _tag: "Checkpoint" as const,
  name: `${kind}-${n}`,
  kind,
  step: n,
  position: Dataset.start(n),
  statePath: `tinker://run/weights/${n}`,
  expiresAt
})

const temporary = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

/** Opens the run, does something, and closes it. */
const session = <A, E, R>(directory: string, use: (log: RunLog.RunLog) => Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.flatMap(RunLog.open(directory, run), use))

describe("RunLog", () => {
  it.scoped("resumes from the checkpoint with the most steps; what came after it does not count", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      yield* session(directory, (log) =>
        Effect.gen(function*() {
          for (const n of [1, 2, 3, 4]) yield* log.append(step(n))
          yield* log.append({ _tag: "Evaluation", step: 1, name: "test", metrics: { nll: 1 } })
          yield* log.append({ _tag: "Evaluation", step: 3, name: "test", metrics: { nll: NaN } })
          // a rolling one that was recorded after a later periodic one
          yield* log.append(checkpoint(3))
          yield* log.append(checkpoint(2, "rolling"))
          yield* log.append(step(5))
        }))
      yield* session(directory, (log) =>
        Effect.gen(function*() {
          const { checkpoint, run } = Option.getOrThrow(log.resumed)
          assert.strictEqual(Option.getOrThrow(checkpoint).step, 3)
          assert.deepStrictEqual(Option.getOrThrow(checkpoint).position, Dataset.start(3))
          assert.deepStrictEqual(run.steps.map((entry) => entry.step), [1, 2, 3])
          // the evaluation before the next step is done again
          assert.deepStrictEqual(run.evaluations.map((entry) => entry.step), [1])
          yield* log.append(step(4, 40))
          yield* log.finish
        }))
      const found = Option.getOrThrow(yield* RunLog.read(directory))
      assert.deepStrictEqual(found.steps.map(({ metrics, step }) => [step, metrics["loss"]]), [
        [1, 1],
        [2, 2],
        [3, 3],
        [4, 40]
      ])
      assert.strictEqual(found.resumes, 1)
      assert.deepInclude(Option.getOrThrow(found.ended), { outcome: "success", complete: true, step: 4 })
      assert.isTrue(yield* session(directory, (log) => Effect.succeed(log.complete)))
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a run that resumes behind a checkpoint that has expired does not count it any more", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      yield* session(directory, (log) =>
        Effect.gen(function*() {
          for (const n of [1, 2, 3, 4]) yield* log.append(step(n))
          yield* log.append(checkpoint(2))
          yield* log.append(checkpoint(4, "rolling", 1_000))
        }))
      yield* TestClock.adjust("2 seconds")
      yield* session(directory, (log) => {
        const { checkpoint, run } = Option.getOrThrow(log.resumed)
        assert.strictEqual(Option.getOrThrow(checkpoint).step, 2)
        assert.deepStrictEqual(run.checkpoints.map(({ name }) => name), ["periodic-2"])
        return log.append(step(3, 30))
      })
      const found = Option.getOrThrow(yield* RunLog.read(directory))
      assert.deepStrictEqual(found.checkpoints.map(({ name }) => name), ["periodic-2"])
      assert.deepStrictEqual(found.steps.map(({ step }) => step), [1, 2, 3])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a last line that was torn off is removed; a broken line elsewhere is a failure that names it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* temporary
      const path = `${directory}/journal.jsonl`
      yield* session(directory, (log) => Effect.zipRight(log.append(step(1)), log.append(checkpoint(1))))
      const whole = yield* fs.readFileString(path)
      const last = whole.trimEnd().split("\n").pop() ?? ""
      for (const cut of [1, 2, Math.floor(last.length / 2), last.length]) {
        yield* fs.writeFileString(path, whole.slice(0, -cut))
        const { steps } = Option.getOrThrow(yield* RunLog.read(directory))
        assert.strictEqual(steps.length, 1, `${cut} bytes are missing`)
        yield* session(directory, (log) => log.append(step(2)))
        const again = Option.getOrThrow(yield* RunLog.read(directory))
        assert.deepStrictEqual(again.steps.map((entry) => entry.step), [1, 2], `${cut} bytes were missing`)
      }
      yield* fs.writeFileString(path, `{"_tag":"Step"}\n${whole}`)
      const error = yield* Effect.flip(RunLog.read(directory))
      assert.strictEqual(error._tag, "MalformedEntry")
      assert.include(error.message, "journal.jsonl:1:")
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("a torn line is removed whatever its length", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* temporary
      const path = `${directory}/journal.jsonl`
      yield* session(directory, (log) => log.append(step(1)))
      yield* fs.writeFileString(path, `{"note":"${"x".repeat(300_000)}`, { flag: "a" })
      yield* session(directory, (log) => log.append(step(2)))
      assert.notInclude(yield* fs.readFileString(path), "xxx")
    }).pipe(Effect.provide(NodeContext.layer)))

  it("a checkpoint that has expired is not resumed from", () => {
    const checkpoints = [checkpoint(1), checkpoint(2, "periodic", 1000)].map((entry) =>
      new RunEntry.Checkpoint({ ...entry, time: 0 })
    )
    const latest = (now: number) => Option.map(RunLog.latestCheckpoint({ checkpoints }, now), (found) => found.step)
    assert.deepStrictEqual([latest(999), latest(1000)], [Option.some(2), Option.some(1)])
    assert.strictEqual(RunLog.expiring({ checkpoints }, 500, 500).length, 1)
    assert.strictEqual(RunLog.expiring({ checkpoints }, 500, 499).length, 0)
    // the one without an end takes its place
    assert.strictEqual(RunLog.expiring({ checkpoints }, 1500, 500).length, 0)
  })

  it.scoped("rollouts of a step are those of its last attempt", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      yield* session(
        directory,
        (log) => Effect.zipRight(log.appendRollouts(1, ["a"]), log.appendRollouts(2, ["b", "c"]))
      )
      yield* session(directory, (log) => log.appendRollouts(2, ["d"]))
      assert.deepStrictEqual(yield* RunLog.rollouts(directory, 1), ["a"])
      assert.deepStrictEqual(yield* RunLog.rollouts(directory, 2), ["d"])
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("RunLog.open", () => {
  it.scoped("gives a directory to one run at a time, and says who has it", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* temporary
      const claims = Effect.map(
        fs.readDirectory(directory),
        (names) => names.filter((name) => name.startsWith(".lock"))
      )
      yield* session(directory, (log) =>
        Effect.gen(function*() {
          const error = yield* Effect.flip(session(directory, () => Effect.void))
          assert.isTrue(error._tag === "RunInUse" && error.pid === process.pid)
          assert.strictEqual((yield* claims).length, 1)
          yield* log.append(step(1))
        }))
      assert.deepStrictEqual(yield* claims, [])
      assert.strictEqual(Option.getOrThrow(yield* RunLog.read(directory)).steps.length, 1)
      // another process that is there, and was there a moment ago
      const now = yield* Clock.currentTimeMillis
      yield* fs.writeFileString(`${directory}/.lock-${process.ppid}-1`, String(now))
      const error = yield* Effect.flip(session(directory, () => Effect.void))
      assert.isTrue(error._tag === "RunInUse" && error.pid === process.ppid)
      // its id was given to somebody else since; a process that is gone; one before this that had the same id
      yield* fs.writeFileString(`${directory}/.lock-${process.ppid}-1`, String(now - 200_000))
      yield* fs.writeFileString(`${directory}/.lock-4194305-1`, String(now))
      yield* fs.writeFileString(`${directory}/.lock-${process.pid}-999999`, String(now))
      yield* session(directory, () => Effect.void)
      assert.deepStrictEqual(yield* claims, [])
    }).pipe(Effect.provide(NodeContext.layer)))

  it.scoped("of many that open at once, never two have it", () =>
    Effect.gen(function*() {
      const directory = yield* temporary
      let holding = 0
      const outcomes = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => n),
        () =>
          session(directory, () =>
            Effect.gen(function*() {
              assert.strictEqual(++holding, 1)
              yield* Effect.yieldNow()
              holding--
              return "held"
            })).pipe(Effect.catchTag("RunInUse", () => Effect.succeed("refused"))),
        { concurrency: "unbounded" }
      )
      assert.include(outcomes, "refused")
      yield* session(directory, () => Effect.void)
    }).pipe(Effect.provide(NodeContext.layer)))
})

describe("RunConfig", () => {
  const config = Effect.runSync(Supervised.config({ model: "local/tiny", learningRate: 1e-3 }))

  it("fields are overridden by name; what does not fit is reported", () => {
    const changed = Either.getOrThrow(
      RunConfig.override(Supervised.Config, config, ["model.rank=8", "learningRate.decay=cosine", "model.baseModel=7"])
    )
    assert.strictEqual(changed.model.rank, 8)
    assert.strictEqual(changed.learningRate.decay, "cosine")
    assert.strictEqual(changed.model.baseModel, "7")
    assert.instanceOf(changed.model, Trainer.Model)
    for (const wrong of ["model.rank=big", "model.renk=8", "rank", "=3", "learningRate.decay=slow"]) {
      const result = RunConfig.override(Supervised.Config, config, [wrong])
      assert.isTrue(Either.isLeft(result) && result.left.message.startsWith(wrong), wrong)
    }
  })

  it.effect("the hash is that of the values, not of their order", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* RunConfig.hash({ a: 1, b: { c: 2, d: 3 } }),
        yield* RunConfig.hash({ b: { d: 3, c: 2 }, a: 1 })
      )
      assert.notStrictEqual(yield* RunConfig.hash({ a: 1 }), yield* RunConfig.hash({ a: 2 }))
      const json = Schema.encodeSync(Supervised.Config)(config)
      assert.deepStrictEqual(RunConfig.diff(json, { ...json, batchSize: 1 }), [{
        path: "batchSize",
        before: 32,
        after: 1
      }])
      assert.include(RunConfig.print(json), "\"baseModel\": \"local/tiny\"")
    }))
})
