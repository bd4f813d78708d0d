/**
 * The checkpoint that a run directory stands for: its final one, or the latest.
 *
 * @since 0.2.0
 */
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure } from "./CliFailure.js"

/** Whether a target is the directory of a recorded run. @internal */
export const isRun = Effect.fnUntraced(function*(target: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  return !target.startsWith("tinker://") &&
    (yield* Effect.orElseSucceed(fs.exists(path.join(target, "journal.jsonl")), () => false))
})

/** The path of a run's checkpoint, to sample from where there is one of that kind. @internal */
export const ofRun = Effect.fnUntraced(function*(directory: string) {
  const found = yield* RunLog.read(directory)
  const checkpoints = Option.match(found, { onNone: () => [], onSome: (run) => run.checkpoints })
  const last = Arr.findLast(checkpoints, ({ kind }) => kind === "final").pipe(
    Option.orElse(() => Arr.last(checkpoints))
  )
  return Option.isSome(last)
    ? last.value.samplerPath ?? last.value.statePath
    : yield* new CliFailure({
      what: `The run in ${directory} has no checkpoint`,
      advice: "Name a run directory that has one, or a tinker:// path."
    })
})
