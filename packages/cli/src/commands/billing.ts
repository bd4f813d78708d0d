/**
 * `tinker billing`: usage and costs, as tables, sums and CSV.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as RestClient from "effect-tinker/RestClient"
import * as Billing from "effect-tinker/wire/Billing"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { usage as wrong } from "../internal/CliFailure.js"
import { Connection } from "../internal/connection.js"
import * as live from "../internal/connection.js"
import { csv } from "../internal/options.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

const cell = (value: unknown): string => {
  if (value === undefined || value === null) return ""
  const plain = typeof value === "string" ? value : typeof value === "object" ? JSON.stringify(value) : String(value)
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll("\"", "\"\"")}"` : plain
}

/** The keys of all rows, in the order they first occur. */
const columnNames = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>): ReadonlyArray<string> => [
  ...new Set(rows.flatMap((row) => Object.keys(row)))
]

const renderCsv = (rows: ReadonlyArray<Readonly<Record<string, unknown>>>): string => {
  const names = columnNames(rows)
  return [names, ...rows.map((row) => names.map((name) => row[name]))]
    .map((row) => `${row.map(cell).join(",")}\r\n`).join("")
}

/** To a file, or to stdout for `-`. */
const writeCsv = Effect.fnUntraced(
  function*(rows: ReadonlyArray<Readonly<Record<string, unknown>>>, path: string) {
    const output = yield* Output
    if (path === "-") return yield* output.write(renderCsv(rows))
    const fs = yield* FileSystem.FileSystem
    yield* fs.writeFileString(path, renderCsv(rows))
    yield* output.note(`Wrote ${text.count(rows.length, "row")} to ${path}`)
  }
)

type Row = Readonly<Record<string, unknown>>

const encodeUsage = Schema.encodeSync(Billing.BillingUsageResponse)
const encodeStorage = Schema.encodeSync(Billing.CurrentCheckpointStorageUsageResponse)

const tokens = new Set(["training", "sampling_prefill", "sampling_sample"])

const isPriced = (type: string): boolean => tokens.has(type) || type === "storage"

const isRow = (value: unknown): value is Row => typeof value === "object" && value !== null && !Array.isArray(value)

/** The fields of the event next to those of its envelope: one flat row. */
const flatten = ({ event_info: info, ...row }: Row): Row => ({ ...row, ...(isRow(info) ? info : {}) })

/** A price that is not known yet differs from one that does not apply. */
const cost = (event: Billing.BillingUsageEvent): string => {
  if (event.estimatedCostUsd !== undefined) return event.estimatedCostUsd.toFixed(4)
  return isPriced(event.eventInfo.type) ? "pending" : "-"
}

const userOf = (event: Billing.BillingUsageEvent): string => event.userName ?? event.userId ?? "-"

const tokenCount = ({ eventInfo: info }: Billing.BillingUsageEvent): number | undefined =>
  "tokenCount" in info && typeof info.tokenCount === "number" ? info.tokenCount : undefined

const quantity = (event: Billing.BillingUsageEvent): string => {
  const info = event.eventInfo
  const count = tokenCount(event)
  if (count !== undefined) {
    const cached = "cached" in info && info.cached === true
    return `${count.toLocaleString("en-US")} ${cached ? "cached tokens" : "tokens"}`
  }
  if ("gigabyteHours" in info && typeof info.gigabyteHours === "number") {
    return `${info.gigabyteHours.toLocaleString("en-US", { maximumSignificantDigits: 3 })} GB-h`
  }
  return "count" in info && typeof info.count === "number" ? `${info.count.toLocaleString("en-US")} saved` : "-"
}

const hour = (name: string, value: string) =>
  Option.match(DateTime.make(/^\d{4}-\d{2}-\d{2}$/.test(value) ? `${value}T00:00:00Z` : value), {
    onNone: () =>
      Effect.fail(wrong(`${name} is not a time: ${value}`, "Write a full UTC hour, e.g. 2026-07-13T00:00:00Z.")),
    onSome: (time) => Effect.succeed(DateTime.toUtc(time))
  })

