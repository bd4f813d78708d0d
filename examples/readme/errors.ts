import { Effect } from "effect"
import { RetryPolicy, ServiceClient } from "effect-tinker"

const models = Effect.flatMap(ServiceClient.ServiceClient, (service) => service.serverCapabilities).pipe(
  Effect.catchTags({
    Authentication: (error) => Effect.succeed(`log in again: ${error.description}`),
    Unavailable: (error) => Effect.succeed(`try later (request ${error.requestId})`)
  })
)
const once = RetryPolicy.withoutRetries(models)
const brief = RetryPolicy.provide({ restRead: RetryPolicy.backoff({ budget: "10 seconds" }) })(models)

export { brief, once }
