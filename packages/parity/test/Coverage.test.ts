import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { Checkpoint, TensorData } from "effect-tinker"
import { CustomLossGraph, ForwardBackward, Future, Sample, Session, TelemetryEvent, Weights } from "effect-tinker/wire"
import * as corpus from "../src/vectors/corpus.js"
import * as table from "../src/vectors/table.js"

const { enumerations, exports } = corpus.types()
const uncovered = corpus.uncovered()

/** Types the vectors of other files speak for. */
const elsewhere: Readonly<Record<string, string>> = {
  Datum: "protobuf.json",
  ForwardBackwardInput: "protobuf.json",
  ForwardBackwardOutput: "protobuf.json",
  ForwardBackwardRequest: "protobuf.json",
  PromptAltTokens: "protobuf.json",
  PromptProvenanceSpan: "protobuf.json",
  SampledProvenanceSpan: "protobuf.json",
  SampledSequence: "protobuf.json",
  SampleResponse: "protobuf.json",
  TensorData: "protobuf.json"
}

/** The words of an enumeration beside the Schema that reads them. */
const words: Readonly<Record<string, Schema.Schema.AnyNoContext>> = {
  CheckpointType: Checkpoint.CheckpointType,
  ClientSessionFinishReasonType: Session.FinishReason,
  CustomLossInputRank: CustomLossGraph.CustomLossInput.fields.rank,
  CustomLossNodeOp: CustomLossGraph.CustomLossNode.fields.op,
  EventType: TelemetryEvent.EventType,
  LossFnType: ForwardBackward.LossName,
  RequestErrorCategory: Future.ErrorCategory,
  SamplingClientKind: Weights.SamplingClientKind,
  Severity: TelemetryEvent.Severity,
  StopReason: Sample.StopReason,
  TensorDtype: TensorData.Dtype
}

describe("every type of the official SDK", () => {
  it("has vectors, or a reason why not", () => {
    const isCovered = (name: string) =>
      name in table.requests || name in table.responses || name in elsewhere || name in words || name in uncovered
    assert.deepStrictEqual(exports.map(({ name }) => name).filter((name) => !isCovered(name)), [])
  })

  it("has no reason that outlived it", () => {
    const names = new Set(exports.map(({ name }) => name))
    assert.deepStrictEqual(Object.keys(uncovered).filter((name) => !names.has(name)), [])
  })

  it("is in the corpus as often as the table says", () => {
    const types = new Set([...corpus.requests().vectors, ...corpus.responses().vectors].map((vector) => vector.type))
    const rows = [...Object.keys(table.requests), ...Object.keys(table.responses)]
    assert.deepStrictEqual(rows.filter((name) => !types.has(name)), [])
    assert.isAtLeast(rows.length, 115)
  })
})

describe("the words of every enumeration", () => {
  it.each(enumerations)("$name", (enumeration) => {
    const schema = words[enumeration.name]
    assert.isDefined(schema, "no Schema")
    for (const word of enumeration.words) {
      const decoded = Schema.decodeUnknownEither(schema)(word)
      assert.deepStrictEqual(decoded, Either.right(word))
      assert.deepStrictEqual(Schema.encodeEither(schema)(word), Either.right(word))
    }
  })
})