const usage = Effect.fnUntraced(function*(options: {
  readonly startingOn: string
  readonly endingBefore: string
  readonly csv: Option.Option<string>
  readonly sessionsCsv: Option.Option<string>
}) {
  const startingOn = yield* hour("STARTING_ON", options.startingOn)
  const endingBefore = yield* hour("ENDING_BEFORE", options.endingBefore)
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const response = yield* live.bounded(rest.getBillingUsage({ startingOn, endingBefore }))
  const encoded = encodeUsage(response)
  if (Option.isSome(options.sessionsCsv)) {
    const sessions = Object.entries(encoded.sessions ?? {}).map(([session_id, session]) => ({
      session_id,
      user_metadata: session.user_metadata === undefined || session.user_metadata === null
        ? undefined
        : JSON.stringify(session.user_metadata)
    }))
    yield* writeCsv(sessions, options.sessionsCsv.value)
  }
  const rows = encoded.data.map((row) => flatten(row))
  if (Option.isSome(options.csv)) yield* writeCsv(rows, options.csv.value)
  if (Option.isSome(options.csv) || Option.isSome(options.sessionsCsv)) return
  const ofSeveral = new Set(response.data.map(userOf)).size > 1
  yield* output.print({
    title: rows.length === 0 ? "No usage in this window" : text.count(rows.length, "hourly usage row"),
    columns: [
      { header: "UTC Hour", keep: true },
      { header: "Type" },
      { header: "Model" },
      ...(ofSeveral ? [{ header: "User" }] : []),
      { header: "Session", keep: true },
      { header: "Used", align: "right" },
      { header: "USD", align: "right" }
    ],
    rows: response.data.map((event) => [
      DateTime.formatIso(event.bucketStart).slice(5, 16).replace("T", " "),
      event.eventInfo.type,
      event.baseModel ?? "-",
      ...(ofSeveral ? [userOf(event)] : []),
      event.sessionId ?? "-",
      quantity(event),
      cost(event)
    ]),
    json: {
      data: encoded.data,
      sessions: encoded.sessions ?? {},
      cost_data_through: encoded.cost_data_through ?? null,
      total: rows.length
    },
    items: encoded.data
  })
}, Effect.provide(live.rest))

const checkpointStorage = Effect.fnUntraced(function*(options: { readonly csv: Option.Option<string> }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const { project } = yield* Connection
  const response = yield* live.bounded(rest.getCheckpointStorageUsage({ projectId: Option.getOrUndefined(project) }))
  const encoded = encodeStorage(response)
  const rate = encoded.effective_rate_usd_per_gigabyte_month ?? null
  const rows = encoded.data.map((row): Row => ({ effective_rate_usd_per_gigabyte_month: rate, ...row }))
  if (Option.isSome(options.csv)) return yield* writeCsv(rows, options.csv.value)
  yield* output.print({
    title: rows.length === 0 ? "No checkpoints are stored" : "What is stored now, an hour or two late",
    columns: [
      { header: "Project" },
      { header: "User" },
      { header: "Checkpoints", align: "right" },
      { header: "Size", align: "right" },
      { header: "USD/Month", align: "right" }
    ],
    rows: response.data.map((row) => [
      row.projectId ?? "-",
      row.userEmail ?? row.userName ?? row.orgUserUrn ?? "-",
      String(row.checkpointCount),
      text.size(row.sizeBytes),
      row.estimatedMonthlyCostUsd === undefined ? "-" : row.estimatedMonthlyCostUsd.toFixed(2)
    ]),
    json: { effective_rate_usd_per_gigabyte_month: rate, data: encoded.data, total: rows.length },
    items: encoded.data
  })
}, Effect.provide(live.rest))

type By = "run" | "session" | "model" | "project" | "user" | "day" | "type"

const groupOf = (by: By, event: Billing.BillingUsageEvent): string => {
  switch (by) {
    case "run":
    case "session":
      return event.sessionId ?? "-"
    case "model":
      return event.baseModel ?? "-"
    case "project":
      return event.projectId ?? "-"
    case "user":
      return userOf(event)
    case "day":
      return DateTime.formatIsoDateUtc(event.bucketStart)
    case "type":
      return event.eventInfo.type
  }
}

interface Sum {
  cost: number
  unpriced: number
  trained: number
  sampled: number
}

