/**
 * One workspace per model and the turns in which work uses it. Work is a generator; the machine drives it, and after
 * each slice of time lets the event loop turn. The slice is counted from the loop's last turn, whatever has run since:
 * fibers woken by one another all run before it, so what they took is as much waiting for everyone else as the work.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as FiberId from "effect/FiberId"
import * as EngineError from "../../EngineError.js"
import type { LocalModel } from "../../LocalModel.js"
import type { KernelMode } from "./kernels.js"
import { wasmModule } from "./kernels.js"
import type { Packed } from "./merge.js"
import { merge } from "./merge.js"
import { makeShape } from "./shape.js"
import type { Shape } from "./shape.js"
import type { Work } from "./work.js"
import type { Workspace } from "./workspace.js"
import { makeWorkspace } from "./workspace.js"

/** @internal */
export interface Machine {
  readonly shape: Shape
  /** Runs work with a workspace to itself, first come first served. Interruption stops it between two steps. */
  readonly run: <A>(work: (workspace: Workspace) => Work<A>) => Effect.Effect<A>
  /** The same with a workspace for sampling: it takes turns with `run` by the slice instead of by the piece of work. */
  readonly runSampling: Machine["run"]
  /** The frozen weights, made once. */
  readonly baseWeights: Effect.Effect<Packed>
  readonly breathe: Machines["breathe"]
}

/** @internal */
export interface Machines {
  readonly mode: KernelMode
  /** Lets the event loop turn if it is due: before work that cannot be cut into steps. */
  readonly breathe: Effect.Effect<void>
  readonly get: (name: string) => Effect.Effect<Machine, EngineError.UnknownModel>
}

/** @internal */
export interface MachineOptions {
  readonly models: ReadonlyArray<LocalModel>
  readonly mode: KernelMode
  readonly sliceMillis: number
  readonly pause: Effect.Effect<void>
}

/** One at a time, in the order of asking: a plain semaphore lets whoever just released it overtake those who wait. */
const makeTurns = (): <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> => {
  let last: Effect.Effect<void> = Effect.void
  return (effect) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.suspend(() => {
        const before = last
        const done = Deferred.unsafeMake<void>(FiberId.none)
        last = Deferred.await(done)
        return restore(before).pipe(
          // left while waiting: the next one waits for those before
          Effect.onInterrupt(() => Deferred.completeWith(done, before)),
          Effect.zipRight(Effect.ensuring(restore(effect), Deferred.succeed(done, undefined)))
        )
      })
    )
}

// Under a test clock no time passes; then the number of steps bounds a slice.
const maxSteps = 256

/** @internal */
export const makeMachines = (options: MachineOptions): Effect.Effect<Machines> =>
  Effect.map(Effect.clock, (clock): Machines => {
    const mode = options.mode === "wasm" && wasmModule() !== undefined ? "wasm" : "js"
    // Shared by all machines: they share one thread.
    let turned = clock.unsafeCurrentTimeMillis()
    let steps = 0

    const due = (): boolean => clock.unsafeCurrentTimeMillis() - turned >= options.sliceMillis || steps >= maxSteps
    const pause = Effect.ensuring(
      options.pause,
      Effect.sync(() => {
        turned = clock.unsafeCurrentTimeMillis()
        steps = 0
      })
    )
    // Those who have to pause do so one after the other, each looking again when its turn comes: every one gets a slice,
    // and the loop turns between two of them. If all waited for the same turn, the first to go on would use up the next
    // slice, and the others would find that they have to wait again, as long as it works.
    const inTurn = makeTurns()
    const breathe: Effect.Effect<void> = Effect.suspend(() =>
      due() ? inTurn(Effect.suspend(() => due() ? pause : Effect.void)) : Effect.void
    )

    const drive = <A>(work: Work<A>): Effect.Effect<A> => {
      const slice = (): Effect.Effect<A> => {
        do {
          const result = work.next()
          if (result.done === true) return Effect.succeed(result.value)
          steps++
        } while (!due())
        return Effect.flatMap(breathe, slice)
      }
      return Effect.flatMap(breathe, slice)
    }

    const makeMachine = (model: LocalModel): Machine => {
      const shape = makeShape(model)
      const makeLane = (): Machine["run"] => {
        const inTurn = makeTurns()
        let workspace: Workspace | undefined
        function* equipped<A>(work: (workspace: Workspace) => Work<A>): Work<A> {
          return yield* work(workspace ??= yield* makeWorkspace(shape, mode))
        }
        return (work) => inTurn(Effect.suspend(() => drive(equipped(work))))
      }
      const run = makeLane()
      const runSampling = makeLane()
      let base: Packed | undefined
      const baseWeights = Effect.suspend(() =>
        base !== undefined
          ? Effect.succeed(base)
          : Effect.tap(runSampling((space) => merge(space, undefined, false)), (made) => Effect.sync(() => base = made))
      )
      return { shape, run, runSampling, baseWeights, breathe }
    }

    const machines = new Map(options.models.map((model) => [model.name, makeMachine(model)]))
    return {
      mode,
      breathe,
      get: (name) => {
        const machine = machines.get(name)
        return machine === undefined
          ? new EngineError.UnknownModel({ name, known: Array.from(machines.keys()) })
          : Effect.succeed(machine)
      }
    }
  })
