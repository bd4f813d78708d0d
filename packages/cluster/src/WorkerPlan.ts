/**
 * How many workers a rate of rollouts needs, and what is full first: a simulation of trainers, workers, the server they
 * sample from and the database, with figures that `npm run bench -- cluster` measures.
 *
 * Every station is a queue: the server samples for one rollout after the other, a trainer reads one result after the other,
 * and the database commits one batch after the other, beside what waiting workers ask it.
 *
 * @since 0.2.0
 */

/**
 * What a cluster is made of. Times are in seconds.
 *
 * @since 0.2.0
 * @category models
 */
export interface Setting {
  readonly workers: number
  /** Rollouts at once per worker. */
  readonly concurrency: number
  /** What a rollout takes, without sampling. */
  readonly seconds: number
  /** Most rollouts with workers at once, of all trainers. */
  readonly slots: number
  /** Trainers, each with its share of the rollouts. */
  readonly trainers: number
  /** What the server works for one rollout. */
  readonly sampling: number
  /** What a trainer computes for one rollout: it reads one result at a time. */
  readonly trainer: number
  readonly database: Database
  /** Rollouts of the run, from its first to its last; without it, the rate of a run that never ends. */
  readonly count?: number | undefined
}

/**
 * What a database can do, and what is asked of it beside rollouts.
 *
 * @since 0.2.0
 * @category models
 */
export interface Database {
  /** Transactions per second, of one row each. */
  readonly transactions: number
  /** Rows per second, of those that are stored together. */
  readonly rows: number
  /** Transactions per second of a worker that has nothing to do. */
  readonly idle: number
}

/**
 * What came of it. Shares are of what a station could do at most.
 *
 * @since 0.2.0
 * @category models
 */
export interface Growth {
  readonly perSecond: number
  /** Transactions for each rollout, without those of waiting workers. */
  readonly transactions: number
  readonly workers: number
  readonly sampling: number
  readonly trainers: number
  readonly database: number
}

/** How long results wait to be stored together, and how many are at most. */
const window = 0.05
const batch = 256

/**
 * What was measured on a machine with two cores, which everything shared, for trajectories of a few tokens. Other machines,
 * and this one when it is busy, have other figures: `npm run bench -- cluster` prints them.
 *
 * @since 0.2.0
 * @category configuration
 */
