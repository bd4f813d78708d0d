import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Config, DateTime, Effect, FastCheck, Redacted, Schema } from "effect"
import * as Checkpoint from "../src/Checkpoint.js"
import * as Datum from "../src/Datum.js"
import * as LoraConfig from "../src/LoraConfig.js"
import * as ModelInput from "../src/ModelInput.js"
import * as Optimizer from "../src/Optimizer.js"
import * as TensorData from "../src/TensorData.js"
import * as Account from "../src/wire/Account.js"
import * as Audit from "../src/wire/Audit.js"
import * as Billing from "../src/wire/Billing.js"
import * as Capabilities from "../src/wire/Capabilities.js"
import * as ClientConfig from "../src/wire/ClientConfig.js"
import * as Cursor from "../src/wire/Cursor.js"
import * as CustomLossGraph from "../src/wire/CustomLossGraph.js"
import * as ForwardBackward from "../src/wire/ForwardBackward.js"
import * as Future from "../src/wire/Future.js"
import * as Id from "../src/wire/Id.js"
import * as Model from "../src/wire/Model.js"
import * as Sample from "../src/wire/Sample.js"
import * as Sampler from "../src/wire/Sampler.js"
import * as SamplingParams from "../src/wire/SamplingParams.js"
import * as Session from "../src/wire/Session.js"
import * as SessionSearch from "../src/wire/SessionSearch.js"
import * as TelemetryEvent from "../src/wire/TelemetryEvent.js"
import * as TopkLogprobs from "../src/wire/TopkLogprobs.js"
import * as TrainingRun from "../src/wire/TrainingRun.js"
import * as Weights from "../src/wire/Weights.js"

/** Every Schema the modules of the wire export, by qualified name. */
const modules: Record<string, Record<string, unknown>> = {
  Account,
  Audit,
  Billing,
  CustomLossGraph,
  SessionSearch,
  TelemetryEvent,
  Datum,
  ForwardBackward,
  ModelInput,
  Sample,
  TensorData,
  TopkLogprobs,
  Capabilities,
  Checkpoint,
  ClientConfig,
  Cursor,
  Future,
  Id,
  LoraConfig,
  Model,
  Optimizer,
  Sampler,
  SamplingParams,
  Session,
  TrainingRun,
  Weights
}

const isWireSchema = (u: unknown): u is Schema.Schema<unknown, unknown> => Schema.isSchema(u)

const schemas = Object.entries(modules).flatMap(([module, exports]) =>
  Object.entries(exports).flatMap(([name, schema]) =>
    isWireSchema(schema) ? [{ name: `${module}.${name}`, schema }] : []
  )
)

/** Values as plain data: what a tensor holds, not how it holds it, and no difference between undefined and absent. */
const plain = (u: unknown): unknown => {
  if (TensorData.isTensorData(u)) {
    const numbers = (values: ArrayLike<number | bigint> | undefined) =>
      values === undefined ? undefined : Array.from(values, (value) => Number(value))
    return {
      dtype: u.dtype,
      shape: u.shape,
      data: numbers(u.data),
      crow: numbers(u.crowIndices),
      col: numbers(u.colIndices)
    }
  }
  if (Array.isArray(u)) return u.map(plain)
  if (
    typeof u !== "object" || u === null || ArrayBuffer.isView(u) || DateTime.isDateTime(u) || Redacted.isRedacted(u)
  ) {
    return u
  }
  return Object.fromEntries(
    Object.entries(u).flatMap(([key, value]) => value === undefined ? [] : [[key, plain(value)]])
  )
}

describe("every Schema of the wire", () => {
  it.effect.each(schemas)(
    "$name: decode ∘ encode = id, also through JSON",
    ({ name, schema }) =>
      Effect.gen(function*() {
        const numRuns = yield* Config.integer("TINKER_TEST_RUNS").pipe(Config.withDefault(20))
        const encode = Schema.encodeSync(schema)
        const decode = Schema.decodeSync(schema)
        FastCheck.assert(
          FastCheck.property(Arbitrary.make(schema), (value) => {
            const encoded = encode(value)
            // a pass says whether it goes back by the key its input has, so leaving it unsaid reads back as said
            if (name !== "ForwardBackward.RequestFromJson") assert.deepStrictEqual(plain(decode(encoded)), plain(value))
            const text = JSON.stringify(encoded)
            assert.strictEqual(JSON.stringify(encode(decode(JSON.parse(text)))), text)
          }),
          { numRuns }
        )
      })
  )

  it("are all here", () => assert.isAbove(schemas.length, 50))
})
