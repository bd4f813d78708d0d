import { assert, describe, it } from "@effect/vitest"
import { Either, FastCheck } from "effect"
import { checkStops } from "../../src/internal/engine/requests.js"
import { makeStopDetector } from "../../src/internal/engine/sampling.js"
import { tokenBytesOf } from "../../src/internal/engine/weights.js"
import { codecOf, makeText } from "../../src/internal/server/openai.js"
import * as LocalModel from "../../src/LocalModel.js"
import * as LocalTokenizer from "../../src/LocalTokenizer.js"

const word = FastCheck.string({ unit: FastCheck.constantFrom("a", "b", "é", "€", "😀"), minLength: 1, maxLength: 4 })
const piece = FastCheck.oneof(
  { weight: 6, arbitrary: word.map((text) => Array.from(LocalTokenizer.encode(text))) },
  { weight: 1, arbitrary: FastCheck.integer({ min: 128, max: 263 }).map((token) => [token]) }
)

describe("openai", () => {
  it.prop(
    "a text that is sent while it grows is the text that is sent whole",
    [
      FastCheck.array(piece, { maxLength: 8 }),
      FastCheck.array(word, { maxLength: 3 }),
      FastCheck.integer({ min: 1, max: 5 })
    ],
    ([pieces, stop, size]) => {
      const watch = makeStopDetector(
        Either.getOrThrow(checkStops(LocalModel.tiny, stop)),
        tokenBytesOf(LocalModel.tiny)
      )
      const drawn = pieces.flat()
      const end = drawn.findIndex((token) => watch(token))
      const tokens = end === -1 ? drawn : drawn.slice(0, end + 1)
      const stopReason = end === -1 ? "length" : "stop"
      const all = LocalTokenizer.decode(tokens, { skipSpecials: true })
      const ending = stopReason === "stop" ? stop.find((candidate) => all.endsWith(candidate)) ?? "" : ""
      const text = makeText({ stop }, codecOf(undefined))
      let sent = ""
      for (let from = 0; from < tokens.length; from += size) {
        sent += text({
          tokens: Int32Array.from(tokens.slice(from, from + size)),
          stopReason: from + size >= tokens.length ? stopReason : undefined
        })
      }
      assert.strictEqual(sent, all.slice(0, all.length - ending.length))
    },
    { fastCheck: { numRuns: 2000 } }
  )

  it("what may become a stop string waits, and is sent when it does not", () => {
    const text = makeText({ stop: ["STOP", "\n\n"] }, codecOf(undefined))
    const push = (value: string, stopReason?: "stop" | "length") =>
      text({ tokens: LocalTokenizer.encode(value), stopReason })
    assert.strictEqual(push("one ST"), "one ")
    assert.strictEqual(push("O"), "")
    assert.strictEqual(push("A"), "STOA")
    assert.strictEqual(push("\n"), "")
    assert.strictEqual(push("two ST"), "\ntwo ")
    assert.strictEqual(push("OP", "stop"), "")
  })

  it("a character is sent when its last byte is there", () => {
    const text = makeText({}, codecOf(undefined))
    const bytes = LocalTokenizer.encode("é€")
    assert.deepStrictEqual(
      Array.from(bytes, (token) => text({ tokens: Int32Array.of(token), stopReason: undefined })),
      ["", "é", "", "", "€"]
    )
    assert.strictEqual(text({ tokens: bytes.slice(0, 1), stopReason: "length" }), "\ufffd")
  })
})
