/**
 * The program of the engine's worker threads on Node.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeWorkerRunner from "@effect/platform-node/NodeWorkerRunner"
import * as WorkerRunner from "@effect/platform/WorkerRunner"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { sliceMillis, turn } from "../eventLoop.js"
import { makeWorkerHandler } from "./executor.js"
import { loadNative } from "./NodeNative.js"
import { makeSlices } from "./slices.js"

const runner = Effect.map(
  makeSlices({ sliceMillis, pause: turn }),
  (slices) => WorkerRunner.layer(makeWorkerHandler(slices, loadNative))
)

NodeRuntime.runMain(WorkerRunner.launch(Layer.provide(Layer.unwrapEffect(runner), NodeWorkerRunner.layer)))
