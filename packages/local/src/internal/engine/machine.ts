/**
 * One workspace per model and the turns in which work uses it. Work is a generator; the machine drives it, and after
 * each slice of time lets the event loop turn. The slice is counted from the loop's last turn, whatever has run since:
 * fibers woken by one another all run before it, so what they took is as much waiting for everyone else as the work.
 */
import * as Effect from "effect/Effect"
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
  /** Runs work with the workspace to itself. Interruption stops it between two steps. */
  readonly run: <A>(work: (workspace: Workspace) => Work<A>) => Effect.Effect<A>
  /** The frozen weights, made once. */
  readonly baseWeights: Effect.Effect<Packed>
  /** Lets the event loop turn if it is due: before work that cannot be cut into steps. */
  readonly breathe: Effect.Effect<void>
}

/** @internal */
export interface Machines {
  readonly mode: KernelMode
  readonly get: (name: string) => Effect.Effect<Machine, EngineError.UnknownModel>
}

/** @internal */
export interface MachineOptions {
  readonly models: ReadonlyArray<LocalModel>
  readonly mode: KernelMode
  readonly sliceMillis: number
  readonly pause: Effect.Effect<void>
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
    const pause = Effect.zipRight(
      options.pause,
      Effect.sync(() => {
        turned = clock.unsafeCurrentTimeMillis()
        steps = 0
      })
    )
    const breathe = Effect.suspend(() => due() ? pause : Effect.void)

    const drive = <A>(work: Work<A>): Effect.Effect<A> => {
      const slice = (): Effect.Effect<A> => {
        do {
          const result = work.next()
          if (result.done === true) return Effect.succeed(result.value)
          steps++
        } while (!due())
        return Effect.flatMap(pause, slice)
      }
      return Effect.suspend(slice)
    }

    const makeMachine = (model: LocalModel): Machine => {
      const shape = makeShape(model)
      const turn = Effect.unsafeMakeSemaphore(1)
      let workspace: Workspace | undefined
      function* equipped<A>(work: (workspace: Workspace) => Work<A>): Work<A> {
        return yield* work(workspace ??= yield* makeWorkspace(shape, mode))
      }
      const run: Machine["run"] = (work) => turn.withPermits(1)(Effect.suspend(() => drive(equipped(work))))
      let base: Packed | undefined
      const baseWeights = Effect.suspend(() =>
        base !== undefined
          ? Effect.succeed(base)
          : Effect.tap(run((space) => merge(space, undefined, false)), (made) => Effect.sync(() => base = made))
      )
      return { shape, run, baseWeights, breathe }
    }

    const machines = new Map(options.models.map((model) => [model.name, makeMachine(model)]))
    return {
      mode,
      get: (name) => {
        const machine = machines.get(name)
        return machine === undefined
          ? new EngineError.UnknownModel({ name, known: Array.from(machines.keys()) })
          : Effect.succeed(machine)
      }
    }
  })
