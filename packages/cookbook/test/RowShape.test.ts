import * as Message from "@effect-tinker/tokenizer/Message"
import { assert, describe, it } from "@effect/vitest"
import { Either, Option, Schema } from "effect"
import * as Example from "../src/Example.js"
import * as RowShape from "../src/RowShape.js"

const chatOf = (row: unknown, columns?: RowShape.Columns) =>
  Schema.decodeUnknownSync(RowShape.reading(Example.ConversationFromJson, columns))(row).messages.map((message) => [
    message.role,
    Message.text(message)
  ])

const shapeOf = (row: unknown) =>
  Option.getOrNull(Option.map(RowShape.recognize(row), ({ kind, shape }) => [shape, kind]))

const asked = [["user", "2+2?"], ["assistant", "4"]]

describe("RowShape", () => {
  it("recognizes rows as people have them, and what they are trained on as", () => {
    const rows: ReadonlyArray<readonly [row: unknown, shape: string, kind: RowShape.Kind]> = [
      [{ messages: [] }, "messages", "chats"],
      [{ conversations: [] }, "ShareGPT", "chats"],
      [{ prompt: "a", completion: "b" }, "prompt and completion", "completions"],
      [{ instruction: "a", input: "", output: "b" }, "Alpaca", "chats"],
      [{ instruction: "a", context: "c", response: "b" }, "Dolly", "chats"],
      [{ question: "a", answer: "b" }, "question and answer", "chats"],
      [{ problem: "a", solution: "b" }, "problem and solution", "chats"],
      [{ prompt: "a", chosen: "b", rejected: "c" }, "preferences", "preferences"],
      [{ input: { messages: [] }, preferred_output: [], non_preferred_output: [] }, "OpenAI preferences", "preferences"]
    ]
    for (const [row, shape, kind] of rows) assert.deepStrictEqual(shapeOf(row), [shape, kind])
    for (const row of [{}, { text: "a" }, { question: "a", answer: null }, { instruction: 1, output: "b" }, [], "a"]) {
      assert.isNull(shapeOf(row), JSON.stringify(row))
    }
  })

  it("reads questions with answers as chats, with the system message and the context where there are any", () => {
    assert.deepStrictEqual(chatOf({ question: "2+2?", answer: "4" }), asked)
    assert.deepStrictEqual(chatOf({ instruction: "2+2?", input: " ", output: "4" }), asked)
    assert.deepStrictEqual(chatOf({ instruction: "Add", input: "2+2", output: "4", system: "Count." }), [
      ["system", "Count."],
      ["user", "Add\n\n2+2"],
      ["assistant", "4"]
    ])
    assert.deepStrictEqual(
      chatOf({ conversations: [{ from: "human", value: "2+2?" }, { from: "gpt", value: "4" }] }),
      asked
    )
  })

  it("an answer of an earlier turn is context, and not trained on again", () => {
    const row = { instruction: "3+3?", output: "6", history: [["2+2?", "4"]] }
    const { messages } = Schema.decodeUnknownSync(RowShape.reading(Example.ConversationFromJson))(row)
    assert.deepStrictEqual(messages.map(({ role, trainable }) => [role, trainable]), [
      ["user", undefined],
      ["assistant", false],
      ["user", undefined],
      ["assistant", true]
    ])
  })

  it("reads the three shapes of preferences as the same pair", () => {
    const read = Schema.decodeUnknownSync(RowShape.reading(Example.PreferenceFromJson))
    const message = (role: string, content: string) => ({ role, content })
    const question = message("user", "2+2?")
    const pairs = [
      { prompt: "2+2?", chosen: "4", rejected: "5" },
      { chosen: [question, message("assistant", "4")], rejected: [question, message("assistant", "5")] },
      {
        input: { messages: [question] },
        preferred_output: [message("assistant", "4")],
        non_preferred_output: [message("assistant", "5")]
      }
    ].map((row) => read(row))
    for (const pair of pairs) assert.deepStrictEqual(pair, pairs[0])
    assert.deepStrictEqual(pairs[0]?.chosen.map(Message.text), ["4"])
  })

  it("a mapping gives columns of other names their roles, and is refused where roles are missing", () => {
    const columns = Either.getOrThrow(RowShape.parseColumns("user=frage, assistant=antwort"))
    assert.deepStrictEqual(chatOf({ frage: "2+2?", antwort: "4", question: "other" }, columns), asked)
    assert.isTrue(Option.isNone(RowShape.recognize({ question: "2+2?", answer: "4" }, columns)))
    for (const wrong of ["", "user", "user=", "user=q", "role=q,assistant=a"]) {
      assert.isTrue(Either.isLeft(RowShape.parseColumns(wrong)), wrong)
    }
  })
})
