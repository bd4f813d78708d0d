import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Stream } from "effect"
import { PCGRandom } from "effect/Utils"
import * as DataQuality from "../src/DataQuality.js"
import * as Dataset from "../src/Dataset.js"
import * as Duplicates from "../src/Duplicates.js"
import * as Language from "../src/Language.js"
import * as Sensitive from "../src/Sensitive.js"

const random = new PCGRandom(7)
const words = Array.from({ length: 2000 }, (_, n) => `w${n.toString(36)}`)
const sentence = (length: number) => Array.from({ length }, () => words[random.integer(words.length)] ?? "")

/** A text in which so many words are others. */
const changed = (text: ReadonlyArray<string>, count: number): ReadonlyArray<string> => {
  const copy = [...text]
  for (let i = 0; i < count; i++) copy[random.integer(copy.length)] = `x${random.integer(1e6)}`
  return copy
}

const chat = (question: string, answer: string) => ({
  messages: [{ role: "user", content: question }, { role: "assistant", content: answer }]
})

describe("Duplicates", () => {
  it("finds the same text whatever its white space, and nothing else", () => {
    const index = Duplicates.exact()
    assert.isUndefined(index.add("a  b\n", 0))
    assert.strictEqual(index.add(" a b", 1), 0)
    for (const other of ["ab", "a c", "a bb", "b a", "A b", ""]) assert.isUndefined(index.find(other), other)
  })

  it("finds planted near duplicates among others: recall and precision above 95 %", () => {
    const index = Duplicates.near()
    const originals = Array.from({ length: 1000 }, () => sentence(60))
    for (const [n, text] of originals.entries()) assert.isUndefined(index.add(text.join(" "), n))
    // one word of sixty: 3 of 58 groups change, the likeness is about 0.9
    const planted = originals.map((text) => index.find(changed(text, 1).join(" ")))
    const right = planted.filter((found, n) => found?.number === n).length
    assert.isAbove(right, 950, "recall")
    assert.strictEqual(planted.filter((found, n) => found !== undefined && found.number !== n).length, 0)
    // thirty words of sixty: nearly nothing in common
    const others = originals.map((text) => index.find(changed(text, 30).join(" ")))
    assert.isBelow(others.filter((found) => found !== undefined).length, 50, "precision")
  })

  it("takes texts of other case and punctuation for alike, and short ones and those without spaces, too", () => {
    const index = Duplicates.near()
    index.add("How do I reset my password, please?", 1)
    index.add("我的密码忘记了应该怎么办呢请告诉我", 2)
    index.add("Yes.", 3)
    assert.strictEqual(index.find("how do i reset my password please")?.number, 1)
    assert.strictEqual(index.find("我的密码忘记了,应该怎么办呢?请告诉我")?.number, 2)
    assert.strictEqual(index.find("yes")?.number, 3)
    assert.isUndefined(index.find("No."))
  })
})

describe("Sensitive", () => {
  it("finds what has a form of its own, by its check digits where it has some", () => {
    const kinds = (text: string) => Sensitive.find(text).map(({ kind }) => kind)
    const key = `ghp_${"a1".repeat(18)}`
    assert.deepStrictEqual(kinds(`mail ann@example.org or ${key}`), ["email", "key"])
    assert.deepStrictEqual(kinds("4111 1111 1111 1111 and 5500-0000-0000-0004"), ["card", "card"])
    assert.deepStrictEqual(kinds("4111 1111 1111 1112"), [], "its check digit is wrong")
    assert.deepStrictEqual(kinds("DE89 3704 0044 0532 0130 00"), ["iban"])
    assert.deepStrictEqual(kinds("DE88 3704 0044 0532 0130 00"), [])
    assert.deepStrictEqual(kinds("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"), ["key"])
    for (const harmless of ["a @ b", "3.14159265358979", "version 1.2.3-4", "0000000000000000", "sk-short", "@name"]) {
      assert.deepStrictEqual(kinds(harmless), [], harmless)
    }
  })

  it("puts a word in the place of what it finds, in all texts of JSON", () => {
    assert.deepStrictEqual(
      Sensitive.redactJson({ "a@b.co": ["to a@b.co, 4111111111111111.", 1, null] }),
      { "a@b.co": ["to [EMAIL], [CARD].", 1, null] }
    )
  })

  it("finds nothing twice, and ends on texts made to exhaust it", () => {
    for (const part of ["a", "1 ", "a.", "DE89 ", "-----BEGIN PRIVATE KEY-----", "a@a."]) {
      assert.isAtMost(Sensitive.find(part.repeat(20_000)).length, 1000, part)
    }
  })
})

