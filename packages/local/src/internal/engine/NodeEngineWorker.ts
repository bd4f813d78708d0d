/**
 * The program of the engine's worker threads on Node.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeWorkerRunner from "@effect/platform-node/NodeWorkerRunner"
import * as WorkerRunner from "@effect/platform/WorkerRunner"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { readlinkSync } from "node:fs"
import { constants, setPriority } from "node:os"
import { sliceMillis, turn } from "../eventLoop.js"
import { makeWorkerHandler } from "./executor.js"
import { loadNative } from "./NodeNative.js"
import { makeSlices } from "./slices.js"

/**
 * Lets the thread of the event loop go first, and those that collect its garbage: with an engine thread on every core, they
 * would wait for a turn in the middle of their work. Linux has priorities of threads, and tells a thread its number.
 */
const stepBack = Effect.ignore(Effect.try(() => {
  const [thread] = readlinkSync("/proc/thread-self").split("/").slice(-1)
  setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL)
}))

const runner = Effect.map(
  makeSlices({ sliceMillis, pause: turn }),
  (slices) => WorkerRunner.layer(makeWorkerHandler(slices, loadNative))
)

NodeRuntime.runMain(Effect.zipRight(
  stepBack,
  WorkerRunner.launch(Layer.provide(Layer.unwrapEffect(runner), NodeWorkerRunner.layer))
))
