import { assert, describe, it } from "@effect/vitest"
import { Effect, Either, Fiber, Layer } from "effect"
import { CustomLoss, Datum, ServiceClient, TrainingClient, UploadedLoss } from "effect-tinker"
import * as LocalTokenizer from "../src/LocalTokenizer.js"
import * as TinkerLocal from "../src/TinkerLocal.js"

/** The SDK's clients over the embedded backend, in process. */
const Local = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
  Layer.provideMerge(TinkerLocal.layer())
)

const texts = ["cat: meow\n", "dog: woof\n", "cow: moo\n"]
const batch = texts.map((text) => Either.getOrThrow(Datum.fromTokens(LocalTokenizer.encode(text))))
const adam = { learningRate: 5e-4 }
const create = TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
const lossOf = (output: { readonly metrics: Readonly<Record<string, number>> }) =>
  output.metrics["loss:sum"] ?? Number.NaN

describe("TrainingClient on the embedded backend", () => {
  it.scoped("a pipelined loop learns: the loss falls to a quarter", () =>
    Effect.gen(function*() {
      const training = yield* create
      // Step n + 1 is sent before the result of step n is awaited.
      let pending = yield* training.trainStep(batch, "cross_entropy", adam)
      const losses: Array<number> = []
      for (let i = 0; i < 12; i++) {
        const next = yield* training.trainStep(batch, "cross_entropy", adam)
        losses.push(lossOf((yield* pending).pass))
        pending = next
      }
      yield* pending
      assert.isBelow(losses[11] ?? Infinity, (losses[0] ?? 0) / 4)
      assert.include(yield* training.tokenizerId, "local")
    }).pipe(Effect.provide(Local)))

  it.scoped("a resumed model goes on exactly where the saved one stopped", () =>
    Effect.gen(function*() {
      const training = yield* create
      for (let i = 0; i < 3; i++) yield* training.trainStep(batch, "cross_entropy", adam)
      const { path } = yield* Effect.flatten(training.saveState("resume-here"))
      const steps = (client: TrainingClient.Service) =>
        Effect.forEach([1, 2, 3], () =>
          Effect.map(
            Effect.flatten(client.trainStep(batch, "cross_entropy", adam)),
            ({ pass }) => lossOf(pass)
          ))
      const original = yield* steps(training)
      const resumed = yield* Effect.flatMap(TrainingClient.makeFromState({ path, withOptimizer: true }), steps)
      original.forEach((loss, i) => assert.closeTo(resumed[i] ?? Number.NaN, loss, 1e-6))
      // Without the optimizer's state the weights are the same, the steps after the first are not.
      const cold = yield* Effect.flatMap(TrainingClient.makeFromState({ path }), steps)
      assert.closeTo(cold[0] ?? Number.NaN, original[0] ?? 0, 1e-6)
      assert.isAbove(Math.abs((cold[2] ?? 0) - (original[2] ?? 0)), 1e-4)
    }).pipe(Effect.provide(Local)))

  it.scoped("a name that is taken is told at once, and training goes on", () =>
    Effect.gen(function*() {
      const training = yield* create
      yield* Effect.flatten(training.saveState("taken"))
      const error = yield* Effect.flip(Effect.flatten(training.saveState("taken")))
      assert.strictEqual(error._tag, "BadRequest")
      assert.isTrue(
        Number.isFinite(lossOf((yield* Effect.flatten(training.trainStep(batch, "cross_entropy", adam))).pass))
      )
    }).pipe(Effect.provide(Local)))

  it.scoped("a custom cross entropy trains as the built-in one does, to 1e-5", () =>
    Effect.gen(function*() {
      const builtIn = yield* create
      const custom = yield* create
      for (let i = 0; i < 4; i++) {
        const own = yield* Effect.flatten(builtIn.forwardBackward(batch, "cross_entropy"))
        const mine = yield* Effect.flatten(custom.forwardBackwardCustom(batch, CustomLoss.crossEntropy))
        yield* builtIn.optimStep(adam)
        yield* custom.optimStep(adam)
        const tolerance = 1e-5 * Math.abs(lossOf(own))
        assert.closeTo(lossOf(mine), lossOf(own), tolerance)
        assert.closeTo(mine.metrics["surrogate_loss:sum"] ?? Number.NaN, lossOf(own), tolerance)
      }
    }).pipe(Effect.provide(Local)))

  it.scoped(
    "preferences: direct preference optimisation widens the margin it is paid for",
    () =>
      Effect.gen(function*() {
        const training = yield* create
        const pair = ["cat: meow\n", "cat: woof\n"].map((text) =>
          Either.getOrThrow(Datum.fromTokens(LocalTokenizer.encode(text)))
        )
        const before = yield* Effect.flatten(training.forward(pair, "cross_entropy"))
        const reference = before.lossFnOutputs.map((record) => Array.from(record["logprobs"]?.data ?? [], Number))
        const loss = CustomLoss.dpo({ reference, beta: 0.5 })
        const margins: Array<number> = []
        for (let i = 0; i < 6; i++) {
          const output = yield* Effect.flatten(training.forwardBackwardCustom(pair, loss))
          yield* training.optimStep(adam)
          margins.push(output.metrics["margin"] ?? Number.NaN)
        }
        assert.closeTo(margins[0] ?? Number.NaN, 0, 1e-5)
        assert.isAbove(margins[5] ?? 0, 1)
      }).pipe(Effect.provide(Local)),
    60_000
  )

  it.scoped(
    "operations started together are computed in the order in which they started",
    () =>
      Effect.gen(function*() {
        const training = yield* create
        const fibers = yield* Effect.forEach(
          Array.from({ length: 8 }),
          () => Effect.fork(Effect.flatten(training.trainStep(batch, "cross_entropy", adam)))
        )
        const losses = (yield* Fiber.join(Fiber.all(fibers))).map(({ pass }) => lossOf(pass))
        assert.deepStrictEqual(losses, [...losses].sort((a, b) => b - a))
      }).pipe(Effect.provide(Local)),
    60_000
  )

  describe("a loss the server runs", () => {
    const node = (
      op: "placeholder" | "call_function" | "call_method" | "output",
      name: string,
      target: string,
      ...args: ReadonlyArray<unknown>
    ) => ({ op, name, target, args })
    const crossEntropy: UploadedLoss.Options = {
      name: "cross entropy",
      inputs: [{ name: "logprobs", rank: 1 }, { name: "weights", rank: 1 }],
      graph: [
        node("placeholder", "logprobs", "logprobs"),
        node("placeholder", "weights", "weights"),
        node("call_function", "mul", "operator.mul", { ref: "logprobs" }, { ref: "weights" }),
        node("call_method", "sum_1", "sum", { ref: "mul" }),
        node("call_function", "neg", "operator.neg", { ref: "sum_1" }),
        node("output", "output", "output", { tuple: [{ ref: "neg" }, { dict: { "custom/nll:sum": { ref: "neg" } } }] })
      ]
    }
    const Hosting = ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey: TinkerLocal.apiKey }).pipe(
      Layer.provideMerge(TinkerLocal.layer({ clientConfig: { customLossServerSide: true } }))
    )

    it.scoped("is uploaded once, and trains as the same loss by its name does", () =>
      Effect.gen(function*() {
        const loss = yield* UploadedLoss.make(crossEntropy)
        const other = yield* UploadedLoss.make({ ...crossEntropy, name: "again" })
        assert.notStrictEqual(loss.lossId, other.lossId)
        const losses = (name: Parameters<TrainingClient.Service["trainStep"]>[1]) =>
          Effect.flatMap(create, (training) =>
            Effect.forEach([1, 2, 3], () =>
              Effect.map(Effect.flatten(training.trainStep(batch, name, adam)), ({ pass }) =>
                pass.metrics)))
        const own = yield* losses(loss)
        const named = yield* losses("cross_entropy")
        named.forEach((metrics, i) => {
          assert.closeTo(own[i]?.["loss:sum"] ?? Number.NaN, metrics["loss:sum"] ?? 0, 1e-3)
          assert.closeTo(own[i]?.["custom/nll:sum"] ?? Number.NaN, metrics["loss:sum"] ?? 0, 1e-3)
        })
      }).pipe(Effect.provide(Hosting)))

    it.scoped("is refused in words: by us when it cannot be one, by the server when it cannot run it", () =>
      Effect.gen(function*() {
        const refused = (options: UploadedLoss.Options) => Effect.flip(UploadedLoss.make(options))
        const { graph, inputs } = crossEntropy
        for (
          const [options, words] of [
            [{ inputs: inputs.slice(1) }, "the first input must be logprobs"],
            [{ inputs: [...inputs, ...inputs] }, "not a unique lower-case name"],
            [{ graph: graph.slice(1) }, "are not the inputs"],
            [{ graph: graph.slice(0, -1) }, "the last node must be the output"],
            [{ graph: [...graph.slice(0, 3), ...graph.slice(2)] }, "two nodes are named \"mul\""]
          ] as const
        ) {
          const error = yield* refused({ ...crossEntropy, ...options })
          assert.strictEqual(error._tag, "InvalidInput")
          assert.include(error.message, words)
        }
        const unknown = yield* refused({
          ...crossEntropy,
          graph: graph.map((one) => one.name === "mul" ? { ...one, target: "torch.linalg.svd" } : one)
        })
        assert.strictEqual(unknown._tag, "BadRequest")
        assert.include(unknown.message, "torch.linalg.svd")
      }).pipe(Effect.provide(Hosting)))

    it.scoped("is not for servers that run none", () =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(UploadedLoss.make(crossEntropy))
        assert.strictEqual(error._tag, "InvalidInput")
        assert.include(error.message, "forwardBackwardCustom")
      }).pipe(Effect.provide(Local)))
  })
})