describe("DataQuality", () => {
  const long = sentence(60)
  const rows = [
    chat("What is the capital of Norway?", "Oslo."),
    chat("What is the capital of  Norway?", "Oslo."),
    chat(long.join(" "), "First."),
    chat(changed(long, 1).join(" "), "First."),
    chat("Say nothing", " "),
    chat("Tell me a long story", `${"It goes on and on, ".repeat(15)}and the`),
    chat("Write code", "```js\nlet x = 1"),
    chat("Where do I write?", "To ann@example.org, with 4111 1111 1111 1111."),
    chat("A question of the test?", "Another answer."),
    { text: "no shape" }
  ]

  it.effect("finds each planted row, and no other", () =>
    Effect.gen(function*() {
      const report = yield* DataQuality.inspect(Dataset.fromIterable(rows), {
        heldOut: Dataset.fromIterable([chat("A question of the test?", "The answer."), chat("Unseen?", "Yes.")]),
        detect: yield* Language.detector
      })
      const of = (kind: DataQuality.Finding["kind"]) =>
        report.findings.filter((finding) => finding.kind === kind).map(({ like, row }) => [row, like])
      assert.deepStrictEqual(of("exact"), [[1, 0]])
      assert.deepStrictEqual(of("near"), [[3, 2]])
      assert.deepStrictEqual(of("leaked"), [[8, 0]])
      assert.deepStrictEqual(of("empty").map(([row]) => row), [4])
      assert.deepStrictEqual(of("truncated").map(([row]) => row), [5, 6])
      assert.deepStrictEqual(of("sensitive").map(([row]) => row), [7])
      assert.deepInclude(report, { rows: 10, unread: 1 })
      assert.deepStrictEqual(report.sensitive, { email: 1, key: 0, card: 1, iban: 0 })
      assert.notInclude(JSON.stringify(report.findings), "ann@example.org", "a report repeats no secret")
      assert.deepStrictEqual(report.frequent.map(({ answer }) => answer), ["Oslo.", "First."])
    }))

  it.effect("says of preferences how often the chosen answer is the longer one", () =>
    Effect.gen(function*() {
      const report = yield* DataQuality.inspect(Dataset.fromIterable([
        { prompt: "a", chosen: "long", rejected: "no" },
        { prompt: "b", chosen: "no", rejected: "long" },
        { prompt: "c", chosen: "long", rejected: "no" },
        { prompt: "d", chosen: "long", rejected: "no" }
      ]))
      assert.strictEqual(report.chosenLonger, 0.75)
    }))

  it.effect("leaves out what is there already, and keeps the first", () =>
    Effect.gen(function*() {
      const kept = (exactOnly: boolean) =>
        Stream.runCollect(DataQuality.withoutDuplicates(Dataset.fromIterable(rows), { exactOnly })).pipe(
          Effect.map(Chunk.toReadonlyArray)
        )
      assert.deepStrictEqual(yield* kept(true), rows.filter((_, n) => n !== 1))
      assert.deepStrictEqual(yield* kept(false), rows.filter((_, n) => n !== 1 && n !== 3))
    }))
})

describe("DataQuality.textsOf", () => {
  it("texts of rows, whoever wrote their messages and however", () => {
    const texts = (kind: "completions" | "preferences", row: Readonly<Record<string, unknown>>) =>
      DataQuality.textsOf({ kind, row, shape: kind })
    assert.deepStrictEqual(
      texts("completions", {
        prompt: [{ from: "human", value: "1?" }, { from: "gpt", value: "2" }, { role: "system", content: "3" }],
        completion: [{ role: "model", content: [{ text: "4" }, "5"] }]
      }),
      { prompt: "user: 1?\nassistant: 2\nsystem: 3", answers: ["assistant: 45"] }
    )
    assert.deepStrictEqual(texts("preferences", { prompt: "p", chosen: "a", rejected: 7 }), {
      prompt: "p",
      answers: ["a", ""]
    })
  })
})
