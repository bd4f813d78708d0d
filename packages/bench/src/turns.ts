/**
 * Turns of the event loop of this process: how long the longest one was by the clock, and how much of a turn was work of
 * the process itself. A busy machine stretches the first and not the second.
 */
import { readFileSync } from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"

/** The longest turn of the event loop. */
export interface Delay {
  /** Milliseconds by the clock; a busy machine stretches them. */
  readonly delay: number
  /** Milliseconds of CPU time that the thread spent in one turn; NaN where the system does not tell. */
  readonly worked: number
}

/** The CPU time of the main thread so far, which Linux tells. */
const threadMillis = (): number => {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6
  } catch {
    return NaN
  }
}

/** The most CPU time of one turn from now on, until it is stopped. */
export const watchWork = () => {
  let worked = 0
  let last = threadMillis()
  const timer = setInterval(() => {
    const now = threadMillis()
    worked = Math.max(worked, now - last)
    last = now
  }, 1).unref()
  return { read: (): number => worked, stop: (): void => clearInterval(timer) }
}

/** The longest turns from now on, until it is stopped. */
export const watchTurns = () => {
  const histogram = monitorEventLoopDelay({ resolution: 1 })
  const work = watchWork()
  histogram.enable()
  return {
    read: (): Delay => ({ delay: histogram.max / 1e6, worked: work.read() }),
    stop: (): void => {
      histogram.disable()
      work.stop()
    }
  }
}
