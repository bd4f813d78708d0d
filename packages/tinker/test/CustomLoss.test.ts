import { assert, describe, it } from "@effect/vitest"
import { Effect, Either } from "effect"
import type { TinkerError } from "../src/index.js"
import { Autodiff, CustomLoss, Datum, TensorData } from "../src/index.js"
import * as Losses from "../src/internal/training/losses.js"
import type { ForwardBackward } from "../src/wire.js"
import { numbers } from "./utils/finiteDifference.js"

const tensor = (values: ReadonlyArray<number> | ReadonlyArray<ReadonlyArray<number>>) =>
  Either.getOrThrow(TensorData.fromArray(values, { dtype: "float32" }))
const datum = (lossFnInputs: Record<string, Datum.LossFnInput>) =>
  Either.getOrThrow(Datum.make({ modelInput: [1, 2, 3], lossFnInputs: { target_tokens: [2, 3, 4], ...lossFnInputs } }))
const output = (
  logprobs: ReadonlyArray<ReadonlyArray<number> | ReadonlyArray<ReadonlyArray<number>>>,
  metrics: Record<string, number> = { "loss:sum": 7 }
): ForwardBackward.Output => ({
  lossFnOutputType: "TorchLossReturn",
  lossFnOutputs: logprobs.map((values) => ({ logprobs: tensor(values) })),
  metrics
})
const weightsOf = (one: Datum.Datum | undefined) => [...(one?.lossFnInputs["weights"]?.data ?? [])].map(Number)
const describeError = (error: TinkerError.TinkerError) => [error._tag, error.description] as const

const data = [datum({ weights: [0, 1, 0.5] }), datum({ weights: [1, 1, 1] })]
const logprobs = [[-0.5, -1, -2], [-0.25, -3, -0.125]]