const summary = Effect.fnUntraced(function*(options: { readonly days: number; readonly by: By }) {
  if (options.days < 1 || options.days > 14) {
    return yield* wrong("--days must be between 1 and 14", "The service gives 14 days at most.")
  }
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const now = yield* Clock.currentTimeMillis
  const hourly = Duration.toMillis("1 hour")
  // The hour that is running counts too.
  const end = (Math.floor(now / hourly) + 1) * hourly
  const { data } = yield* live.bounded(rest.getBillingUsage({
    startingOn: DateTime.unsafeMake(end - options.days * 24 * hourly),
    endingBefore: DateTime.unsafeMake(end)
  }))
  const groups = new Map<string, Sum>()
  for (const event of data) {
    const key = groupOf(options.by, event)
    const sum = groups.get(key) ?? { cost: 0, unpriced: 0, trained: 0, sampled: 0 }
    groups.set(key, sum)
    const type = event.eventInfo.type
    if (event.estimatedCostUsd !== undefined) sum.cost += event.estimatedCostUsd
    else if (isPriced(type)) sum.unpriced++
    if (type === "training") sum.trained += tokenCount(event) ?? 0
    else if (tokens.has(type)) sum.sampled += tokenCount(event) ?? 0
  }
  const sorted = [...groups].sort(([, a], [, b]) => b.cost - a.cost || b.trained + b.sampled - a.trained - a.sampled)
  const runs = new Map(
    yield* Effect.forEach(
      options.by === "run" ? sorted.filter(([key]) => key !== "-") : [],
      ([key]) =>
        rest.getSession(key, { accessScope: "accessible" }).pipe(
          Effect.map(({ trainingRunIds }) => trainingRunIds),
          Effect.orElseSucceed((): ReadonlyArray<string> => []),
          Effect.map((ids) => [key, ids] as const)
        ),
      { concurrency: 8 }
    )
  )
  /** The service counts by session. Where a session has one run, that is by run; elsewhere we do not pretend. */
  const naming = (key: string): { readonly label: string; readonly fields: Row } => {
    if (options.by !== "run") return { label: key, fields: { [options.by]: key } }
    const ids = runs.get(key) ?? []
    const [run] = ids
    if (run !== undefined && ids.length === 1) return { label: run, fields: { run, session_id: key, runs: ids } }
    const label = key === "-"
      ? "no session"
      : `session ${key}${ids.length === 0 ? "" : `, ${ids.length} runs together`}`
    return { label, fields: { run: null, session_id: key === "-" ? null : key, runs: ids } }
  }
  const shared = Array.from(runs.values()).filter((ids) => ids.length > 1).length
  if (shared > 0) {
    yield* output.note(
      `The service counts usage by session, not by run: ${
        text.count(shared, "session")
      } with several runs shown as a whole`
    )
  }
  const items = sorted.map(([key, sum]) => ({
    ...naming(key).fields,
    training_tokens: sum.trained,
    sampling_tokens: sum.sampled,
    estimated_cost_usd: Number(sum.cost.toFixed(6)),
    unpriced_rows: sum.unpriced
  }))
  const total = sorted.reduce((all, [, { cost }]) => all + cost, 0)
  const unpriced = sorted.reduce((all, [, sum]) => all + sum.unpriced, 0)
  yield* output.print({
    title: sorted.length === 0 ?
      `No usage in the last ${text.count(options.days, "day")}` :
      `${text.count(options.days, "day")} by ${options.by}: ${total.toFixed(2)} USD before credits${
        unpriced > 0 ? `, ${text.count(unpriced, "row")} not priced yet` : ""
      }`,
    columns: [
      { header: options.by, keep: true },
      { header: "Trained Tokens", align: "right" },
      { header: "Sampled Tokens", align: "right" },
      { header: "USD", align: "right" }
    ],
    rows: sorted.map(([key, sum]) => [
      naming(key).label,
      sum.trained.toLocaleString("en-US"),
      sum.sampled.toLocaleString("en-US"),
      `${sum.cost.toFixed(2)}${sum.unpriced > 0 ? "+" : ""}`
    ]),
    json: { groups: items, total: items.length, estimated_cost_usd: Number(total.toFixed(6)), unpriced_rows: unpriced },
    items
  })
}, Effect.provide(live.rest))

const usageCommand = Command.make("usage", {
  startingOn: Args.text({ name: "starting-on" }).pipe(
    Args.withDescription("First hour to show, in UTC, such as 2026-07-13T00:00:00Z.")
  ),
  endingBefore: Args.text({ name: "ending-before" }).pipe(
    Args.withDescription("Hour after the last one to show, in UTC, at most 14 days after the first.")
  ),
  csv: csv("csv", "the rows"),
  sessionsCsv: csv("sessions-csv", "the sessions and their metadata")
}, usage).pipe(Command.withDescription("Show usage by the hour, with estimated costs."))

const checkpointStorageCommand = Command.make("checkpoint-storage", {
  csv: csv("csv", "the rows")
}, checkpointStorage).pipe(
  Command.withDescription("Show the size and cost of stored checkpoints (--project for one project).")
)

const summaryCommand = Command.make("summary", {
  days: Options.integer("days").pipe(
    Options.withDefault(7),
    Options.withDescription("Number of days to look back, 1 to 14. Default: 7.")
  ),
  by: Options.choice("by", ["run", "session", "model", "project", "user", "day", "type"]).pipe(
    Options.withDefault("run" as const),
    Options.withDescription("Grouping of the totals. Default: run; several runs of one session share a line.")
  )
}, summary).pipe(
  Command.withDescription("Show totals of tokens and estimated costs, by run or another grouping.")
)

/** @internal */
export const command = Command.make("billing").pipe(
  Command.withDescription("Usage and costs."),
  Command.withSubcommands([usageCommand, checkpointStorageCommand, summaryCommand])
)
