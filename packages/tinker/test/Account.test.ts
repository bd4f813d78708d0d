import { assert, describe, it } from "@effect/vitest"
import { Redacted, Schema } from "effect"
import { Account } from "effect-tinker/wire"

describe("Account", () => {
  it("keeps the token out of sight", () => {
    const response = Schema.decodeUnknownSync(Account.AuthTokenResponse)({ jwt: "eyJsecret" })
    assert.strictEqual(Redacted.value(response.jwt), "eyJsecret")
    assert.notInclude(String(response), "eyJsecret")
    assert.notInclude(JSON.stringify(response), "eyJsecret")
  })
})
