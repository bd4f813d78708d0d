/**
 * `tinker run`: training runs.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as RestClient from "effect-tinker/RestClient"
import type { AccessScope } from "effect-tinker/wire/TrainingRun"
import { TrainingRun } from "effect-tinker/wire/TrainingRun"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { usage } from "../internal/CliFailure.js"
import { Connection } from "../internal/connection.js"
import * as live from "../internal/connection.js"
import { limit, offset, scope } from "../internal/options.js"
import * as listing from "../terminal/list.js"
import type { Tone } from "../terminal/Output.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

interface Column {
  readonly header: string
  readonly keep?: boolean
  readonly tone?: (value: string) => Tone | undefined
  readonly value: (run: TrainingRun, now: number) => string
}

const encode = Schema.encodeSync(TrainingRun)

const lora = (run: TrainingRun): string =>
  run.isLora ? run.loraRank === undefined ? "yes" : `rank ${run.loraRank}` : "no"

const columns: Readonly<Record<string, Column>> = {
  id: { header: "Run ID", keep: true, value: (run) => run.trainingRunId },
  model: { header: "Base Model", value: (run) => run.baseModel },
  owner: { header: "Owner", value: (run) => run.modelOwner },
  lora: { header: "LoRA", value: lora },
  updated: { header: "Last Update", value: (run, now) => text.ago(run.lastRequestTime.epochMillis, now) },
  status: {
    header: "Status",
    tone: (status) => status === "ok" ? "good" : "bad",
    value: (run) => run.corrupted ? "failed" : "ok"
  },
  checkpoint: { header: "Last Checkpoint", value: (run) => run.lastCheckpoint?.checkpointId ?? "-" },
  checkpoint_time: {
    header: "Checkpoint Time",
    value: (run, now) => text.ago(run.lastCheckpoint?.time.epochMillis, now)
  }
}

const selected = (names: Option.Option<string>) => {
  const wanted = Option.match(names, {
    onNone: () => ["id", "model", "lora", "updated", "status"],
    onSome: (value) => value.split(",").map((name) => name.trim()).filter((name) => name !== "")
  })
  const found: Array<Column> = []
  const unknown: Array<string> = []
  for (const name of wanted) {
    const column = columns[name]
    if (column === undefined) unknown.push(name)
    else found.push(column)
  }
  return unknown.length > 0 || found.length === 0
    ? Effect.fail(usage(
      `There is no column ${unknown.map((name) => `'${name}'`).join(", ")}`,
      `There is: ${Object.keys(columns).join(", ")}.`
    ))
    : Effect.succeed(found)
}

const list = Effect.fnUntraced(function*(options: {
  readonly limit: number
  readonly offset: number
  readonly columns: Option.Option<string>
  readonly scope: AccessScope
}) {
  const shown = yield* selected(options.columns)
  const { project } = yield* Connection
  const rest = yield* RestClient.RestClient
  const now = yield* Clock.currentTimeMillis
  yield* listing.print({
    noun: "training run",
    key: "runs",
    limit: options.limit,
    offset: options.offset,
    items: (onTotal) =>
      rest.streamTrainingRuns({
        pageSize: listing.pageSize(options.limit, 100),
        offset: options.offset,
        accessScope: options.scope,
        projectId: Option.getOrUndefined(project),
        onTotal
      }),
    columns: shown.map(({ header, keep }) => ({ header, keep })),
    row: (run) => shown.map(({ value }) => value(run, now)),
    encode
  })
}, Effect.provide(live.rest))

const info = Effect.fnUntraced(function*(options: { readonly runId: string; readonly scope: AccessScope }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const run = yield* live.bounded(rest.getTrainingRun(options.runId, { accessScope: options.scope }))
  const now = yield* Clock.currentTimeMillis
  const checkpoint = (name: string, value: TrainingRun["lastCheckpoint"]): ReadonlyArray<readonly [string, string]> =>
    value === undefined
      ? [[name, "none"]]
      : [[name, `${value.tinkerPath} (${text.ago(value.time.epochMillis, now)})`]]
  yield* output.printRecord({
    json: encode(run),
    properties: [
      ["Run ID", run.trainingRunId],
      ["Base Model", run.baseModel],
      ["Owner", run.modelOwner],
      ["LoRA", lora(run)],
      ["Last Update", text.ago(run.lastRequestTime.epochMillis, now)],
      ["Status", run.corrupted ? "failed" : "ok"],
      ...checkpoint("Last Training Checkpoint", run.lastCheckpoint),
      ...checkpoint("Last Sampler Checkpoint", run.lastSamplerCheckpoint),
      ...Object.entries(run.userMetadata ?? {}).map(([key, value]) => [`Metadata ${key}`, value] as const)
    ]
  })
}, Effect.provide(live.rest))

const listCommand = Command.make("list", {
  limit: limit(20),
  offset,
  scope,
  columns: Options.text("columns").pipe(
    Options.withAlias("c"),
    Options.withDescription(
      "Columns to show, comma-separated: id, model, owner, lora, updated, status, checkpoint, checkpoint_time."
    ),
    Options.optional
  )
}, list).pipe(Command.withDescription("List training runs, newest first."))

const infoCommand = Command.make("info", {
  runId: Args.text({ name: "run-id" }).pipe(Args.withDescription("A training run; see `tinker run list`.")),
  scope
}, info).pipe(Command.withDescription("Show one training run."))

/** @internal */
export const command = Command.make("run").pipe(
  Command.withDescription("Training runs."),
  Command.withSubcommands([listCommand, infoCommand])
)
