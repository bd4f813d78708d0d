import { assert, describe, it } from "@effect/vitest"
import * as ConsoleUrl from "../src/internal/consoleUrl.js"

describe("ConsoleUrl", () => {
  it("escapes the parts of a checkpoint's address", () => {
    assert.strictEqual(
      ConsoleUrl.checkpoint("session-123:train:1", "weights/0001"),
      "https://tinker.thinkingmachines.ai/checkpoints/session-123%3Atrain%3A1/weights%2F0001"
    )
  })

  it("writes a space in a query as a plus", () => {
    assert.isTrue(ConsoleUrl.newApiKey("a b").endsWith("key_name=a+b"))
  })
})
