/**
 * The status of a run, published in its directory when it changes.
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as RunControl from "../../RunControl.js"

/** @internal */
export interface Details {
  readonly until?: number
  readonly message?: string | undefined
  readonly questions?: ReadonlyArray<string>
}

/** @internal */
export interface StatusFile {
  readonly set: (state: RunControl.State, step: number, details?: Details) => Effect.Effect<void>
}

/** @internal */
export const make = (
  { directory, run }: { readonly directory: string; readonly run: string }
): Effect.Effect<StatusFile, never, FileSystem.FileSystem> =>
  Effect.map(FileSystem.FileSystem, (fs) => {
    let written = ""
    return {
      set: Effect.fnUntraced(
        function*(state, step, details) {
          const same = JSON.stringify([state, step, details])
          if (same === written) return
          written = same
          const since = yield* Clock.currentTimeMillis
          const { message, questions = [], until } = details ?? {}
          yield* RunControl.setStatus(
            directory,
            new RunControl.Status({ run, state, step, since, until, message, questions })
          )
        },
        Effect.provideService(FileSystem.FileSystem, fs),
        Effect.ignoreLogged
      )
    }
  })
