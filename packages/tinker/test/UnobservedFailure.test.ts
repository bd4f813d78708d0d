import { assert, describe, it } from "@effect/vitest"
import { Cause, Deferred, Effect, Either, Exit, Fiber, Logger, LogLevel, Option, Scope, TestClock } from "effect"
import { Datum, TinkerError, TinkerFuture, type TrainingClient } from "../src/index.js"
import * as Server from "./utils/recordingServer.js"
import * as Training from "./utils/trainingServer.js"

const datum = Either.getOrThrow(Datum.fromTokens([1, 2, 3]))
const adam = { learningRate: 1e-4 }

const failed = Server.json({ error: "no gradients", category: "user" })

/** A server on which optimizer steps fail. */
const failing = (options: Training.Options = {}) =>
  Training.make({ ...options, result: (request) => request?.path === "optim_step" ? failed : undefined })

const warnings = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel === LogLevel.Warning) lines.push(String(message))
  })
  return { lines, layer: Logger.replace(Logger.defaultLogger, logger) }
}

/** Runs in a client's own scope and tells how that scope ended. */
const within = <A, E>(
  server: Training.TrainingServer,
  use: (training: TrainingClient.Service) => Effect.Effect<A, E, Scope.Scope>
) =>
  Effect.gen(function*() {
    const scope = yield* Scope.make()
    const training = yield* Scope.extend(Training.client(server), scope)
    const used = yield* Effect.exit(Scope.extend(use(training), scope))
    const closed = yield* Effect.exit(Scope.close(scope, used))
    return { used, closed }
  })

const defectOf = (exit: Exit.Exit<unknown, unknown>): TinkerError.UnobservedFailure => {
  const defect = Exit.isFailure(exit) ? Option.getOrUndefined(Cause.dieOption(exit.cause)) : undefined
  assert.instanceOf(defect, TinkerError.UnobservedFailure)
  return defect
}

const barriers: ReadonlyArray<
  readonly [string, (training: TrainingClient.Service) => Effect.Effect<unknown, TinkerError.TinkerError, Scope.Scope>]
> = [
  ["saveState", (training) => training.saveState("a").pipe(TinkerFuture.await)],
  ["saveWeightsForSampler", (training) => training.saveWeightsForSampler("a").pipe(TinkerFuture.await)],
  ["saveWeightsExternal", (training) => training.saveWeightsExternal("a").pipe(TinkerFuture.await)],
  ["saveWeightsEphemeral", (training) => training.saveWeightsEphemeral.pipe(TinkerFuture.await)],
  ["saveWeightsAndGetSamplingClient", (training) => training.saveWeightsAndGetSamplingClient()],
  ["createSamplingClient", (training) => training.createSamplingClient("tinker://run/sampler_weights/a")],
  ["settle", (training) => training.settle]
]

