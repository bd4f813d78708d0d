/**
 * `tinker watch`: a training run followed by its metrics log, as one line that moves, lines of text, or JSON.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import type * as MetricsLog from "effect-tinker/MetricsLog"
import * as Progress from "effect-tinker/Progress"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, explain, usage } from "../internal/CliFailure.js"
import * as MetricsWatch from "../metrics/MetricsWatch.js"
import { Output } from "../terminal/Output.js"
import { drawBar } from "../terminal/Progress.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"

/** Numbers that are kept for the curve: more are averaged by twos. */
const most = 1024
const curveWidth = 16
const barWidth = 16

/**
 * The course of one metric, in bounded memory however long it is.
 *
 * @internal
 */
export interface Curve {
  readonly add: (value: number) => void
  readonly draw: (width: number) => string
  readonly clear: () => void
}

/** @internal */
export const makeCurve = (): Curve => {
  let values: Array<number> = []
  let each = 1
  let sum = 0
  let count = 0
  return {
    add: (value) => {
      if (!Number.isFinite(value)) return
      sum += value
      if (++count < each) return
      values.push(sum / count)
      sum = count = 0
      if (values.length < most) return
      values = Array.from({ length: most / 2 }, (_, i) => ((values[2 * i] ?? 0) + (values[2 * i + 1] ?? 0)) / 2)
      each *= 2
    },
    draw: (width) => Progress.sparkline(count === 0 ? values : [...values, sum / count], width),
    clear: () => {
      values = []
      each = 1
      sum = count = 0
    }
  }
}

/**
 * The metric one looks at first.
 *
 * @internal
 */
export const mainMetric = (metrics: Progress.Metrics): string | undefined => {
  const names = Object.keys(metrics)
  return names.find((name) => /loss/i.test(name)) ?? names.find((name) => /reward/i.test(name)) ?? names[0]
}

interface Style {
  readonly columns: number
  readonly colour: boolean
}

/**
 * Order in which parts of a line give way: metrics but the first, then the curve, then the bar, then the end of the line.
 *
 * @internal
 */
export const renderLine = (
  standing: Progress.Standing,
  drawn: string,
  main: string | undefined,
  style: Style
): string => {
  const paint = (code: number) => (value: string) =>
    style.colour && value !== "" ? `\u001b[${code}m${value}\u001b[0m` : value
  const { step, totalSteps } = standing
  const head = totalSteps === undefined ? `step ${step}` : `${step}/${totalSteps}`
  const others = Object.entries(standing.metrics).filter(([name]) => name !== main)
  const first = Object.entries(standing.metrics).filter(([name]) => name === main)
  const line = (metrics: number, curved: boolean, barred: boolean) => {
    const shown = { ...standing, metrics: Object.fromEntries([...first, ...others.slice(0, metrics)]) }
    const note = text.printable(Progress.note(shown))
    const bar = (full: (value: string) => string, empty: (value: string) => string) =>
      barred && totalSteps !== undefined && totalSteps > 0
        ? [drawBar(step / totalSteps, barWidth, { full, empty })]
        : []
    const parts = (plain: boolean) => {
      const hue = (code: number) => plain ? (value: string) => value : paint(code)
      return [...bar(hue(36), hue(90)), hue(1)(head), ...(curved && drawn !== "" ? [hue(36)(drawn)] : []), note].filter(
        (part) => part !== ""
      ).join("  ")
    }
    return { plain: parts(true), painted: parts(false) }
  }
  for (const [curved, barred] of [[true, true], [false, true], [false, false]] as const) {
    for (let metrics = others.length; metrics >= 0; metrics--) {
      const { painted, plain } = line(metrics, curved, barred)
      if (text.width(plain) < style.columns) return painted
    }
  }
  return text.truncate(line(0, false, false).plain, style.columns - 1)
}

/** A screen is drawn this often at most, and the clock on it this often at least. */
const between = 100
const tick = Duration.millis(200)

/** How someone is shown a run. */
interface View {
  readonly show: (standing: MetricsWatch.Standing) => Effect.Effect<void>
  /** Forgets what was shown. */
  readonly reset: Effect.Effect<void>
  /** Clears the line for a note on stderr. */
  readonly clear: Effect.Effect<void>
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
  clear: Effect.void,
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
    clear: Effect.void,
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
    clear: Effect.void,
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
    clear: Effect.void,
    end: Effect.suspend(() =>
      last === undefined ? Effect.void : output.write(`${text.printable(Progress.describe(last))}\n`)
    )
  }
}

/** One line that moves. */
const live = ({ stdout }: Stdio["Type"], metric: string | undefined): View => {
  const curve = makeCurve()
  let last: MetricsWatch.Standing | undefined
  let drawn = Number.NEGATIVE_INFINITY
  let shown = false
  const draw = Effect.suspend(() => {
    if (last === undefined) return Effect.void
    shown = true
    const main = metric ?? mainMetric(last.metrics)
    return stdout.write(`\r${renderLine(last, curve.draw(curveWidth), main, stdout)}\u001b[K`)
  })
  return {
    show: (standing) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const main = metric ?? mainMetric(standing.metrics)
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
    clear: Effect.suspend(() => shown ? stdout.write("\r\u001b[K") : Effect.void),
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
        advice: "Resume from a checkpoint: `tinker checkpoint list` shows what it saved."
      })
    default:
      return undefined
  }
}

const watch = Effect.fnUntraced(function*(options: {
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
  const say = (note: string) => Effect.zipRight(view.clear, output.note(note))
  let last: MetricsWatch.Standing | undefined
  /** The newest line, before the view has it. */
  let newest: MetricsLog.Line | undefined
  let quiet = true

  const comment = (event: MetricsWatch.Event) =>
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
          return yield* say(`${log} was replaced; reading it from its start`)
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
    Stream.mapEffect((event) => Effect.as(comment(event), event)),
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

/** @internal */
export const command = Command.make("watch", {
  log: Args.text({ name: "log" }).pipe(
    Args.withDescription("A metrics log: one JSON object a line, as MetricsLog writes it. It need not exist yet.")
  ),
  once: Options.boolean("once").pipe(Options.withDescription("Print the current state of the run and exit.")),
  steps: Options.integer("steps").pipe(
    Options.withDescription("Total number of steps, if the log does not record it."),
    Options.optional
  ),
  metric: Options.text("metric").pipe(
    Options.withDescription("Metric to draw. Default: the first loss or reward."),
    Options.optional
  )
}, watch).pipe(
  Command.withDescription("Follow a training run by its metrics log until it ends.")
)
