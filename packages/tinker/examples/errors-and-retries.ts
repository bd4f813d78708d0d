/**
 * What failures look like, and how retries and time limits are changed. It needs no account: a small server of its own
 * plays the bad days of a real one.
 *
 *     node --conditions=@effect-tinker/source --import tsx packages/tinker/examples/errors-and-retries.ts
 */
import { Console, Effect, Layer, Schedule } from "effect"
import { RetryPolicy, ServiceClient } from "effect-tinker"
import * as NodeTinker from "effect-tinker/NodeTinker"
import { createServer } from "node:http"

/** Overloaded for two requests, then well; and it refuses one key. */
const server = Effect.acquireRelease(
  Effect.async<{ readonly url: string; readonly close: () => void }>((resume) => {
    let asked = 0
    const http = createServer((request, response) => {
      const busy = request.url?.endsWith("/get_server_capabilities") === true && ++asked <= 2
      const status = request.headers["x-api-key"] === "tml-revoked" ? 401 : busy ? 503 : 200
      response.writeHead(status, {
        "content-type": "application/json",
        "retry-after-ms": "50",
        "x-request-id": `r${asked}`
      })
      response.end(JSON.stringify(
        status === 401 ? { detail: "unknown key" } : status === 503 ? { detail: "busy" } : { supported_models: [] }
      ))
    })
    http.listen(0, "127.0.0.1", () => {
      const address = http.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, close: () => http.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)

const models = Effect.flatMap(ServiceClient.ServiceClient, (service) => service.serverCapabilities).pipe(
  Effect.map(({ supportedModels }) => `${supportedModels.length} models`),
  // Errors are flat and tagged: handle the ones you have an answer to, and let the others through.
  Effect.catchTags({
    Authentication: (error) => Effect.succeed(`log in again: ${error.description}`),
    Unavailable: (error) => Effect.succeed(`try later: ${error.description} (request ${error.requestId})`)
  })
)

const program = Effect.gen(function*() {
  const { url } = yield* server
  const as = (apiKey: string) =>
    ServiceClient.layer({ baseUrl: url, apiKey, timeout: "10 seconds" }).pipe(Layer.provide(NodeTinker.layer))

  yield* Console.log("a revoked key:   ", yield* Effect.provide(models, as("tml-revoked")))
  yield* Console.log("no retries:      ", yield* RetryPolicy.withoutRetries(Effect.provide(models, as("tml-a"))))
  yield* Console.log("usual retries:   ", yield* Effect.provide(models, as("tml-a")))

  // A policy is a Schedule: replace one class of operations, for one effect.
  const brief = RetryPolicy.provide({ restRead: Schedule.intersect(RetryPolicy.defaults.restRead, Schedule.recurs(3)) })
  yield* Console.log("a policy of ours:", yield* brief(Effect.provide(models, as("tml-a"))))
})

Effect.runPromise(Effect.scoped(program))
