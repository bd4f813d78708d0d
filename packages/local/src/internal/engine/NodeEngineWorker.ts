/**
 * The program of the engine's worker threads on Node.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeWorkerRunner from "@effect/platform-node/NodeWorkerRunner"
import * as WorkerRunner from "@effect/platform/WorkerRunner"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { makeCore } from "./core.js"
import { makeWorkerHandler } from "./executor.js"

// Long enough to be worth the pause, short enough that a request for a few tokens gets its turn.
const sliceMillis = 5

/** Everything that arrived is looked at before the next slice. */
const pause = Effect.async<void>((resume) => {
  const handle = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(handle))
})

const runner = Effect.map(makeCore({ sliceMillis, pause }), (core) => WorkerRunner.layer(makeWorkerHandler(core)))

NodeRuntime.runMain(WorkerRunner.launch(Layer.provide(Layer.unwrapEffect(runner), NodeWorkerRunner.layer)))
