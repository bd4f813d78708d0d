/**
 * Places of a worker, shared by the runs that send to it. A free place goes to the run that has least places for its
 * weight, and among those to the one that has been given least so far: each run gets its share of the time of all places,
 * however many rollouts another one has waiting, and what one run does not need goes to the others.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

interface Waiting {
  begin: () => void
}

interface Run {
  weight: number
  running: number
  /** Places it was given, by its weight, since a time at which all runs were even. */
  given: number
  readonly queue: Array<Waiting>
}

/** How full a worker is. @internal */
export interface Load {
  readonly running: number
  readonly waiting: number
}

/** @internal */
export interface FairTurns {
  readonly withTurn: (
    run: string,
    weight: number
  ) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly load: () => Load
  /** Lets everybody in who waits, and who comes. */
  readonly open: () => void
}

/** @internal */
export const make = (count: number): FairTurns => {
  let places = count
  const runs = new Map<string, Run>()
  let running = 0
  let waiting = 0

  /** A run that comes later is not behind for what others were given before. */
  const runOf = (name: string, weight: number): Run => {
    const known = runs.get(name)
    if (known !== undefined) {
      known.weight = weight
      return known
    }
    const given = Math.min(...Array.from(runs.values(), (other) => other.given))
    const made: Run = { weight, running: 0, given: Number.isFinite(given) ? given : 0, queue: [] }
    runs.set(name, made)
    return made
  }

  const isBefore = (a: Run, b: Run) => {
    const [loadOfA, loadOfB] = [a.running / a.weight, b.running / b.weight]
    return loadOfA === loadOfB ? a.given < b.given : loadOfA < loadOfB
  }

  const forget = (name: string, run: Run) => {
    if (run.running === 0 && run.queue.length === 0 && runs.get(name) === run) runs.delete(name)
  }

  const start = (run: Run) => {
    running++
    run.running++
    run.given += 1 / run.weight
  }

  const fill = () => {
    while (running < places && waiting > 0) {
      let best: Run | undefined
      for (const run of runs.values()) {
        if (run.queue.length > 0 && (best === undefined || isBefore(run, best))) best = run
      }
      const next = best?.queue.shift()
      if (best === undefined || next === undefined) return
      waiting--
      start(best)
      next.begin()
    }
  }

  const end = (name: string, run: Run) =>
    Effect.sync(() => {
      running--
      run.running--
      fill()
      forget(name, run)
    })

  const leave = (name: string, run: Run, entry: Waiting) => {
    const place = run.queue.indexOf(entry)
    // It was given its place just when it was given up.
    if (place < 0) return end(name, run)
    return Effect.sync(() => {
      run.queue.splice(place, 1)
      waiting--
      forget(name, run)
    })
  }

  return {
    open: () => {
      places = Infinity
      fill()
    },
    load: () => ({ running, waiting }),
    withTurn: (name, weight) => (effect) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.suspend(() => {
          const run = runOf(name, weight)
          const entry: Waiting = { begin: () => undefined }
          const turn = Effect.async<void>((resume) => {
            entry.begin = () => resume(Effect.void)
            fill()
          })
          run.queue.push(entry)
          waiting++
          return restore(turn).pipe(
            Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : Effect.suspend(() => leave(name, run, entry))),
            Effect.zipRight(Effect.ensuring(restore(effect), end(name, run)))
          )
        })
      )
  }
}
