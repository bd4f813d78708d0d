import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { createServer } from "node:http"
import { ServiceClient, TinkerFuture, TrainingClient } from "../src/index.js"
import * as NodeTinker from "../src/NodeTinker.js"

const answers: Readonly<Record<string, unknown>> = {
  "/api/v1/client/config": {},
  "/api/v1/client/dynamic_config": {},
  "/api/v1/create_session": { session_id: "s" },
  "/api/v1/create_model": { request_id: "create" },
  "/api/v1/optim_step": { request_id: "step" }
}

/** A server on a socket of its own that accepts everything and never answers the poll of a step. */
const holdingServer = Effect.gen(function*() {
  const polled = yield* Deferred.make<void>()
  const closed = yield* Deferred.make<void>()
  const paths: Array<string> = []
  const server = createServer((request, response) => {
    let body = ""
    request.on("data", (chunk) => {
      body += String(chunk)
    })
    request.on("end", () => {
      const path = request.url ?? ""
      paths.push(path)
      const send = (value: unknown) => response.end(JSON.stringify(value))
      if (path !== "/api/v1/retrieve_future") return send(answers[path] ?? {})
      if (body.includes("\"create\"")) return send({ model_id: "s:train:0" })
      response.on("close", () => Deferred.unsafeDone(closed, Effect.void))
      return Deferred.unsafeDone(polled, Effect.void)
    })
  })
  yield* Effect.acquireRelease(
    Effect.async<void>((resume) => {
      server.listen(0, "127.0.0.1", () => resume(Effect.void))
    }),
    () =>
      Effect.async<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { polled, closed, paths, baseUrl: `http://127.0.0.1:${port}` }
})

describe("TinkerFuture on real sockets", () => {
  it.scopedLive("G3: a caller interrupted while polling closes its socket at once, and nothing more is sent", () =>
    Effect.gen(function*() {
      const server = yield* holdingServer
      const context = yield* Layer.build(
        ServiceClient.layer({ baseUrl: server.baseUrl, apiKey: "tml-key" }).pipe(
          Layer.provide(NodeTinker.layer())
        )
      )
      const training = yield* Effect.provide(TrainingClient.makeLora({ baseModel: "b" }), context)
      const step = yield* training.optimStep()
      const waiting = yield* Effect.fork(step)
      yield* Deferred.await(server.polled)
      const before = server.paths.length
      yield* Fiber.interrupt(waiting)
      // The client has let go when the interruption returns; the server learns of it with its next event.
      yield* Effect.timeout(Deferred.await(server.closed), "60 seconds")
      // The session's heart beats on, and it reports: by the clock, on a slow machine also meanwhile.
      const kept = ["/api/v1/session_heartbeat", "/api/v1/telemetry"]
      assert.deepStrictEqual(server.paths.slice(before).filter((path) => !kept.includes(path)), [])
      // Closing the scope would wait for its outcome, which this server never tells.
      yield* TinkerFuture.ignore(step)
    }))
})
