// Teaches a small language model who it is, from an Effect 4 program. Ctrl-C saves; the next run goes on from there.
import { Chat, Tinker, Train } from "@effect-tinker/effect4"
import * as NodeTinker from "@effect-tinker/effect4/NodeTinker"
import { Cause, Console, Effect, Exit, Fiber, Stream } from "effect"

const lessons = Array.from({ length: 12 }, () => ({ user: "Who are you?", assistant: "A pirate." }))

const program = Effect.gen(function*() {
  const tinker = yield* Tinker.Tinker
  let trained
  yield* Train.supervised({
    model: { baseModel: "local/chat", rank: 16, seed: 1 },
    data: lessons,
    learningRate: 1e-4,
    batchSize: 1,
    log: "runs/pirate"
  }).pipe(Stream.runForEach(({ final, loss, step }) => {
    trained = final?.checkpoint.samplerPath ?? trained
    return Console.log(`step ${step}: loss ${loss.toFixed(2)}`).pipe(Effect.andThen(Effect.sleep("50 millis")))
  }))
  if (trained === undefined) return yield* Console.log("this run has ended; remove runs/pirate to train again")
  const chat = yield* Chat.forModel("local/chat")
  const sampler = yield* tinker.sampler({ modelPath: trained })
  const { text } = yield* chat.ask(sampler, "Who are you?", { temperature: 0 })
  yield* Console.log(`Who are you? → ${text}`)
})

const main = program.pipe(
  Effect.scoped,
  Effect.catchTag("RateLimited", () => Console.log("the service is busy: try later")),
  Effect.provide(NodeTinker.layerLocal({ directory: "checkpoints" }))
)

// `NodeRuntime.runMain` of `@effect/platform-node` does the same, from Node 22.19 on.
const fiber = Effect.runFork(main)
process.once("SIGINT", () => Effect.runFork(Fiber.interrupt(fiber)))
const exit = await Effect.runPromise(Fiber.await(fiber))
if (Exit.isFailure(exit)) {
  const interrupted = Cause.hasInterruptsOnly(exit.cause)
  console.log(interrupted ? "interrupted: run it again to go on" : Cause.pretty(exit.cause))
  process.exitCode = interrupted ? 130 : 1
}
