import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { ClientConfig } from "effect-tinker/wire"

describe("ClientConfig", () => {
  it("has a default for everything, so that an empty answer will do", () => {
    const config = Schema.decodeUnknownSync(ClientConfig.ClientConfig)({ pjwt_auth_enabled: null, flag_of_tomorrow: 1 })
    assert.strictEqual(config.pjwtAuthEnabled, false)
    assert.strictEqual(config.sampleDispatchBytesSemaphoreSize, 10485760)
    assert.strictEqual(config.inflightResponseBytesSemaphoreSize, 52428800)
    assert.strictEqual(config.parallelFwdbwdChunks, true)
    assert.strictEqual(config.sampleMaxConcurrentRequests, 2000)
    assert.deepStrictEqual({ ...Schema.decodeUnknownSync(ClientConfig.ClientDynamicConfig)({}) }, {
      refreshIntervalSec: 300,
      sampleCancelEnabled: false,
      sampleCancelMaxBatchSize: 64
    })
  })
})
