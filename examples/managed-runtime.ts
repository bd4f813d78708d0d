/**
 * Effects called from plain async code: one runtime holds the clients, and each call is a Promise.
 */
import { TinkerLocal } from "@effect-tinker/local"
import { Effect, Layer, ManagedRuntime } from "effect"
import { Datum, TrainingClient } from "effect-tinker"

const Live = TrainingClient.layerLora({ baseModel: "local/small", rank: 16, seed: 1 }).pipe(
  Layer.provide(TinkerLocal.layer())
)

const runtime = ManagedRuntime.make(Live)

try {
  const training = await runtime.runPromise(TrainingClient.TrainingClient)
  const adam = { learningRate: 4e-4 }
  const batch = [await runtime.runPromise(Datum.fromTokens([3, 1, 4, 1, 5, 9, 2, 6]))]

  for (let step = 1; step <= 20; step++) {
    // runPromise starts at once, so calls keep their order.
    const pass = await runtime.runPromise(training.forwardBackward(batch, "cross_entropy"))
    const update = await runtime.runPromise(training.optimStep(adam))
    const { metrics } = await runtime.runPromise(pass)
    await runtime.runPromise(update)
    if (step % 5 === 0) console.log(`step ${step}: loss ${metrics["loss:sum"]?.toFixed(2)}`)
  }

  // A signal interrupts the wait.
  const pass = await runtime.runPromise(training.forward(batch, "cross_entropy"))
  const left = await runtime.runPromiseExit(pass, { signal: AbortSignal.abort() })
  console.log(`aborted: ${left._tag}`)

  // A failure rejects; to handle it by tag, do so inside.
  const answer = await runtime.runPromise(
    training.saveState("no such name!").pipe(
      Effect.as("saved"),
      Effect.catchTag("BadRequest", "InvalidInput", (error) => Effect.succeed(`refused: ${error._tag}`))
    )
  )
  console.log(answer)
} finally {
  await runtime.dispose() // finishes the session
}
