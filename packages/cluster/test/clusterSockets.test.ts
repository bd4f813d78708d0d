import { RunnerAddress, Runners } from "@effect/cluster"
import { SocketServer } from "@effect/platform"
import { RpcSerialization } from "@effect/rpc"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Schedule, Scope } from "effect"
import * as clusterSockets from "../src/internal/node/clusterSockets.js"
import { freePort } from "../src/internal/node/freePort.js"

const key = new Uint8Array(32).fill(7)

describe("clusterSockets", () => {
  it.scopedLive("closing the client ends connections that the engine has lost sight of", () =>
    Effect.gen(function*() {
      const port = yield* freePort
      let open = 0
      const context = yield* Layer.build(clusterSockets.layerServer({ host: "127.0.0.1", port, key }))
      const server = yield* SocketServer.SocketServer.pipe(Effect.provide(context))
      yield* Effect.forkScoped(server.run((socket) => {
        open++
        return Effect.ensuring(socket.runRaw(() => undefined), Effect.sync(() => open--))
      }))
      // Sooner than a client gives up a server that does not answer.
      const until = (count: number) =>
        Effect.suspend(() => open === count ? Effect.void : Effect.fail(`${open} connections instead of ${count}`))
          .pipe(
            Effect.retry(Schedule.spaced("20 millis").pipe(Schedule.upTo("5 seconds")))
          )

      const scope = yield* Scope.make()
      const layer = Layer.provide(clusterSockets.layerClient(key), RpcSerialization.layerMsgPack)
      const client = yield* Layer.buildWithScope(layer, scope)
      const connect = yield* Runners.RpcClientProtocol.pipe(Effect.provide(client))
      // Entries of the engine's map have a scope of their own; nobody closes those that another one took the place of.
      const lost = yield* Scope.make()
      const released = yield* Scope.make()
      for (const entry of [lost, released]) {
        yield* connect(RunnerAddress.make("127.0.0.1", port)).pipe(Scope.extend(entry))
      }
      yield* until(2)
      yield* Scope.close(released, Exit.void)
      yield* until(1)
      yield* Scope.close(scope, Exit.void)
      yield* until(0)
      assert.strictEqual(open, 0)
    }), 60_000)
})
