/**
 * What failures look like, and how retries and time limits are changed: the embedded backend plays the bad days of a
 * real server.
 */
import { Faults, TinkerLocal } from "@effect-tinker/local"
import { NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer, Redacted, Schedule } from "effect"
import { RetryPolicy, ServiceClient } from "effect-tinker"

/** Overloaded for two requests, then well; and it takes one key only. */
const Overloaded = TinkerLocal.layer({ apiKeys: [{ key: Redacted.make("tml-good") }] }).pipe(
  Layer.provide(Faults.layer({
    rules: [{
      endpoints: ["capabilities"],
      times: 2,
      fault: { _tag: "Status", status: 503, body: { detail: "too busy" }, headers: { "retry-after-ms": "50" } }
    }]
  }))
)

/** A client of such a server, with its own limit for one attempt. */
const as = (apiKey: string) =>
  ServiceClient.layer({ baseUrl: TinkerLocal.baseUrl, apiKey, timeout: "10 seconds" }).pipe(Layer.provide(Overloaded))

const models = Effect.gen(function*() {
  const service = yield* ServiceClient.ServiceClient
  const { supportedModels } = yield* service.serverCapabilities
  return `${supportedModels.length} models`
}).pipe(
  // Errors are flat and tagged: handle the ones you have an answer to, and let the others through.
  Effect.catchTags({
    Authentication: (error) => Effect.succeed(`log in again: ${error.description}`),
    Unavailable: (error) => Effect.succeed(`try later: ${error.description} (status ${error.status})`)
  })
)

const program = Effect.gen(function*() {
  yield* Console.log("a wrong key:     ", yield* Effect.provide(models, as("tml-wrong")))
  yield* Console.log("usual retries:   ", yield* Effect.provide(models, as("tml-good")))
  yield* Console.log("no retries:      ", yield* RetryPolicy.withoutRetries(Effect.provide(models, as("tml-good"))))

  // A policy is a Schedule: replace one class of operations, for one effect.
  const once = RetryPolicy.provide({ restRead: Schedule.intersect(RetryPolicy.defaults.restRead, Schedule.recurs(1)) })
  yield* Console.log("one retry:       ", yield* once(Effect.provide(models, as("tml-good"))))
})

NodeRuntime.runMain(program)