describe("CustomLoss", () => {
  it.effect("cross entropy comes back as its own weights", () =>
    Effect.gen(function*() {
      const evaluated = yield* Losses.evaluate(CustomLoss.crossEntropy, data, output(logprobs))
      assert.deepStrictEqual(evaluated.data.map(weightsOf), [[0, 1, 0.5], [1, 1, 1]])
      assert.closeTo(evaluated.loss, 1 + 1 + 0.25 + 3 + 0.125, 1e-12)
    }))

  it.effect("the surrogate has the gradient of the user's loss", () =>
    Effect.gen(function*() {
      const square = CustomLoss.perDatum((lp) => Autodiff.sum(Autodiff.square(lp)))
      const evaluated = yield* Losses.evaluate(square, data, output(logprobs))
      // d/dlp Σ -lp·w = -w = d/dlp Σ lp² = 2 lp
      assert.deepStrictEqual(evaluated.data.map(weightsOf), logprobs.map((row) => row.map((lp) => -2 * lp)))
    }))

  it.effect("gradients computed elsewhere, in an Effect, are taken as they are", () =>
    Effect.gen(function*() {
      const evaluated = yield* Losses.evaluate(
        (_, lps) => Effect.succeed({ loss: 3, gradients: lps.map((lp) => lp.values), metrics: { mine: 1 } }),
        data,
        output(logprobs)
      )
      assert.deepStrictEqual(evaluated.data.map(weightsOf), logprobs.map((row) => row.map((lp) => -lp)))
      assert.deepStrictEqual(Losses.mergeMetrics(output(logprobs), evaluated).metrics, {
        mine: 1,
        "loss:sum": 3,
        "surrogate_loss:sum": 7
      })
    }))

  it.effect("metrics: the user's loss is loss:sum, also where the server reports none", () =>
    Effect.gen(function*() {
      const evaluated = { data: [], loss: 2, metrics: { "loss:sum": 99, x: 1 } }
      assert.deepStrictEqual(Losses.mergeMetrics(output([], { y: 5 }), evaluated).metrics, {
        y: 5,
        x: 1,
        "loss:sum": 2
      })
    }))

  it("extra inputs stay here, missing weights become zeros, provenance is kept", () => {
    const spans = [{ source: "prompt", sequenceId: "s:0", length: 3 }] as const
    const bare = Either.getOrThrow(Datum.withProvenance(datum({ advantages: [1, 2, 3] }), {
      modelInput: spans,
      lossFnInputs: spans
    }))
    const [sent] = Either.getOrThrow(Losses.forwardData([bare]))
    assert.deepStrictEqual(Object.keys(sent?.lossFnInputs ?? {}), ["target_tokens", "weights"])
    assert.deepStrictEqual(weightsOf(sent), [0, 0, 0])
    assert.deepStrictEqual(sent?.modelInputSpans, spans)
  })

  it.effect("two-dimensional targets keep their shape", () =>
    Effect.gen(function*() {
      const soft = Either.getOrThrow(
        Datum.make({ modelInput: [1, 2], lossFnInputs: { target_tokens: [[1, 2], [3, 4]] } })
      )
      const [sent] = Either.getOrThrow(Losses.forwardData([soft]))
      assert.deepStrictEqual(sent?.lossFnInputs["weights"]?.shape, [2, 2])
      const distil = CustomLoss.perDatum((lp) => Autodiff.sum(Autodiff.mul(lp, [[1, 2], [3, 4]])))
      const evaluated = yield* Losses.evaluate(distil, [soft], output([[[-1, -2], [-3, -4]]]))
      assert.deepStrictEqual(evaluated.data[0]?.lossFnInputs["weights"]?.shape, [2, 2])
      assert.deepStrictEqual(weightsOf(evaluated.data[0]), [-1, -2, -3, -4])
    }))

  it.effect("mistakes are InvalidInput with the datum named; a short answer is MalformedResponse", () =>
    Effect.gen(function*() {
      const failing = <E>(loss: CustomLoss.CustomLoss<E>, out = output(logprobs)) =>
        Effect.map(Effect.flip(Losses.evaluate(loss, data, out)), (error) => error)
      const first: CustomLoss.CustomLoss = (_, lps) => ({ loss: Autodiff.sum(lps[0] ?? 0) })
      assert.deepStrictEqual(describeError(yield* failing(first)), [
        "InvalidInput",
        "the loss does not depend on the logprobs of datum 1"
      ])
      const vector: CustomLoss.CustomLoss = (_, lps) => ({ loss: lps[0] ?? Autodiff.constant(0) })
      assert.include((yield* failing(vector)).message, "only a scalar")
      const infinite = CustomLoss.perDatum((lp) => Autodiff.sum(Autodiff.log(Autodiff.mul(lp, 0))))
      assert.include((yield* failing(infinite)).message, "not finite")
      const throwing: CustomLoss.CustomLoss = () => {
        throw new Error("my mistake")
      }
      const thrown = yield* failing(throwing)
      assert.include(thrown.message, "my mistake")
      assert.instanceOf(thrown.cause, Error)
      const short: CustomLoss.CustomLoss = () => ({ loss: 0, gradients: [[0, 0, 0]] })
      assert.include((yield* failing(short)).message, "1 gradients for 2 data")
      const ragged: CustomLoss.CustomLoss = () => ({ loss: 0, gradients: [[0, 0, 0], [0]] })
      assert.include((yield* failing(ragged)).message, "datum 1 has 3 logprobs")
      assert.strictEqual((yield* failing(CustomLoss.crossEntropy, output([[-1, -1, -1]])))._tag, "MalformedResponse")
      const none = { ...output(logprobs), lossFnOutputs: [{}, {}] }
      assert.strictEqual((yield* failing(CustomLoss.crossEntropy, none))._tag, "MalformedResponse")
      assert.isTrue(Either.isLeft(Losses.forwardData([Either.getOrThrow(Datum.make({ modelInput: [1] }))])))
    }))

  it.effect("dpo pairs neighbours and reports what to watch", () =>
    Effect.gen(function*() {
      const loss = CustomLoss.dpo({ beta: 1, reference: [[-1, -1, -1], [-1, -1, -1]] })
      const evaluated = yield* Losses.evaluate(loss, data, output([[-1, -0.5, -1], [-1, -1, -1.5]]))
      // margin = 1·0.5 - (-0.5) = 1
      const sigma = 1 / (1 + Math.exp(1))
      assert.closeTo(evaluated.loss, Math.log(1 + Math.exp(-1)), 1e-12)
      assert.deepStrictEqual(
        weightsOf(evaluated.data[0]).map((w) => Number(w.toFixed(6))),
        [0, sigma, sigma / 2].map((w) => Number(w.toFixed(6)))
      )
      assert.deepStrictEqual({ ...evaluated.metrics, dpo_loss: 0 }, {
        dpo_loss: 0,
        accuracy: 1,
        margin: 1,
        chosen_reward: 0.5,
        rejected_reward: -0.5
      })
      const odd = yield* Effect.flip(Losses.evaluate(loss, data.slice(1), output(logprobs.slice(1))))
      assert.include(odd.message, "not pairs")
    }))

  it.effect("ppoClip reads the data's own logprobs and advantages; a KL penalty only touches active tokens", () =>
    Effect.gen(function*() {
      const rl = [datum({ logprobs: [0, -1, -1], advantages: [0, 1, -1] })]
      const now = output([[-0.5, -1, -1]])
      const plain = yield* Losses.evaluate(CustomLoss.ppoClip(), rl, now)
      assert.deepStrictEqual(weightsOf(plain.data[0]).map((w) => w + 0), [0, 1, -1])
      const penalised = yield* Losses.evaluate(
        CustomLoss.ppoClip({ klPenalty: { coefficient: 0.5, reference: [[-9, -1, -2]] } }),
        rl,
        now
      )
      const [prompt, same, away] = weightsOf(penalised.data[0])
      assert.strictEqual((prompt ?? 1) + 0, 0)
      assert.closeTo(same ?? 0, 1, 1e-6)
      // KL grows with the logprob above the reference's: the penalty pushes it down
      assert.isBelow(away ?? 0, -1)
    }))

  it("64 data × 256 logprobs are differentiated in milliseconds", () => {
    const lps = Array.from({ length: 64 }, (_, i) => Autodiff.variable(numbers(i, 256, -3, 0)))
    const rl = lps.map((_, i) =>
      Either.getOrThrow(Datum.make({
        modelInput: new Int32Array(256),
        lossFnInputs: {
          logprobs: Float32Array.from(numbers(i + 100, 256, -3, 0)),
          advantages: Float32Array.from(numbers(i + 200, 256, -1, 1))
        }
      }))
    )
    const outcome = CustomLoss.ppoClip()(rl, lps)
    assert.isFalse(Effect.isEffect(outcome))
    if (!Effect.isEffect(outcome) && typeof outcome.loss !== "number") {
      assert.isTrue(Autodiff.gradients(outcome.loss, lps).every((g) => g.some((x) => x !== 0)))
    }
  })
})
