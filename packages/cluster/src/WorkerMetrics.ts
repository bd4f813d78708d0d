/**
 * What an autoscaler needs to know of a worker: how many rollouts wait and run, how many more it could run, and how many it
 * has ended. As text for Prometheus, and as JSON.
 *
 * @since 0.2.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/**
 * How a worker stands.
 *
 * @since 0.2.0
 * @category models
 */
export interface Reading {
  /** Rollouts that run. */
  readonly running: number
  /** Rollouts that wait for a place. */
  readonly waiting: number
  /** Rollouts that can run at once. */
  readonly concurrency: number
  /** Rollouts that ended since the worker started. */
  readonly ended: number
  /** Rollouts that failed since the worker started. */
  readonly failed: number
  /** Seconds that the rollouts which ended ran, in total. */
  readonly runSeconds: number
  /** Seconds that they waited for a place, in total. */
  readonly waitSeconds: number
}

/**
 * How a worker stands, and how fast it is.
 *
 * @since 0.2.0
 * @category models
 */
export interface Report extends Reading {
  /** Places in which nothing runs. */
  readonly idle: number
  /** Rollouts that ended per second, of the last half minute. */
  readonly perSecond: number
}

/**
 * Counts of a worker, or of several in one process.
 *
 * @since 0.2.0
 * @category models
 */
export interface WorkerMetrics {
  /** Adds a worker that can be read. */
  readonly watch: (read: () => Reading) => Effect.Effect<void>
  readonly report: Effect.Effect<Report>
}

const none: Reading = { running: 0, waiting: 0, concurrency: 0, ended: 0, failed: 0, runSeconds: 0, waitSeconds: 0 }

const sum = (a: Reading, b: Reading): Reading => ({
  running: a.running + b.running,
  waiting: a.waiting + b.waiting,
  concurrency: a.concurrency + b.concurrency,
  ended: a.ended + b.ended,
  failed: a.failed + b.failed,
  runSeconds: a.runSeconds + b.runSeconds,
  waitSeconds: a.waitSeconds + b.waitSeconds
})

/** Milliseconds over which the rate is taken, and most readings that are kept of them. */
const window = 30_000
const kept = 120

/**
 * Counts that are read as often as somebody asks.
 *
 * @since 0.2.0
 * @category constructors
 */
export const make: Effect.Effect<WorkerMetrics> = Effect.map(Clock.currentTimeMillis, (started) => {
  const workers: Array<() => Reading> = []
  // Readings of before, oldest first: the rate is counted from the oldest in the window.
  let before: Array<{ readonly time: number; readonly ended: number }> = [{ time: started, ended: 0 }]
  return {
    watch: (read) => Effect.sync(() => void workers.push(read)),
    report: Effect.map(Clock.currentTimeMillis, (now) => {
      const reading = workers.reduce((total, read) => sum(total, read()), none)
      // The newest of those that are too old stays: the rate is of at least the window, once it has passed.
      const old = before.filter(({ time }) => now - time >= window).length
      before = before.slice(Math.max(0, old - 1, before.length - kept))
      const since = before[0]
      const seconds = since === undefined ? 0 : (now - since.time) / 1000
      const perSecond = since === undefined || seconds <= 0 ? 0 : (reading.ended - since.ended) / seconds
      const last = before.at(-1)
      if (last === undefined || now - last.time >= 1000) before.push({ time: now, ended: reading.ended })
      return { ...reading, idle: Math.max(0, reading.concurrency - reading.running), perSecond }
    })
  }
})

/**
 * The report as Prometheus reads it.
 *
 * @since 0.2.0
 * @category combinators
 */
export const prometheus = (report: Report): string =>
  ([
    ["rollouts_waiting", "gauge", "Rollouts that wait for a place.", report.waiting],
    ["rollouts_running", "gauge", "Rollouts that run.", report.running],
    ["slots", "gauge", "Rollouts that can run at once.", report.concurrency],
    ["slots_idle", "gauge", "Places in which nothing runs.", report.idle],
    ["rollouts_per_second", "gauge", "Rollouts that ended per second, of the last half minute.", report.perSecond],
    ["rollouts_total", "counter", "Rollouts that ended.", report.ended],
    ["rollouts_failed_total", "counter", "Rollouts that failed.", report.failed],
    ["rollout_run_seconds_total", "counter", "Seconds that rollouts ran.", report.runSeconds],
    ["rollout_wait_seconds_total", "counter", "Seconds that rollouts waited for a place.", report.waitSeconds]
  ] as const).map(([name, type, help, value]) =>
    `# HELP tinker_worker_${name} ${help}\n# TYPE tinker_worker_${name} ${type}\ntinker_worker_${name} ${value}\n`
  ).join("")
