/**
 * Warnings of a run: each in the log and in the journal.
 */
import * as Effect from "effect/Effect"
import * as Dataset from "../../Dataset.js"
import type * as RunLog from "../../RunLog.js"

/** @internal */
export interface Options {
  readonly trainer: string
  readonly log: RunLog.RunLog
}

/** Annotates the log lines of a trainer. @internal */
export const annotated = (trainer: string) =>
  Effect.annotateLogs({ package: "@effect-tinker/cookbook", module: trainer })

/** Rows that were left out, counted by reason, with the first of them. @internal */
export const describeSkipped = (skipped: ReadonlyArray<Dataset.Skipped>): string => {
  const counts = Object.entries(Dataset.countSkipped(skipped)).map(([reason, count]) => `${count} ${reason}`)
  const [first] = skipped
  return `skipped ${counts.join(", ")}` +
    (first === undefined ? "" : `; the first is ${first.origin.source}, ${Dataset.describeSkipped(first)}`)
}

/** Warns about a run after so many steps. @internal */
export const warn = ({ log, trainer }: Options, step: number, message: string) =>
  Effect.zipRight(
    annotated(trainer)(Effect.logWarning(message)),
    log.append({ _tag: "Note", step, level: "warning", message })
  )

/** Warns about rows that were left out, if there are any. @internal */
export const warnOfSkipped = (options: Options, step: number, skipped: ReadonlyArray<Dataset.Skipped>) =>
  skipped.length === 0 ? Effect.void : warn(options, step, describeSkipped(skipped))
