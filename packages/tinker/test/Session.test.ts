import { assert, describe, it } from "@effect/vitest"
import { Either, Schema } from "effect"
import { Session } from "effect-tinker/wire"
import { fromJson, toJson } from "./utils/json.js"

describe("Session", () => {
  it("always sends the metadata servers insist on, and keeps the nulls in it", () => {
    const request = new Session.CreateSessionRequest({ tags: [], sdkVersion: "1" })
    assert.deepStrictEqual(toJson(Session.CreateSessionRequest, request), {
      tags: [],
      user_metadata: {},
      sdk_version: "1",
      type: "create_session"
    })
    const userMetadata = { a: null, camelCase: [1, { snake_case: true }] }
    const full = new Session.CreateSessionRequest({ tags: ["t"], sdkVersion: "1", userMetadata, projectId: "p" })
    assert.deepStrictEqual(toJson(Session.CreateSessionRequest, full), {
      tags: ["t"],
      user_metadata: userMetadata,
      sdk_version: "1",
      project_id: "p",
      type: "create_session"
    })
  })

  it("refuses metadata JSON cannot hold", () => {
    const metadata = (userMetadata: Record<string, unknown>) =>
      new Session.CreateSessionRequest({ tags: [], sdkVersion: "1", userMetadata })
    assert.throws(() => metadata({ big: 1n }))
    assert.throws(() => metadata({ number: NaN }))
    assert.throws(() => metadata({ when: new Date(0) }))
    assert.throws(() => metadata({ nothing: undefined }))
    const cycle: Record<string, unknown> = {}
    cycle.self = cycle
    assert.throws(() => metadata(cycle))
  })

  it("reads the notices of the service", () => {
    const response = Schema.decodeUnknownSync(Session.CreateSessionResponse)({
      session_id: "s",
      warning_message: "old client",
      info_message: null,
      new_field: {}
    })
    assert.strictEqual(response.sessionId, "s")
    assert.strictEqual(response.warningMessage, "old client")
    assert.isUndefined(response.infoMessage)
  })

  it("takes any heartbeat for an answer", () => {
    assert.isTrue(Either.isRight(fromJson(Session.SessionHeartbeatResponse)({})))
    assert.isTrue(Either.isRight(fromJson(Session.SessionHeartbeatResponse)({ type: "else" })))
  })

  it("says that there is no detail to why it finished", () => {
    const request = new Session.FinishSessionRequest({ reason: { type: "success" } })
    assert.deepStrictEqual(toJson(Session.FinishSessionRequest, request), {
      reason: { type: "success" },
      detail: null
    })
  })
})
