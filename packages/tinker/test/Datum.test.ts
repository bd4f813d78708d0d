import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { Datum, ModelInput, TensorData } from "effect-tinker"

const get = Either.getOrThrow
const reason = (result: Either.Either<unknown, { readonly message: string }>) =>
  Either.match(result, { onLeft: (error) => error.message, onRight: () => "accepted" })

describe("Datum", () => {
  it("converts lists by key and typed arrays by type", () => {
    const given = get(TensorData.fromArray(new Float32Array([9])))
    const datum = get(Datum.make({
      modelInput: [1, 2],
      lossFnInputs: { target_tokens: [2, 3], weights: new Int32Array([1, 1]), advantages: [[0.5, 1]], anything: given }
    }))
    assert.deepStrictEqual(
      Object.entries(datum.lossFnInputs).map(([key, tensor]) => [key, tensor.dtype, tensor.shape]),
      [["target_tokens", "int64", [2]], ["weights", "int64", [2]], ["advantages", "float32", [1, 2]], [
        "anything",
        "float32",
        [1]
      ]]
    )
    assert.strictEqual(datum.lossFnInputs["anything"], given)
  })

  it("refuses ragged lists, unknown keys and tokens that are none", () => {
    const of = (key: string, value: Datum.LossFnInput) =>
      reason(Datum.make({ modelInput: [1], lossFnInputs: { [key]: value } }))
    assert.include(of("weights", [[1], [1, 2]]), "ragged")
    assert.include(of("mask", [1]), "\"mask\"")
    assert.include(reason(Datum.make({ modelInput: [1.5] })), "token 0 (1.5)")
  })

  it("shifts input, targets and weights for next-token prediction", () => {
    const datum = get(Datum.fromTokens([1, 15, 27, 2], { weights: [0, 0, 1, 0.5] }))
    assert.deepStrictEqual(Array.from(get(ModelInput.toInts(datum.modelInput))), [1, 15, 27])
    const [targets, weights] = [datum.lossFnInputs["target_tokens"], datum.lossFnInputs["weights"]]
    assert.isTrue(targets !== undefined && weights !== undefined)
    if (targets === undefined || weights === undefined) return
    assert.deepStrictEqual([targets.dtype, ...TensorData.toArray(targets)], ["int64", 15, 27, 2])
    assert.deepStrictEqual([weights.dtype, ...TensorData.toArray(weights)], ["float32", 0, 1, 0.5])
    const unweighted = get(Datum.fromTokens(new Int32Array([1, 2, 3]))).lossFnInputs["weights"]
    assert.deepStrictEqual(unweighted && TensorData.toArray(unweighted), [1, 1])
  })

  it("makes data of many examples, or refuses the first that is none", () => {
    const examples = [{ tokens: [1, 2, 3], weights: [0, 0, 1] }, { tokens: new Int32Array([4, 5]) }]
    const [first, second] = get(Datum.fromExamples(examples))
    assert.deepStrictEqual(first, get(Datum.fromTokens([1, 2, 3], { weights: [0, 0, 1] })))
    assert.deepStrictEqual(second, get(Datum.fromTokens([4, 5])))
    assert.include(reason(Datum.fromExamples([...examples, { tokens: [6] }])), "needs two tokens")
  })

  it("refuses tokens and weights that do not make an example", () => {
    assert.include(reason(Datum.fromTokens([1])), "needs two tokens")
    assert.include(reason(Datum.fromTokens([1, 2], { weights: [1] })), "1 weights for 2 tokens")
    assert.include(reason(Datum.fromTokens([1, 2 ** 40])), "token 1")
  })

  it("takes provenance that tiles the example, and no other", () => {
    const datum = get(Datum.fromTokens([1, 2, 3, 4]))
    const spans = (...lengths: Array<number>): Array<Datum.ProvenanceSpan> =>
      lengths.map((length) => ({ source: "sampled", sequenceId: "s", length }))
    const given = get(Datum.withProvenance(datum, { modelInput: spans(1, 2), lossFnInputs: spans(3) }))
    assert.strictEqual(given.modelInputSpans?.length, 2)
    assert.strictEqual(given.lossFnInputs, datum.lossFnInputs)
    const refused = (modelInput: Array<Datum.ProvenanceSpan>, lossFnInputs = spans(3)) =>
      reason(Datum.withProvenance(datum, { modelInput, lossFnInputs }))
    assert.include(refused(spans(2)), "modelInput: the spans cover 2 positions of 3")
    assert.include(refused(spans(3), spans(4)), "lossFnInputs: the spans cover 4 positions of 3")
    assert.include(refused([{ source: "prompt", sequenceId: "", length: 3 }]), "no sequenceId")
    assert.include(refused([{ source: "prompt", sequenceId: "s", offset: -1, length: 3 }]), "offset -1")
    assert.include(refused(spans(4, -1)), "length -1")
  })

  it("has the JSON shape of the wire", () => {
    const datum = get(Datum.fromTokens([1, 2]))
    const json = get(Schema.encodeEither(Datum.FromJson)(datum))
    assert.deepStrictEqual<unknown>(json, {
      model_input: { chunks: [{ type: "encoded_text", tokens: [1] }] },
      loss_fn_inputs: {
        target_tokens: { data: [2], dtype: "int64", shape: [1] },
        weights: { data: [1], dtype: "float32", shape: [1] }
      }
    })
    const back = get(Schema.decodeUnknownEither(Datum.FromJson)(json))
    assert.deepStrictEqual(get(Schema.encodeEither(Datum.FromJson)(back)), json)
  })
})
