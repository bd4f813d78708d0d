/**
 * One workspace per model and the turns in which work uses it. Work is a generator; the machine drives it, and after
 * each slice of time lets the rest of the program run.
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
    let busy = 0
    let steps = 0

    const drive = <A>(work: Work<A>): Effect.Effect<A> => {
      const slice = (): Effect.Effect<A> => {
        let before = clock.unsafeCurrentTimeMillis()
        for (;;) {
          const result = work.next()
          if (result.done === true) {
            busy += clock.unsafeCurrentTimeMillis() - before
            return Effect.succeed(result.value)
          }
          const now = clock.unsafeCurrentTimeMillis()
          busy += now - before
          before = now
          steps++
          if (busy >= options.sliceMillis || steps >= maxSteps) {
            busy = 0
            steps = 0
            return Effect.flatMap(options.pause, slice)
          }
        }
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
      return { shape, run, baseWeights }
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
