/**
 * `tinker runs follow`, `pause`, `resume`, `cancel` and `grade`: durable runs, by the files in their directories.
 *
 * @since 0.1.0
 */
import * as RunControl from "@effect-tinker/cluster/RunControl"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as prompt from "../terminal/prompt.js"
import { Stdio } from "../terminal/Stdio.js"
import * as text from "../terminal/text.js"
import { figure } from "../training/progress.js"

const directory = Args.text({ name: "directory" }).pipe(Args.withDescription("The directory of a run."))

const statusOf = Effect.fnUntraced(function*(directory: string) {
  const status = yield* RunControl.status(directory)
  return yield* Effect.mapError(status, () =>
    new CliFailure({
      what: `There is no durable run in ${directory}`,
      advice: "Train with --durable; `tinker runs` lists the runs there are."
    }))
})

// =============================================================================
// requests
// =============================================================================

const over: ReadonlySet<RunControl.State> = new Set(["complete", "cancelled"])

const request = (action: RunControl.Action, said: string, description: string) =>
  Command.make(
    action,
    { directory },
    Effect.fnUntraced(function*({ directory }) {
      const output = yield* Output
      const { state } = yield* statusOf(directory)
      if (over.has(state)) {
        return yield* new CliFailure({
          what: `The run in ${directory} is ${state}`,
          advice: "It does nothing any more."
        })
      }
      yield* RunControl.request(directory, action)
      yield* output.printRecord({
        json: { run_dir: directory, requested: action, state },
        properties: [["Run", directory], ["Requested", action], ["It was", state]]
      })
      yield* output.note(said)
    })
  ).pipe(Command.withDescription(description))

// =============================================================================
// follow
// =============================================================================

/** States in which no process is at work on a run. */
const still: ReadonlySet<RunControl.State> = new Set(["complete", "cancelled", "failed", "stopped"])

const follow = Command.make(
  "follow",
  { directory },
  Effect.fnUntraced(function*({ directory }) {
    const output = yield* Output
    let last = 0
    let state: RunControl.State | undefined
    for (;;) {
      // Before the journal, so that the last steps of a run that ends are shown.
      const now = yield* statusOf(directory)
      const run = yield* RunLog.read(directory)
      for (const { metrics, step } of Option.match(run, { onNone: () => [], onSome: ({ steps }) => steps })) {
        if (step <= last) continue
        last = step
        const reward = metrics["env/all/reward"]
        if (output.format === "table") {
          yield* output.write(
            `step ${step}: loss ${figure(metrics["loss"] ?? NaN)}` +
              `${reward === undefined ? "" : `, reward ${figure(reward)}`}\n`
          )
        } else yield* output.printItem({ step, metrics })
      }
      if (now.state !== state) {
        state = now.state
        yield* output.note(`${state}${now.message === undefined ? "" : `: ${now.message}`}`)
      }
      if (still.has(now.state)) return
      yield* Effect.sleep("1 second")
    }
  })
).pipe(Command.withDescription("Print the steps of a durable run as they are recorded, until it ends or stops."))

// =============================================================================
// grade
// =============================================================================

const show = Effect.fnUntraced(function*(questions: ReadonlyArray<RunControl.Question>) {
  const output = yield* Output
  yield* output.print({
    title: questions.length === 0 ? "Nothing waits for a grade" : `${text.count(questions.length, "grade")} wanted`,
    columns: [{ header: "Key", keep: true }, { header: "Question" }, { header: "Answer" }],
    rows: questions.map(({ answer, key, question }) => [key, question, answer]),
    json: { questions, total: questions.length },
    items: questions
  })
})

const gradeOf = (value: string) => {
  const grade = Number(value)
  return value.trim() === "" || !Number.isFinite(grade)
    ? usage(`A grade is a number, not ${JSON.stringify(value)}`, "Write 1, 0 or 0.5.")
    : Effect.succeed(grade)
}

/** Asks a person for each grade; an empty line leaves the answer for later. */
const interview = Effect.fnUntraced(function*(directory: string, questions: ReadonlyArray<RunControl.Question>) {
  const output = yield* Output
  for (const { answer, key, question } of questions) {
    yield* output.note(`\n${text.safe(question)}\n\n  ${text.safe(answer)}\n`)
    const given = yield* prompt.line("Grade (empty: later): ", { hidden: false })
    if (Option.isNone(given)) return
    if (given.value.trim() !== "") yield* RunControl.answer(directory, key, yield* gradeOf(given.value))
  }
})

const grade = Command.make(
  "grade",
  {
    directory,
    key: Args.text({ name: "key" }).pipe(
      Args.withDescription("Answer to grade. Default: ask for all of them on a terminal, otherwise list them."),
      Args.optional
    ),
    grade: Args.text({ name: "grade" }).pipe(Args.withDescription("Grade to give."), Args.optional)
  },
  Effect.fnUntraced(function*({ directory, grade, key }) {
    const { stderr } = yield* Stdio
    yield* statusOf(directory)
    if (Option.isSome(key)) {
      if (Option.isNone(grade)) return yield* usage("There is no grade", `Write tinker runs grade DIR ${key.value} 1`)
      yield* RunControl.answer(directory, key.value, yield* gradeOf(grade.value)).pipe(
        Effect.catchTag(
          "NoSuchQuestion",
          (error) =>
            new CliFailure({ what: error.message, advice: `\`tinker runs grade ${directory}\` lists what waits.` })
        )
      )
      return
    }
    const questions = yield* RunControl.questions(directory)
    if (stderr.isTTY && process.stdin.isTTY && questions.length > 0) yield* interview(directory, questions)
    else yield* show(questions)
  })
).pipe(Command.withDescription("List or grade the answers that a durable run is waiting for."))

/** @internal */
export const commands = [
  follow,
  request("pause", "It saves and pauses at its next step.", "Pause a durable run until it is resumed."),
  request("resume", "It goes on as soon as its process sees it.", "Let a paused run go on."),
  request("cancel", "It saves, and does not go on.", "End a durable run for good; what it saved stays."),
  grade
] as const
