import { assert, describe, it } from "@effect/vitest"
import { DateTime } from "effect"
import { TelemetryEvent } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

const timestamp = DateTime.unsafeMake("2026-01-01T00:00:00.001Z")

describe("TelemetryEvent", () => {
  it("writes events as the service reads them", () => {
    const generic = new TelemetryEvent.GenericEvent({
      eventId: "e",
      eventSessionIndex: 0,
      severity: "INFO",
      timestamp,
      eventName: "n",
      eventData: { a: null }
    })
    const request = new TelemetryEvent.TelemetrySendRequest({
      events: [generic],
      platform: "Linux",
      sdkVersion: "1",
      sessionId: "s",
      processUuid: "u"
    })
    assert.deepStrictEqual(toJson(TelemetryEvent.TelemetrySendRequest, request), {
      events: [{
        event: "GENERIC_EVENT",
        event_id: "e",
        event_session_index: 0,
        severity: "INFO",
        timestamp: "2026-01-01T00:00:00.001000Z",
        event_name: "n",
        event_data: { a: null }
      }],
      platform: "Linux",
      sdk_version: "1",
      session_id: "s",
      process_uuid: "u"
    })
  })

  it("writes durations with days and fractions where there are any", () => {
    assert.strictEqual(TelemetryEvent.formatDuration(0), "0:00:00")
    assert.strictEqual(TelemetryEvent.formatDuration(3_661_001), "1:01:01.001000")
    assert.strictEqual(TelemetryEvent.formatDuration(86_400_000), "1 day, 0:00:00")
    assert.strictEqual(TelemetryEvent.formatDuration(180_000_000), "2 days, 2:00:00")
    assert.strictEqual(TelemetryEvent.formatDuration(-5), "0:00:00")
  })
})
