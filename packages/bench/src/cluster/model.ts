/**
 * How rollouts grow with workers, as a simulation: a trainer that keeps so many rollouts with workers, workers that run so
 * many at once, and a database that does one transaction after the other.
 */

export interface Setting {
  readonly workers: number
  /** Rollouts at once per worker. */
  readonly concurrency: number
  /** What a rollout takes, without the database. */
  readonly seconds: number
  /** Most rollouts with workers at once. */
  readonly slots: number
  /** Transactions before a rollout runs, and after; at least one each. */
  readonly before: number
  readonly after: number
  /** Transactions per second of a worker that has nothing to do. */
  readonly idle: number
  /** Transactions per second that the database can do. */
  readonly capacity: number
}

export interface Growth {
  readonly perSecond: number
  /** Share of its capacity that the database uses. */
  readonly database: number
}

interface Rollout {
  readonly worker: number
  /** Transactions it still needs before it runs, or before it ends. */
  left: number
  hasRun: boolean
}

/** What is taken out in the order in which it was put in. */
class Line<A> {
  private items: Array<A> = []
  private first = 0

  get head(): A | undefined {
    return this.items[this.first]
  }

  push(item: A): void {
    this.items.push(item)
  }

  shift(): A | undefined {
    const item = this.head
    if (item === undefined) return undefined
    this.first++
    if (2 * this.first > this.items.length + 64) {
      this.items = this.items.slice(this.first)
      this.first = 0
    }
    return item
  }
}

/** Rollouts per second of many rollouts in a row; those of the beginning, when all start at once, are not counted. */
export const simulate = (setting: Setting): Growth => {
  const { after, before, capacity, concurrency, idle, seconds, slots, workers } = setting
  const polling = Math.min(0.99, workers * idle / capacity)
  // What polling leaves of the database.
  const service = 1 / (capacity * (1 - polling))
  const warmup = 2 * Math.max(workers * concurrency, slots)
  const count = 2 * warmup
  const database = new Line<Rollout>()
  // All rollouts take as long, so they end in the order in which they began.
  const running = new Line<{ readonly ends: number; readonly rollout: Rollout }>()
  const crew = Array.from({ length: workers }, () => ({ running: 0, waiting: new Line<Rollout>() }))
  let now = 0
  let databaseEnds = Infinity
  let ended = 0
  let from = 0
  let transactions = 0

  const ask = (rollout: Rollout) => {
    database.push(rollout)
    if (databaseEnds === Infinity) databaseEnds = now + service
  }
  const run = (rollout: Rollout) => {
    const worker = crew[rollout.worker]
    if (worker === undefined) return
    if (worker.running >= concurrency) return worker.waiting.push(rollout)
    worker.running++
    running.push({ ends: now + seconds, rollout })
  }

  for (let slot = 0; slot < slots; slot++) ask({ worker: slot % workers, left: before, hasRun: false })
  while (ended < warmup + count) {
    const environment = running.head
    if (environment !== undefined && environment.ends <= databaseEnds) {
      running.shift()
      now = environment.ends
      const worker = crew[environment.rollout.worker]
      if (worker !== undefined) {
        worker.running--
        const next = worker.waiting.shift()
        if (next !== undefined) run(next)
      }
      ask({ worker: environment.rollout.worker, left: after, hasRun: true })
      continue
    }
    const rollout = database.shift()
    if (rollout === undefined) break
    now = databaseEnds
    databaseEnds = database.head === undefined ? Infinity : now + service
    transactions++
    if (--rollout.left > 0) ask(rollout)
    else if (!rollout.hasRun) run(rollout)
    else {
      if (++ended === warmup) [from, transactions] = [now, 0]
      ask({ worker: rollout.worker, left: before, hasRun: false })
    }
  }
  const took = now - from
  return { perSecond: count / took, database: Math.min(1, polling + transactions / took / capacity) }
}
