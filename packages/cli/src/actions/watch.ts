/**
 * @since 0.1.0
 */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as MetricsLog from "effect-tinker/MetricsLog"
import * as MetricsWatch from "effect-tinker/MetricsWatch"
import * as Progress from "effect-tinker/Progress"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../CliFailure.js"
import { explain } from "../internal/logFile.js"
import * as text from "../internal/text.js"
import * as line from "../internal/watchLine.js"
import { Output } from "../Output.js"
import { Stdio } from "../Stdio.js"

/** A screen is drawn this often at most, and the clock on it this often at least. */
const between = 100
const tick = Duration.millis(200)

/** How someone is shown a run. */
interface View {
  readonly show: (standing: MetricsWatch.Standing) => Effect.Effect<void>
  /** What was seen before no longer counts. */
  readonly reset: Effect.Effect<void>
  /** Makes room for a line on stderr. */
  readonly aside: Effect.Effect<void>
  readonly end: Effect.Effect<void>
}

const seconds = (duration: Duration.Duration | undefined) =>
  duration === undefined ? null : Math.round(Duration.toMillis(duration)) / 1000

const encode = (standing: MetricsWatch.Standing) => ({
  step: standing.step,
  total_steps: standing.totalSteps ?? null,
  time: Number.isFinite(standing.time) && Math.abs(standing.time) <= 8.64e15
    ? new Date(standing.time).toISOString()
    : null,
  metrics: standing.metrics,
  tokens_per_second: standing.tokensPerSecond ?? null,
  step_seconds: seconds(standing.stepTime),
  elapsed_seconds: seconds(standing.elapsed),
  eta_seconds: seconds(standing.eta),
  waiting: standing.reason ?? null,
  ended: standing.ended ?? null
})

const nothing: MetricsWatch.Standing = {
  step: 0,
  totalSteps: undefined,
  metrics: {},
  tokensPerSecond: undefined,
  stepTime: undefined,
  elapsed: Duration.zero,
  sinceStep: undefined,
  eta: undefined,
  reason: undefined,
  time: NaN,
  ended: undefined
}

/** One JSON value for every line of the log. */
const items = (output: Output["Type"]): View => ({
  show: (standing) => output.printItem(encode(standing)),
  reset: Effect.void,
  aside: Effect.void,
  end: Effect.void
})

/** One JSON value: where the run stood in the end. */
const value = (output: Output["Type"]): View => {
  let last = nothing
  return {
    show: (standing) =>
      Effect.sync(() => {
        last = standing
      }),
    reset: Effect.sync(() => {
      last = nothing
    }),
    aside: Effect.void,
    end: Effect.suspend(() => output.print({ columns: [], rows: [], json: encode(last) }))
  }
}

/** A line of text for every step and every reason to wait. */
const lines = (output: Output["Type"]): View => {
  let last = ""
  return {
    show: (standing) => {
      const next = text.printable(Progress.describe(standing))
      if (next === last || standing.ended !== undefined) return Effect.void
      last = next
      return output.write(`${next}\n`)
    },
    reset: Effect.void,
    aside: Effect.void,
    end: Effect.void
  }
}

/** The last line alone. */
const lastLine = (output: Output["Type"]): View => {
  let last: MetricsWatch.Standing | undefined
  return {
    show: (standing) =>
      Effect.sync(() => {
        last = standing
      }),
    reset: Effect.sync(() => {
      last = undefined
    }),
    aside: Effect.void,
    end: Effect.suspend(() =>
      last === undefined ? Effect.void : output.write(`${text.printable(Progress.describe(last))}\n`)
    )
  }
}

/** One line that moves. */
const live = ({ stdout }: Stdio["Type"], metric: string | undefined): View => {
  const curve = line.curve()
  let last: MetricsWatch.Standing | undefined
  let drawn = Number.NEGATIVE_INFINITY
  let shown = false
  const draw = Effect.suspend(() => {
    if (last === undefined) return Effect.void
    shown = true
    const main = metric ?? line.mainMetric(last.metrics)
    return stdout.write(`\r${line.render(last, curve.draw(line.widthOfCurve), main, stdout)}\u001b[K`)
  })
  return {
    show: (standing) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const main = metric ?? line.mainMetric(standing.metrics)
        if (main !== undefined && standing.step !== last?.step) curve.add(standing.metrics[main] ?? NaN)
        last = standing
        if (now - drawn < between) return Effect.void
        drawn = now
        return draw
      }),
    reset: Effect.sync(() => {
      curve.clear()
      last = undefined
    }),
    aside: Effect.suspend(() => shown ? stdout.write("\r\u001b[K") : Effect.void),
    end: Effect.suspend(() => last === undefined ? Effect.void : Effect.zipRight(draw, stdout.write("\n")))
  }
}

