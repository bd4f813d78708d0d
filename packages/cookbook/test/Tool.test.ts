import { Tool } from "@effect-tinker/cookbook"
import { Tool as AiTool, Toolkit } from "@effect/ai"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"

const toolkit = Toolkit.make(
  AiTool.make("divide", {
    description: "Divides a by b",
    parameters: { a: Schema.Number, b: Schema.Number },
    success: Schema.Struct({ quotient: Schema.Number }),
    failure: Schema.String
  }),
  AiTool.make("greet", { parameters: { name: Schema.String }, success: Schema.String })
)

const handlers = toolkit.toLayer({
  divide: ({ a, b }) => b === 0 ? Effect.fail("by zero") : Effect.succeed({ quotient: a / b }),
  greet: ({ name }) => Effect.succeed(`Hello ${name}`)
})

describe("Tool.fromToolkit", () => {
  it.effect("declares and answers as the toolkit of @effect/ai does", () =>
    Effect.gen(function*() {
      const tools = Tool.fromToolkit(yield* toolkit)
      assert.deepStrictEqual(tools.map(({ spec }) => [spec.name, spec.description]), [
        ["divide", "Divides a by b"],
        ["greet", ""]
      ])
      assert.deepInclude(tools[0]?.spec.parameters, { type: "object", required: ["a", "b"] })
      const calls = [
        { name: "divide", arguments: "{\"a\": 6, \"b\": 4}" },
        { name: "greet", arguments: "{\"name\": \"Mira\"}" },
        { name: "divide", arguments: "{\"a\": 6, \"b\": 0}" },
        { name: "divide", arguments: "{\"a\": \"six\"}" },
        { name: "divide", arguments: "{" }
      ]
      const answers = (yield* Tool.answerAll(tools, calls)).map(({ answer }) => answer)
      assert.deepStrictEqual(answers.map(({ failed }) => failed), [false, false, true, true, true])
      assert.deepStrictEqual(answers.slice(0, 2).map(({ text }) => text), ["{\"quotient\":1.5}", "Hello Mira"])
      assert.include(answers[2]?.text ?? "", "by zero")
    }).pipe(Effect.provide(handlers)))
})
