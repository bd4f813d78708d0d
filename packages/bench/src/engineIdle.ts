/**
 * A process with nothing to do: the number of milliseconds to wait in, the longest delay of its event loop out.
 */
import { monitorEventLoopDelay } from "node:perf_hooks"
import { createInterface } from "node:readline"
import { setTimeout } from "node:timers/promises"

for await (const line of createInterface(process.stdin)) {
  const histogram = monitorEventLoopDelay({ resolution: 1 })
  histogram.enable()
  await setTimeout(Number(line))
  process.stdout.write(`${histogram.max / 1e6}\n`)
}