const ending = (last: MetricsWatch.Standing) => {
  const steps = text.count(last.step, "step")
  switch (last.ended) {
    case "failure":
      return new CliFailure({
        what: `The run failed after ${steps}`,
        advice: "What its program printed says why; `tinker checkpoint list` shows what it saved."
      })
    case "interrupted":
      return new CliFailure({
        what: `The run was interrupted after ${steps}`,
        advice: "`tinker checkpoint list` shows what it saved, to go on from."
      })
    default:
      return undefined
  }
}

/** @internal */
export const watch = Effect.fnUntraced(function*(options: {
  readonly log: string
  readonly once: boolean
  readonly steps: Option.Option<number>
  readonly metric: Option.Option<string>
}) {
  const { log, once } = options
  if (Option.exists(options.steps, (steps) => steps < 1)) {
    return yield* usage("--steps must be 1 or more", "See `tinker watch --help`.")
  }
  const output = yield* Output
  const stdio = yield* Stdio
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const moves = output.format === "table" && stdio.stdout.isTTY && !once
  const view = output.format === "json"
    ? value(output)
    : output.format === "ndjson"
    ? items(output)
    : once
    ? lastLine(output)
    : moves
    ? live(stdio, Option.getOrUndefined(options.metric))
    : lines(output)
  const say = (note: string) => Effect.zipRight(view.aside, output.note(note))
  let last: MetricsWatch.Standing | undefined
  /** The newest line, before the view has it. */
  let newest: MetricsLog.Line | undefined
  let quiet = true

  const aside = (event: MetricsWatch.Event) =>
    Effect.gen(function*() {
      switch (event._tag) {
        case "Step":
        case "Waiting":
        case "Ended":
          newest = event
          return
        case "Missing": {
          const directory = path.dirname(log)
          if (!(yield* fs.exists(directory))) {
            return yield* new CliFailure({
              what: `There is no directory ${directory}`,
              advice: "Check the path. The log itself need not be there yet, its directory must."
            })
          }
          return yield* say(`There is no ${log} yet; waiting for it, Ctrl-C ends it`)
        }
        case "Restarted":
          newest = undefined
          quiet = true
          yield* view.reset
          return yield* say(`${log} was written anew`)
        case "CaughtUp": {
          if (once) return event.torn === undefined ? undefined : yield* say(event.torn.message)
          if (!quiet) return
          quiet = false
          const now = yield* Clock.currentTimeMillis
          if (newest === undefined) return yield* say(`${log} has no steps yet; waiting for them, Ctrl-C ends it`)
          const time = newest._tag === "Step" ? newest.entry.time : newest.time
          if (newest._tag !== "Ended" && time !== undefined && now - time > 60_000) {
            yield* say(`The last line was written ${text.ago(time, now)}; waiting for more, Ctrl-C ends it`)
          }
        }
      }
    })

  yield* MetricsWatch.events(log, { once }).pipe(
    Stream.mapEffect((event) => Effect.as(aside(event), event)),
    MetricsWatch.standings({
      totalSteps: Option.getOrUndefined(options.steps),
      every: moves ? tick : undefined
    }),
    Stream.runForEach((standing) => {
      last = standing
      return view.show(standing)
    }),
    Effect.ensuring(view.end),
    Effect.mapError((error) =>
      error._tag === "CliFailure"
        ? error
        : explain(log, "Check the path; without --once the command waits for it.")(error)
    )
  )
  if (last === undefined) return yield* output.note(`${log} has no steps yet`)
  if (last.ended === "success") {
    const took = Duration.toMillis(last.elapsed)
    yield* output.note(
      `The run has ended after ${text.count(last.step, "step")}${took > 0 ? ` and ${text.duration(took)}` : ""}`
    )
  }
  const failure = once ? undefined : ending(last)
  if (failure !== undefined) return yield* failure
})
