import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Config, Effect, FastCheck, Schema } from "effect"
import * as Account from "../src/Account.js"
import * as Audit from "../src/Audit.js"
import * as Billing from "../src/Billing.js"
import * as Capabilities from "../src/Capabilities.js"
import * as Checkpoint from "../src/Checkpoint.js"
import * as ClientConfig from "../src/ClientConfig.js"
import * as Cursor from "../src/Cursor.js"
import * as CustomLossGraph from "../src/CustomLossGraph.js"
import * as Future from "../src/Future.js"
import * as Id from "../src/Id.js"
import * as LoraConfig from "../src/LoraConfig.js"
import * as Model from "../src/Model.js"
import * as Optimizer from "../src/Optimizer.js"
import * as Sampler from "../src/Sampler.js"
import * as SamplingParams from "../src/SamplingParams.js"
import * as Session from "../src/Session.js"
import * as SessionSearch from "../src/SessionSearch.js"
import * as TelemetryEvent from "../src/TelemetryEvent.js"
import * as TrainingRun from "../src/TrainingRun.js"
import * as Weights from "../src/Weights.js"

/** Every Schema the modules of the wire export, by qualified name. */
const modules: Record<string, Record<string, unknown>> = {
  Account,
  Audit,
  Billing,
  CustomLossGraph,
  SessionSearch,
  TelemetryEvent,
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

describe("every Schema of the wire", () => {
  it.effect.each(schemas)("$name: decode ∘ encode = id, also through JSON", ({ schema }) =>
    Effect.gen(function*() {
      const numRuns = yield* Config.integer("TINKER_TEST_RUNS").pipe(Config.withDefault(40))
      const encode = Schema.encodeSync(schema)
      const decode = Schema.decodeSync(schema)
      FastCheck.assert(
        FastCheck.property(Arbitrary.make(schema), (value) => {
          const encoded = encode(value)
          assert.deepStrictEqual(decode(encoded), value)
          const text = JSON.stringify(encoded)
          assert.strictEqual(JSON.stringify(encode(decode(JSON.parse(text)))), text)
        }),
        { numRuns }
      )
    }))

  it("are all here", () => assert.isAbove(schemas.length, 50))
})
