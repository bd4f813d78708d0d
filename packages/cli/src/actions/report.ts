/**
 * @since 0.1.0
 */
import * as Path from "@effect/platform/Path"
import * as Report from "effect-tinker/Report"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { explain } from "../internal/logFile.js"
import { Output } from "../Output.js"

/** @internal */
export const report = Effect.fnUntraced(function*(options: {
  readonly log: string
  readonly output: Option.Option<string>
  readonly title: Option.Option<string>
}) {
  const printer = yield* Output
  const path = yield* Path.Path
  const output = Option.getOrElse(options.output, () => `${options.log}.html`)
  const { steps, torn } = yield* Report.write({
    log: options.log,
    output,
    title: Option.getOrElse(options.title, () => path.basename(options.log))
  }).pipe(Effect.mapError(explain(options.log, "Check the path: it is the log that a run writes with MetricsLog.")))
  if (torn !== undefined) yield* printer.note(torn.message)
  yield* printer.printRecord({
    json: { report: output, steps },
    properties: [["Report", output], ["Steps", `${steps}`]]
  })
})