describe("G16: a failure nobody observes is not lost", () => {
  for (const [method, barrier] of barriers) {
    it.effect(`fails the next ${method}, which names the operation and carries its cause`, () =>
      Effect.gen(function*() {
        const { lines, layer } = warnings()
        const { closed, used } = yield* within(failing(), (training) =>
          Effect.gen(function*() {
            yield* training.forwardBackward([datum], "cross_entropy")
            yield* training.optimStep(adam)
            const error = yield* Effect.flip(barrier(training))
            assert.instanceOf(error, TinkerError.UnobservedFailure)
            assert.strictEqual(error.method, method)
            assert.strictEqual(error.operation, "optimStep")
            assert.strictEqual(error.seqId, 2)
            assert.strictEqual(error.modelId, training.modelId)
            assert.instanceOf(error.cause, TinkerError.RequestFailed)
            assert.include(error.message, "no gradients")
            assert.include(error.message, "TinkerFuture.await")
            assert.isTrue(TinkerError.isUserError(error))
            // Raised once: from here on the caller knows.
            yield* barrier(training).pipe(Effect.catchTag("NotFound", () => Effect.void))
          })).pipe(Effect.provide(layer))
        assert.isTrue(Exit.isSuccess(used), String(used))
        assert.isTrue(Exit.isSuccess(closed), String(closed))
        assert.strictEqual(lines.length, 1)
        assert.match(lines[0] ?? "", /optimStep \(operation 2 of model .*\) failed and nothing awaited it/)
      }))
  }

  it.effect("fails the closing of a scope that ends well, as a defect", () =>
    Effect.gen(function*() {
      const { lines, layer } = warnings()
      const { closed } = yield* within(failing(), (training) => training.optimStep(adam)).pipe(Effect.provide(layer))
      assert.strictEqual(defectOf(closed).operation, "optimStep")
      assert.strictEqual(lines.length, 1)
    }))

  it.effect("does not ask for anything when the scope ends with a failure or an interruption", () =>
    Effect.gen(function*() {
      for (const end of [Effect.fail("oh"), Effect.interrupt]) {
        const server = failing()
        const { closed } = yield* within(server, (training) => Effect.zipRight(training.optimStep(adam), end))
        assert.isTrue(Exit.isSuccess(closed))
        assert.notInclude(
          server.seen.filter(({ path }) => path.endsWith("retrieve_future")).map(({ json }) => json["request_id"]),
          "session-1:train:0/1"
        )
      }
    }))

  it.effect("getInfo and further passes are no barriers", () =>
    within(
      failing({ other: ({ path }) => path.endsWith("get_info") ? Server.json(info) : undefined }),
      (training) =>
        Effect.gen(function*() {
          const step = yield* training.optimStep(adam)
          yield* training.getInfo
          yield* training.forwardBackward([datum], "cross_entropy").pipe(TinkerFuture.await)
          yield* Effect.flip(step)
        })
    ).pipe(Effect.map(({ closed, used }) => {
      assert.isTrue(Exit.isSuccess(used), String(used))
      assert.isTrue(Exit.isSuccess(closed), String(closed))
    })))

  it.effect("awaiting a future, or one derived from it, observes its failure; so does ignoring it", () =>
    Effect.gen(function*() {
      const { lines, layer } = warnings()
      const { closed, used } = yield* within(failing(), (training) =>
        Effect.gen(function*() {
          yield* Effect.flip(training.optimStep(adam).pipe(TinkerFuture.await))
          yield* Effect.flip(TinkerFuture.map(yield* training.optimStep(adam), () => 0))
          const one = yield* training.optimStep(adam)
          const two = yield* training.optimStep(adam)
          yield* Effect.flip(TinkerFuture.zip(one, two))
          yield* Effect.flip(training.trainStep([datum], "cross_entropy", adam).pipe(TinkerFuture.await))
          yield* TinkerFuture.ignore(yield* training.optimStep(adam))
          yield* TinkerFuture.ignore(yield* training.trainStep([datum], "cross_entropy", adam))
          yield* training.saveState("fine").pipe(TinkerFuture.await)
        })).pipe(Effect.provide(layer))
      assert.isTrue(Exit.isSuccess(used), String(used))
      assert.isTrue(Exit.isSuccess(closed), String(closed))
      assert.deepStrictEqual(lines, [])
    }))

  it.effect("a wait that is interrupted or times out has observed nothing", () =>
    Effect.gen(function*() {
      const gate = yield* Deferred.make<void>()
      const server = Training.make({
        result: (request) => request?.path === "optim_step" ? Effect.as(Deferred.await(gate), failed) : undefined
      })
      const { used } = yield* within(server, (training) =>
        Effect.gen(function*() {
          const step = yield* training.optimStep(adam)
          const waiting = yield* Effect.fork(step)
          yield* Effect.yieldNow().pipe(Effect.repeatN(20))
          yield* Fiber.interrupt(waiting)
          const late = yield* Effect.fork(Effect.flip(TinkerFuture.timeout(step, "1 minute")))
          yield* TestClock.adjust("1 minute")
          assert.strictEqual((yield* Fiber.join(late))._tag, "TimedOut")
          yield* Deferred.succeed(gate, undefined)
          return yield* Effect.flip(training.saveState("a").pipe(TinkerFuture.await))
        }))
      assert.strictEqual(Exit.isSuccess(used) ? used.value._tag : String(used), "UnobservedFailure")
    }))

  it.effect("a barrier is sent right behind the operations before it; only its result waits for theirs", () =>
    Effect.gen(function*() {
      const server = failing()
      yield* within(server, (training) =>
        Effect.gen(function*() {
          const step = yield* training.optimStep(adam)
          const save = yield* training.saveState("a")
          assert.deepStrictEqual(server.numbers(training.modelId), [1, 2])
          yield* Effect.flip(step)
          assert.include(String((yield* save).path), "/weights/a")
        }))
    }))

  it.effect("a barrier that is bound to fail is not sent: the failure is known already", () =>
    Effect.gen(function*() {
      const server = failing()
      yield* within(server, (training) =>
        Effect.gen(function*() {
          for (let i = 0; i < 150; i++) yield* training.optimStep(adam)
          yield* Effect.yieldNow().pipe(Effect.repeatN(2_000))
          assert.strictEqual((yield* Effect.flip(training.saveState("a")))._tag, "UnobservedFailure")
          assert.strictEqual(server.log.length, 150)
          yield* Effect.flip(training.settle)
        }))
    }))

  it.effect("keeps a barrier's failure, however often its future is awaited", () =>
    Effect.gen(function*() {
      const { used } = yield* within(failing(), (training) =>
        Effect.gen(function*() {
          yield* training.optimStep(adam)
          const save = yield* training.saveState("a")
          return [yield* Effect.flip(save), yield* Effect.flip(save)] as const
        }))
      assert.isTrue(Exit.isSuccess(used))
      if (Exit.isSuccess(used)) assert.strictEqual(used.value[0], used.value[1])
    }))

  it.effect("what succeeded costs a barrier one poll, and a second barrier none", () =>
    Effect.gen(function*() {
      const server = Training.make()
      yield* within(server, (training) =>
        Effect.gen(function*() {
          for (let i = 0; i < 40; i++) yield* training.optimStep(adam)
          yield* training.saveState("a").pipe(TinkerFuture.await)
          const polls = () => server.seen.filter(({ path }) => path.endsWith("retrieve_future")).length
          // The model, the steps and the save.
          assert.strictEqual(polls(), 42)
          yield* training.saveState("b").pipe(TinkerFuture.await)
          assert.strictEqual(polls(), 43)
        }))
    }))

  it.effect("a loop that never awaits is settled in the background, its failures counted and logged", () =>
    Effect.gen(function*() {
      const { lines, layer } = warnings()
      const { closed } = yield* within(failing(), (training) =>
        Effect.gen(function*() {
          for (let i = 0; i < 300; i++) yield* training.optimStep(adam)
          yield* Effect.yieldNow().pipe(Effect.repeatN(2_000))
          assert.isAbove(lines.length, 0)
        })).pipe(Effect.provide(layer))
      const error = defectOf(closed)
      assert.strictEqual(error.seqId, 1)
      assert.strictEqual(error.others, 299)
      assert.strictEqual(lines.length, 16)
    }))

  it.effect("closing waits a bounded time, and says what it does not know", () =>
    Effect.gen(function*() {
      const { lines, layer } = warnings()
      const server = Training.make({ result: (request) => request?.path === "optim_step" ? Effect.never : undefined })
      const closing = yield* Effect.fork(
        within(server, (training) => training.optimStep(adam)).pipe(Effect.provide(layer))
      )
      yield* TestClock.adjust("9 seconds")
      assert.isTrue(Option.isNone(yield* Fiber.poll(closing)))
      yield* TestClock.adjust("1 seconds")
      assert.isTrue(Exit.isSuccess((yield* Fiber.join(closing)).closed))
      assert.include(lines[0] ?? "", "the outcome is unknown")
    }))

  it.effect("where the outcome cannot be found out, a barrier says why and closing warns", () =>
    Effect.gen(function*() {
      const { lines, layer } = warnings()
      const server = Training.make({
        result: (request) => request?.path === "optim_step" ? Server.refuse(401) : undefined
      })
      const { closed, used } = yield* within(
        server,
        (training) => Effect.zipRight(training.optimStep(adam), Effect.flip(training.settle))
      ).pipe(Effect.provide(layer))
      assert.strictEqual(Exit.isSuccess(used) ? used.value._tag : String(used), "Authentication")
      assert.isTrue(Exit.isSuccess(closed), String(closed))
      assert.include(lines[0] ?? "", "the outcome is unknown")
    }))

  it.effect("a result the server has forgotten is a warning, not a failure", () =>
    Effect.gen(function*() {
      const { lines, layer } = warnings()
      const server = Training.make({
        result: (request) => request?.path === "optim_step" ? Server.refuse(410) : undefined
      })
      const { closed } = yield* within(server, (training) => training.optimStep(adam)).pipe(Effect.provide(layer))
      assert.isTrue(Exit.isSuccess(closed))
      assert.include(lines[0] ?? "", "no longer knows its result")
    }))
})

const info = {
  model_id: "m",
  model_data: { arch: "a", model_name: "n" },
  is_lora: true,
  lora_rank: 8,
  type: "get_info"
}
