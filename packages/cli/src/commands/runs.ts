/**
 * `tinker runs`: the runs that are recorded in directories of this machine.
 *
 * @since 0.1.0
 */
import * as RunControl from "@effect-tinker/cluster/RunControl"
import * as RunLog from "@effect-tinker/cookbook/RunLog"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import { CliFailure } from "../internal/CliFailure.js"
import type { Tone } from "../terminal/Output.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"
import { costOf, figure } from "../training/progress.js"
import * as runControl from "./runControl.js"

/** How far below the directory runs are looked for. */
const depth = 3

/** The directories that hold a journal. */
const find = (root: string, left: number = depth): Effect.Effect<
  ReadonlyArray<string>,
  never,
  FileSystem.FileSystem | Path.Path
> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const names = yield* Effect.orElseSucceed(fs.readDirectory(root), (): Array<string> => [])
    if (names.includes("journal.jsonl")) return [root]
    if (left === 0) return []
    const inside = names.filter((name) => !name.startsWith(".") && name !== "node_modules").sort()
    return (yield* Effect.forEach(inside, (name) => find(path.join(root, name), left - 1))).flat()
  })

/** `stopped`: it has not ended, and nothing was written for some minutes. */
type Status = "interrupted" | "unreadable" | RunControl.State

/** After which a run that says nothing more is taken for killed. */
const silence = 10 * 60_000

/** States that only a durable run knows: nothing is written while it waits. */
const durableOnly: ReadonlyArray<RunControl.State> = ["paused", "waiting", "judging", "cancelled"]

const tones: Readonly<Record<string, Tone>> = {
  paused: "doubtful",
  waiting: "doubtful",
  judging: "doubtful",
  cancelled: "bad",
  complete: "good",
  running: "good",
  interrupted: "doubtful",
  stopped: "doubtful",
  failed: "bad",
  unreadable: "bad"
}

const field = (value: unknown, ...names: ReadonlyArray<string>): unknown =>
  names.reduce((at, name) => Predicate.hasProperty(at, name) ? at[name] : undefined, value)

const summary = Effect.fnUntraced(function*(directory: string) {
  const fs = yield* FileSystem.FileSystem
  const now = yield* Clock.currentTimeMillis
  const read = yield* Effect.either(RunLog.read(directory))
  const info = yield* Effect.option(fs.stat(`${directory}/journal.jsonl`))
  const updated = Option.match(Option.flatMap(info, ({ mtime }) => mtime), {
    onNone: () => undefined,
    onSome: (date) => date.getTime()
  })
  const run = Either.isRight(read) ? Option.getOrUndefined(read.right) : undefined
  const ended = run === undefined ? undefined : Option.getOrUndefined(run.ended)
  const durable = Option.filter(yield* RunControl.status(directory), ({ state }) => durableOnly.includes(state))
  const status: Status = run === undefined
    ? "unreadable"
    : Option.isSome(durable)
    ? durable.value.state
    : ended === undefined
    ? updated !== undefined && now - updated < silence ? "running" : "stopped"
    : ended.complete
    ? "complete"
    : ended.outcome === "failure"
    ? "failed"
    : "interrupted"
  const model = field(run?.config, "model", "baseModel")
  return {
    directory,
    status,
    recipe: run?.trainer ?? "-",
    model: typeof model === "string" ? model : "-",
    steps: run?.steps.at(-1)?.step ?? 0,
    metrics: run?.steps.at(-1)?.metrics ?? {},
    evaluations: Object.fromEntries((run?.evaluations ?? []).map(({ metrics, name }) => [name, metrics])),
    updated,
    run,
    problem: Either.isLeft(read) ? read.left.message : ended?.message
  }
})

type Summary = Effect.Effect.Success<ReturnType<typeof summary>>

const encode = ({ problem, run, updated, ...rest }: Summary) => ({
  ...rest,
  resumes: run?.resumes ?? 0,
  updated: updated === undefined ? null : new Date(updated).toISOString(),
  problem: problem ?? null
})

const loss = ({ metrics }: Summary): string => metrics["loss"] === undefined ? "-" : figure(metrics["loss"])

const evaluated = ({ evaluations }: Summary): string =>
  Object.entries(evaluations).map(([name, metrics]) =>
    `${name} ${Object.entries(metrics).slice(0, 1).map(([metric, value]) => `${metric} ${figure(value)}`).join("")}`
  ).join(", ") || "-"

