import { assert, describe, it } from "@effect/vitest"
import { compareObjects, eventsOf, nameOf } from "../src/telemetry/compare.js"

const id = "4f9f0f0c-0f0f-4f0f-8f0f-0f0f0f0f0f0f"

const event = (data: Readonly<Record<string, unknown>>) => ({
  event: "GENERIC_EVENT",
  event_name: "user_error",
  event_id: id,
  timestamp: "2026-11-16T02:07:21.111351Z",
  event_data: data
})

describe("the comparison of reports", () => {
  it("accepts what varies, and what differs on purpose with its reason", () => {
    const { deliberate, differences } = compareObjects(
      "user_error",
      event({ status_code: 422, message: "Error code: 422", body: { detail: "my prompt" } }),
      { ...event({ status_code: 422, message: "M.m: BadRequest" }), timestamp: "2026-11-16T02:07:21Z" }
    )
    assert.deepStrictEqual(differences, [])
    assert.deepStrictEqual([...deliberate.keys()], ["user_error.message in our words", "user_error.body left out"])
  })

  it("finds a value, a shape, a missing and an added field", () => {
    const wrong = (ours: object) => compareObjects("user_error", event({ status_code: 422 }), { ...event({}), ...ours })
    assert.lengthOf(wrong({ event_data: { status_code: 422 } }).differences, 0)
    assert.lengthOf(wrong({ event_data: { status_code: 400 } }).differences, 1)
    assert.lengthOf(wrong({ event_data: {} }).differences, 1)
    assert.lengthOf(wrong({ event_data: { status_code: 422, prompt: "p" } }).differences, 1)
    assert.lengthOf(wrong({ event_data: { status_code: 422 }, timestamp: "yesterday" }).differences, 1)
    assert.lengthOf(wrong({ event_data: { status_code: 422 }, event_id: "1" }).differences, 1)
  })

  it("takes events out of batches and names them", () => {
    assert.deepStrictEqual(eventsOf([{ events: [event({}), { event: "SESSION_START" }] }]).map(nameOf), [
      "user_error",
      "SESSION_START"
    ])
  })
})
