/**
 * A variant in a process of its own: a line `CALLS CONCURRENCY` in, the figures as JSON out.
 */
import { createInterface } from "node:readline"

export interface Figures {
  readonly seconds: number
  /** CPU seconds of the process, all threads. */
  readonly cpu: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** Largest resident size so far, MiB. */
  readonly rss: number
}

const cpu = (): number => {
  const { system, user } = process.cpuUsage()
  return (system + user) / 1e6
}

const at = (sorted: ReadonlyArray<number>, quantile: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? NaN

/** @param sample makes one call */
export const serve = (sample: () => Promise<unknown>): void => {
  const run = async (calls: number, concurrency: number): Promise<Figures> => {
    const latencies: Array<number> = []
    let started = 0
    const worker = async () => {
      while (started < calls) {
        started++
        const start = performance.now()
        await sample()
        latencies.push(performance.now() - start)
      }
    }
    const begin = performance.now()
    const used = cpu()
    await Promise.all(Array.from({ length: concurrency }, worker))
    const seconds = (performance.now() - begin) / 1000
    const spent = cpu() - used
    latencies.sort((a, b) => a - b)
    return {
      seconds,
      cpu: spent,
      p50: at(latencies, 0.5),
      p99: at(latencies, 0.99),
      rss: process.resourceUsage().maxRSS / 1024
    }
  }
  createInterface(process.stdin).on("line", (line) => {
    const [calls, concurrency] = line.split(" ").map(Number)
    run(calls ?? 0, concurrency ?? 1).then(
      (figures) => process.stdout.write(`${JSON.stringify(figures)}\n`),
      (error) => {
        process.stderr.write(`${String(error)}\n`)
        process.exit(1)
      }
    )
  })
}

/** The same prompt for everyone. */
export const prompt = Int32Array.from({ length: 200 }, (_, i) => 1000 + i)
