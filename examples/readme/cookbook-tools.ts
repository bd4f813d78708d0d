import { Environment, Tool } from "@effect-tinker/cookbook"
import { Message } from "@effect-tinker/tokenizer"
import { Effect, Schema } from "effect"

const add = Tool.make("add", {
  description: "Adds two numbers",
  input: Schema.Struct({ a: Schema.Number, b: Schema.Number }),
  run: ({ a, b }) => Effect.succeed(String(a + b)) // a failure is the tool's answer
})

const game = Environment.group((settings) =>
  Effect.gen(function*() {
    yield* Effect.acquireRelease(Effect.log("open"), () => Effect.log("closed")) // released however the rollout ends
    return Environment.messages({
      start: [Message.user("What is 2+3? Use the tool.")],
      tools: [add],
      onMessage: (message) =>
        Effect.succeed(
          Message.text(message).includes("5") ? Environment.done(1) : Environment.reply("No. Try again.")
        )
    }, settings)
  })
)

export { game }