const list = Effect.fnUntraced(function*({ directory }: { readonly directory: Option.Option<string> }) {
  const output = yield* Output
  const fs = yield* FileSystem.FileSystem
  const root = Option.getOrElse(directory, () => "runs")
  if (Option.isSome(directory) && !(yield* fs.exists(root))) {
    return yield* new CliFailure({ what: `There is no directory ${root}`, advice: "Name the one that holds the runs." })
  }
  const runs = yield* Effect.forEach(yield* find(root), summary, { concurrency: 8 })
  const now = yield* Clock.currentTimeMillis
  yield* output.print({
    title: runs.length === 0
      ? `No runs in ${root}; \`tinker train\` records them there`
      : text.count(runs.length, "run"),
    columns: [
      { header: "Run", keep: true },
      { header: "Status", tone: (status) => tones[status] },
      { header: "Recipe" },
      { header: "Model" },
      { header: "Steps", align: "right" },
      { header: "Loss", align: "right" },
      { header: "Cost", align: "right" },
      { header: "Evaluation" },
      { header: "Updated" }
    ],
    rows: runs.map((run) => [
      run.directory,
      run.status,
      run.recipe,
      run.model,
      String(run.steps),
      loss(run),
      costOf(run.metrics) ?? "-",
      evaluated(run),
      text.ago(run.updated, now)
    ]),
    json: { runs: runs.map(encode), total: runs.length },
    items: runs.map(encode)
  })
})

const show = Effect.fnUntraced(function*({ directory }: { readonly directory: string }) {
  const output = yield* Output
  const found = yield* summary(directory)
  const { run } = found
  if (run === undefined) {
    return yield* new CliFailure({
      what: found.problem ?? `There is no run in ${directory}`,
      advice: "`tinker runs` lists those there are."
    })
  }
  const now = yield* Clock.currentTimeMillis
  yield* output.printRecord({
    json: {
      ...encode(found),
      config: run.config,
      checkpoints: run.checkpoints.map(({ expiresAt, kind, name, samplerPath, statePath, step }) => ({
        name,
        kind,
        step,
        state_path: statePath,
        sampler_path: samplerPath ?? null,
        expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString()
      })),
      losses: run.steps.map(({ metrics, step }) => ({ step, loss: metrics["loss"] ?? null })),
      notes: run.notes.map(({ level, message, step }) => ({ step, level, message }))
    },
    properties: [
      ["Run", directory],
      ["Status", `${found.status}${found.problem === undefined ? "" : `: ${found.problem}`}`],
      ["Recipe", `${found.recipe} of ${found.model}`],
      ["Steps", `${found.steps}${run.resumes === 0 ? "" : `, resumed ${text.count(run.resumes, "time")}`}`],
      ["Cost", costOf(found.metrics) ?? "unknown: train with --price"],
      ["Loss", `${figure(run.steps[0]?.metrics["loss"] ?? NaN)} -> ${loss(found)}`],
      ["Updated", text.ago(found.updated, now)],
      ...Object.entries(found.evaluations).map(([name, metrics]) =>
        [
          `On ${name}`,
          Object.entries(metrics).map(([metric, value]) => `${metric} ${figure(value)}`).join(", ")
        ] as const
      ),
      ...run.checkpoints.map(({ expiresAt, name, samplerPath, statePath, step }) =>
        [
          `Checkpoint ${name}`,
          `${samplerPath ?? statePath} (step ${step}${
            expiresAt === undefined ? "" : `, expires ${text.ago(expiresAt, now)}`
          })`
        ] as const
      )
    ]
  })
  // What was said in every epoch is said once.
  const warnings = new Set(run.notes.filter(({ level }) => level === "warning").map(({ message }) => message))
  yield* Effect.forEach(warnings, output.warn, { discard: true })
})

/** @internal */
export const command = Command.make("runs").pipe(
  Command.withSubcommands([
    Command.make("list", {
      directory: Args.text({ name: "directory" }).pipe(
        Args.withDescription("Directory to search. Default: runs."),
        Args.optional
      )
    }, list).pipe(Command.withDescription("List the runs recorded below a directory, with status, steps and metrics.")),
    Command.make("show", {
      directory: Args.text({ name: "directory" }).pipe(Args.withDescription("The directory of a run."))
    }, show).pipe(
      Command.withDescription("Show a run: its configuration, losses, evaluations and checkpoints.")
    ),
    ...runControl.commands
  ]),
  Command.withDescription("Runs recorded on this machine; without a subcommand, lists them.")
)
