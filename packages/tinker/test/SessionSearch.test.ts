import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { SessionSearch } from "effect-tinker/wire"
import { toJson } from "./utils/json.js"

const summary = (status: unknown) => ({
  session_id: "s",
  created_at: "2026-01-01T00:00:00Z",
  owner: "o",
  project_id: "p",
  checkpoints_count: 0,
  status
})

describe("SessionSearch", () => {
  it("asks for one's own sessions, fifty at a time", () => {
    assert.deepStrictEqual(toJson(SessionSearch.SessionSearchRequest, new SessionSearch.SessionSearchRequest()), {
      user_metadata: {},
      owner: { type: "own" },
      limit: 50
    })
  })

  it("hands a cursor back digit for digit", () => {
    const json = { last_created_at: "2026-01-01T00:00:00.123456Z", last_session_id: "s" }
    const page = Schema.decodeUnknownSync(SessionSearch.SessionSearchResponse)({ sessions: [], next_cursor: json })
    const request = new SessionSearch.SessionSearchRequest({ cursor: page.nextCursor })
    assert.deepInclude(toJson(SessionSearch.SessionSearchRequest, request), { cursor: json })
  })

  it("tells states apart, and reads one it does not know", () => {
    const status = (status: unknown) => Schema.decodeUnknownSync(SessionSearch.SessionSummary)(summary(status)).status
    assert.instanceOf(status({ type: "active" }), SessionSearch.SessionActive)
    assert.instanceOf(
      status({ type: "client_finished", reason: { type: "errored" } }),
      SessionSearch.ClientSessionFinished
    )
    const failed = status({ type: "failed", category: "user", reason: { type: "alien", x: 1 }, message: "m" })
    assert.instanceOf(failed, SessionSearch.SessionFailed)
    assert.deepStrictEqual(status({ type: "hibernating", until: 3 }), { type: "hibernating", until: 3 })
    assert.isUndefined(status(null))
  })

  it("refuses a page too large and owners too many", () => {
    assert.throws(() => new SessionSearch.SessionSearchRequest({ limit: 201 }))
    assert.throws(() => new SessionSearch.UserSearchOwner({ ownerUrns: [] }))
    assert.throws(() => new SessionSearch.UserSearchOwner({ ownerUrns: Array.from({ length: 11 }, () => "u") }))
  })
})
