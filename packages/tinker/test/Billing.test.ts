import { assert, describe, it } from "@effect/vitest"
import { DateTime, Schema } from "effect"
import { Billing } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

const event = (info: unknown) => ({
  bucket_start: "2026-01-01T00:00:00Z",
  bucket_end: "2026-01-01T01:00:00Z",
  event_info: info
})

describe("Billing", () => {
  it("asks for hours in the form the service expects", () => {
    const request = new Billing.GetBillingUsageRequest({
      startingOn: DateTime.unsafeMake("2026-07-13T00:00:00Z"),
      endingBefore: DateTime.unsafeMake("2026-07-14T00:00:00.250Z")
    })
    assert.deepStrictEqual(toJson(Billing.GetBillingUsageRequest, request), {
      starting_on: "2026-07-13T00:00:00Z",
      ending_before: "2026-07-14T00:00:00.250000Z"
    })
  })

  it("tells kinds of usage apart, and reads one it does not know", () => {
    const response = Schema.decodeUnknownSync(Billing.BillingUsageResponse)({
      data: [
        event({ type: "sampling_prefill", cached: true, token_count: 3, more: 1 }),
        event({ type: "storage", gigabyte_hours: 0.5 }),
        event({ type: "teleport", hops: 2 })
      ],
      sessions: { s: { user_metadata: { k: "v" } } }
    })
    const [prefill, storage, other] = response.data.map((event) => event.eventInfo)
    assert.instanceOf(prefill, Billing.SamplingPrefillBillingEvent)
    assert.instanceOf(storage, Billing.StorageBillingEvent)
    assert.deepStrictEqual(other, { type: "teleport", hops: 2 })
    assert.deepStrictEqual(response.sessions["s"]?.userMetadata, { k: "v" })
  })
})
