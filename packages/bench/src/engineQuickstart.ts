/**
 * Loaded before the quickstart: from where that begins to measure delays by the clock, also measures how much work a turn
 * of the event loop was, and prints it as a last line.
 */
import { writeSync } from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import perfHooks from "node:perf_hooks"
import { watchWork } from "./turns.js"

const { monitorEventLoopDelay } = perfHooks

perfHooks.monitorEventLoopDelay = (options) => {
  const { read } = watchWork()
  process.once("exit", () => writeSync(1, `${JSON.stringify({ eventLoopWorkMillis: read() })}\n`))
  return monitorEventLoopDelay(options)
}
syncBuiltinESMExports()
