/**
 * What cancelling does: here at once, on the server not at all. The embedded backend is held up on request, so that
 * there is something to cancel.
 */
import { LocalServer, TinkerLocal } from "@effect-tinker/local"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Fiber } from "effect"
import { Datum, TinkerFuture, TrainingClient } from "effect-tinker"

const program = Effect.gen(function*() {
  const server = yield* LocalServer.LocalServer
  const training = yield* TrainingClient.makeLora({ baseModel: "local/tiny", rank: 8, seed: 1 })
  const batch = [yield* Datum.fromTokens([3, 1, 4, 1, 5, 9])]

  yield* server.pause({ state: "paused_capacity", reason: "short of capacity" })

  // Waiting with a bound: the wait ends, the operation does not.
  const pass = yield* training.forwardBackward(batch, "cross_entropy")
  const late = yield* Effect.flip(TinkerFuture.timeout(pass, "200 millis"))
  yield* Console.log(`${late._tag}: ${late.description}`)

  // Interrupting the waiting fiber: the poll is aborted at once, and the accepted operation stays accepted.
  const waiter = yield* Effect.fork(pass)
  yield* Effect.sleep("50 millis")
  yield* Fiber.interrupt(waiter)
  yield* Console.log("interrupted while waiting")

  // A race that is lost is an interruption too.
  const winner = yield* Effect.raceFirst(Effect.as(pass, "the pass"), Effect.delay(Effect.succeed("the clock"), 100))
  yield* Console.log(`${winner} won`)

  // The server continues, and asking again waits for the same result.
  yield* server.resume
  const { metrics } = yield* pass
  yield* Console.log(`the pass was carried out once: loss ${metrics["loss:sum"]?.toFixed(2)}`)
  yield* training.optimStep({ learningRate: 1e-4 }).pipe(TinkerFuture.await)
  yield* Console.log("and the next operation was not held up")
})

NodeRuntime.runMain(program.pipe(Effect.scoped, Effect.provide(TinkerLocal.layer())))
