/**
 * The program of the engine's worker threads on Node.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeWorkerRunner from "@effect/platform-node/NodeWorkerRunner"
import * as WorkerRunner from "@effect/platform/WorkerRunner"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { sliceMillis, turn } from "../eventLoop.js"
import { makeCore } from "./core.js"
import { makeWorkerHandler } from "./executor.js"

const runner = Effect.map(makeCore({ sliceMillis, pause: turn }), (core) => WorkerRunner.layer(makeWorkerHandler(core)))

NodeRuntime.runMain(WorkerRunner.launch(Layer.provide(Layer.unwrapEffect(runner), NodeWorkerRunner.layer)))