export const measured = {
  sampling: 0.0056,
  trainer: 0.003,
  database: { transactions: 6820, rows: 107_000, idle: 0.76 }
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

/** Does one thing after the other; says when it is done with the next one. */
class Station {
  private free = 0
  busy = 0

  take(now: number, seconds: number): number {
    this.free = Math.max(now, this.free) + seconds
    this.busy += seconds
    return this.free
  }
}

/** What happens next, as a heap by time. */
class Agenda {
  private readonly heap: Array<readonly [time: number, act: () => void]> = []

  at(time: number, act: () => void): void {
    const { heap } = this
    let index = heap.push([time, act]) - 1
    while (index > 0) {
      const above = (index - 1) >> 1
      if (this.time(above) <= time) break
      this.swap(index, above)
      index = above
    }
  }

  next(): readonly [time: number, act: () => void] | undefined {
    const { heap } = this
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    heap[0] = last
    let index = 0
    for (;;) {
      let least = index
      for (const below of [2 * index + 1, 2 * index + 2]) if (this.time(below) < this.time(least)) least = below
      if (least === index) return first
      this.swap(index, least)
      index = least
    }
  }

  private time(index: number): number {
    return this.heap[index]?.[0] ?? Infinity
  }

  private swap(a: number, b: number): void {
    const [left, right] = [this.heap[a], this.heap[b]]
    if (left !== undefined && right !== undefined) [this.heap[a], this.heap[b]] = [right, left]
  }
}

/**
 * Rollouts per second, and how busy everything is.
 *
 * @since 0.2.0
 * @category constructors
 */
export const simulate = (setting: Setting): Growth => {
  const { concurrency, database, seconds, slots, trainers, workers } = setting
  const agenda = new Agenda()
  const server = new Station()
  const readers = Array.from({ length: trainers }, () => ({
    station: new Station(),
    collected: 0,
    isCollecting: false
  }))
  const storage = new Station()
  // What waiting workers leave of the database.
  const polling = Math.min(0.99, workers * database.idle / database.transactions)
  const crew = Array.from({ length: workers }, () => ({ running: 0, waiting: new Line<number>() }))
  const warmup = setting.count === undefined ? 2 * Math.max(workers * concurrency, slots) : 0
  const count = setting.count ?? 2 * warmup
  let now = 0
  let sent = 0
  let ended = 0
  let commits = 0
  let from = { now: 0, server: 0, storage: 0, readers: 0, commits: 0 }
  const busyReaders = () => readers.reduce((sum, { station }) => sum + station.busy, 0)

  const commit = (trainer: number) => {
    const reader = readers[trainer]
    if (reader === undefined || reader.collected === 0) return
    const rows = Math.min(batch, reader.collected)
    reader.collected -= rows
    const done = storage.take(now, (1 / database.transactions + rows / database.rows) / (1 - polling))
    commits++
    agenda.at(done, () => {
      ended += rows
      if (from.now === 0 && warmup > 0 && ended >= warmup) {
        from = { now, server: server.busy, storage: storage.busy, readers: busyReaders(), commits }
        ended = 0
      }
    })
    if (reader.collected > 0) commit(trainer)
  }
  const collect = (trainer: number) => {
    const reader = readers[trainer]
    if (reader === undefined) return
    reader.collected++
    if (reader.isCollecting) return
    reader.isCollecting = true
    agenda.at(now + window, () => {
      reader.isCollecting = false
      commit(trainer)
    })
  }
  const run = (index: number, trainer: number) => {
    const worker = crew[index]
    if (worker === undefined) return
    if (worker.running >= concurrency) return worker.waiting.push(trainer)
    worker.running++
    agenda.at(server.take(now, setting.sampling) + seconds, () => {
      worker.running--
      const next = worker.waiting.shift()
      if (next !== undefined) run(index, next)
      const read = readers[trainer]?.station.take(now, setting.trainer) ?? now
      agenda.at(read, () => {
        collect(trainer)
        send(index, trainer)
      })
    })
  }
  const send = (worker: number, trainer: number) => {
    if (setting.count !== undefined && sent >= setting.count) return
    sent++
    run(worker, trainer)
  }

  for (let slot = 0; slot < slots; slot++) send(slot % workers, slot % trainers)
  while (ended < count || (warmup > 0 && from.now === 0)) {
    const event = agenda.next()
    if (event === undefined) break
    now = event[0]
    event[1]()
  }
  const took = now - from.now
  const share = (busy: number) => Math.min(1, busy / took)
  return {
    perSecond: ended / took,
    transactions: (commits - from.commits) / Math.max(1, ended),
    workers: Math.min(1, ended * (seconds + setting.sampling) / took / (workers * concurrency)),
    sampling: share(server.busy - from.server),
    trainers: share((busyReaders() - from.readers) / trainers),
    database: Math.min(1, polling + share((storage.busy - from.storage) * (1 - polling)))
  }
}

// =============================================================================
// plans
// =============================================================================

/**
 * What is wanted, and what the machines are.
 *
 * @since 0.2.0
 * @category models
 */
export interface Wanted {
  /** Rollouts per second. */
  readonly target: number
  /** What a rollout takes, without sampling. */
  readonly rolloutSeconds: number
  /** Rollouts at once per worker. */
  readonly concurrency: number
  /** Workers on one machine. */
  readonly workersPerMachine: number
  /** What the server works for one rollout, in seconds. */
  readonly sampling: number
  readonly trainer: number
  readonly database: Database
}

/**
 * A part of the cluster and how much of it is used.
 *
 * @since 0.2.0
 * @category models
 */
export interface Use {
  readonly name: "workers" | "sampling" | "trainers" | "database"
  /** Share of what it can do. */
  readonly share: number
}

/**
 * What a rate of rollouts needs.
 *
 * @since 0.2.0
 * @category models
 */
export interface Plan {
  readonly workers: number
  readonly machines: number
  /** What to give to `--slots`, of all trainers together. */
  readonly slots: number
  readonly trainers: number
  /** Connections that the database must accept. */
  readonly connections: number
  readonly perSecond: number
  readonly reachesTarget: boolean
  /** Transactions per second, of rollouts and of workers that wait. */
  readonly transactions: number
  /** The fullest first. */
  readonly uses: ReadonlyArray<Use>
}

/** Workers that can have the same label. */
const mostWorkers = 128

/** Connections of a worker and of a trainer: one that holds locks, and those that are used at the same time. */
const connectionsEach = 3

/** A trainer is taken to be full before it is: its process trains too. */
const spare = 0.8

/**
 * Workers, slots and trainers for a rate, and how full each part of the cluster is then.
 *
 * @since 0.2.0
 * @category constructors
 */
export const plan = (wanted: Wanted): Plan => {
  const { concurrency, database, rolloutSeconds, sampling, target, trainer } = wanted
  const trainers = Math.max(1, Math.ceil(target * trainer / spare))
  // A rollout has its place while it is sampled too, and waits for the server behind others.
  const seconds = rolloutSeconds + sampling
  let workers = Math.max(1, Math.ceil(target * seconds / concurrency))
  const settingOf = (workers: number): Setting => ({
    workers,
    concurrency,
    seconds: rolloutSeconds,
    slots: 2 * workers * concurrency,
    trainers,
    sampling,
    trainer,
    database
  })
  let growth = simulate(settingOf(workers))
  // What waits in lines keeps places: a few more workers make up for it, unless something else is full.
  for (let tries = 0; tries < 4 && growth.perSecond < target; tries++) {
    if (Math.max(growth.sampling, growth.trainers, growth.database) > 0.98) break
    workers = Math.ceil(workers * Math.max(1.02, target / growth.perSecond))
    growth = simulate(settingOf(workers))
  }
  const uses: Array<Use> = [
    { name: "workers", share: growth.workers },
    { name: "sampling", share: growth.sampling },
    { name: "trainers", share: growth.trainers },
    { name: "database", share: growth.database }
  ]
  return {
    workers,
    machines: Math.ceil(workers / wanted.workersPerMachine),
    slots: 2 * workers * concurrency,
    trainers,
    connections: connectionsEach * (workers + trainers),
    perSecond: growth.perSecond,
    reachesTarget: growth.perSecond >= 0.98 * target,
    transactions: growth.perSecond * growth.transactions + workers * database.idle,
    uses: uses.sort((a, b) => b.share - a.share)
  }
}

/**
 * What somebody who builds it must know, in sentences.
 *
 * @since 0.2.0
 * @category combinators
 */
export const advice = (wanted: Wanted, plan: Plan): ReadonlyArray<string> => {
  const [first, second] = plan.uses.filter(({ name }) => name !== "workers")
  const percent = (share: number) => `${Math.round(100 * share)} %`
  return [
    ...(plan.reachesTarget ? [] : [
      `This does not reach ${wanted.target} per second: ${first?.name ?? "something"} is full at ${
        plan.perSecond.toFixed(1)
      }.`
    ]),
    `Full first, after the workers: ${first?.name ?? "nothing"} (${percent(first?.share ?? 0)}), then ${
      second?.name ?? "nothing"
    } (${percent(second?.share ?? 0)}).`,
    ...(plan.workers > mostWorkers ?
      [
        `A label has at most ${mostWorkers} workers: give each ${
          Math.ceil(plan.workers * wanted.concurrency / mostWorkers)
        } rollouts at once, or spread them over several databases.`
      ] :
      []),
    ...(plan.trainers > 1 ? [`One trainer cannot read so many results: ${plan.trainers} runs share the workers.`] : []),
    ...(plan.connections > 100
      ? [
        `Postgres accepts 100 connections unless told otherwise: set max_connections to ${
          plan.connections + 10
        } or more.`
      ]
      : [])
  ]
}
