/**
 * `tinker checkpoint`: list, show, publish, expire, delete and copy; downloading and pushing have modules of their own.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as Checkpoint from "effect-tinker/Checkpoint"
import * as RestClient from "effect-tinker/RestClient"
import * as TinkerConfig from "effect-tinker/TinkerConfig"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CliFailure, report, usage } from "../internal/CliFailure.js"
import { Connection } from "../internal/connection.js"
import * as live from "../internal/connection.js"
import { duration, offset, secretPlace, tinkerPath, yes } from "../internal/options.js"
import * as listing from "../terminal/list.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import * as prompt from "../terminal/prompt.js"
import * as text from "../terminal/text.js"
import * as download from "./download.js"
import * as pushHf from "./pushHf.js"

const encode = Schema.encodeSync(Checkpoint.Checkpoint)

const expiry = (checkpoint: Checkpoint.Checkpoint, now: number): string =>
  checkpoint.expiresAt === undefined ? "never" : text.ago(checkpoint.expiresAt.epochMillis, now)

const list = Effect.fnUntraced(function*(options: {
  readonly runId: Option.Option<string>
  readonly limit: Option.Option<number>
  readonly offset: number
}) {
  const rest = yield* RestClient.RestClient
  const now = yield* Clock.currentTimeMillis
  const { runId } = options
  // The checkpoints of one run come in one page; all runs together may have thousands.
  const limit = Option.getOrElse(options.limit, () => Option.isSome(runId) ? 0 : 20)
  yield* listing.print({
    noun: "checkpoint",
    key: "checkpoints",
    about: Option.match(runId, { onNone: () => ({}), onSome: (run_id) => ({ run_id }) }),
    limit,
    offset: options.offset,
    items: (onTotal) =>
      Option.isSome(runId)
        ? Stream.unwrap(Effect.map(rest.listCheckpoints(runId.value), ({ checkpoints }) =>
          Stream.zipRight(Stream.fromEffect(onTotal(checkpoints.length)), Stream.void).pipe(
            Stream.drain,
            Stream.concat(Stream.fromIterable(checkpoints.slice(options.offset)))
          )))
        : rest.streamUserCheckpoints({ pageSize: listing.pageSize(limit, 1000), offset: options.offset, onTotal }),
    columns: [
      { header: "Path", keep: true },
      { header: "Type" },
      { header: "Size", align: "right" },
      { header: "Public" },
      { header: "Created" },
      { header: "Expires" }
    ],
    row: (checkpoint) => [
      checkpoint.tinkerPath,
      checkpoint.checkpointType,
      text.size(checkpoint.sizeBytes),
      text.yesNo(checkpoint.public),
      text.ago(checkpoint.time.epochMillis, now),
      expiry(checkpoint, now)
    ],
    encode
  })
}, Effect.provide(live.rest))

const info = Effect.fnUntraced(function*({ path }: { readonly path: string }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const now = yield* Clock.currentTimeMillis
  // A public checkpoint of someone else is not listed, but its base model can be looked up.
  const record = yield* live.bounded(rest.getCheckpoint(path)).pipe(
    Effect.asSome,
    Effect.catchTags({ NotFound: () => Effect.succeedNone, PermissionDenied: () => Effect.succeedNone })
  )
  const weights = yield* live.bounded(rest.getWeightsInfo(path))
  const lora = weights.isLora ? weights.loraRank === undefined ? "yes" : `rank ${weights.loraRank}` : "no"
  yield* output.printRecord({
    json: {
      ...(Option.isSome(record) ? encode(record.value) : { tinker_path: path }),
      base_model: weights.baseModel,
      is_lora: weights.isLora,
      lora_rank: weights.loraRank ?? null
    },
    properties: [
      ["Path", path],
      ...Option.match(record, {
        onNone: () => [["Owner", "someone else"]] as const,
        onSome: (checkpoint) =>
          [
            ["Type", checkpoint.checkpointType],
            ["Size", text.size(checkpoint.sizeBytes)],
            ["Public", text.yesNo(checkpoint.public)],
            ["Created", text.ago(checkpoint.time.epochMillis, now)],
            ["Expires", expiry(checkpoint, now)],
            ...Object.entries(checkpoint.userMetadata ?? {}).map(([key, value]) => [`Metadata ${key}`, value] as const)
          ] as const
      }),
      ["Base Model", weights.baseModel],
      ["LoRA", lora]
    ]
  })
}, Effect.provide(live.rest))

const changed = Effect.fnUntraced(function*(path: string, sentence: string, fields: Readonly<Record<string, unknown>>) {
  const output = yield* Output
  if (output.format === "table") return yield* output.note(sentence)
  yield* output.print({ columns: [], rows: [], json: { tinker_path: path, ...fields } })
})

const publish = Effect.fnUntraced(function*({ path }: { readonly path: string }) {
  const rest = yield* RestClient.RestClient
  yield* live.bounded(rest.publishCheckpoint(path)).pipe(
    Effect.catchTag(
      "Conflict",
      (cause) => new CliFailure({ what: `${path} is public already`, advice: "Nothing has to be done.", cause })
    )
  )
  yield* changed(path, `${path} is public now`, { public: true })
}, Effect.provide(live.rest))

const unpublish = Effect.fnUntraced(function*({ path }: { readonly path: string }) {
  const rest = yield* RestClient.RestClient
  yield* live.bounded(rest.unpublishCheckpoint(path)).pipe(
    Effect.catchTag(
      "Conflict",
      (cause) => new CliFailure({ what: `${path} is private already`, advice: "Nothing has to be done.", cause })
    )
  )
  yield* changed(path, `${path} is private now`, { public: false })
}, Effect.provide(live.rest))

const setTtl = Effect.fnUntraced(function*(options: {
  readonly path: string
  readonly ttl: Option.Option<Duration.Duration>
  readonly remove: boolean
}) {
  if (Option.isSome(options.ttl) === options.remove) {
    return yield* usage("Give either --ttl or --remove", "For example --ttl 7d, or --remove to keep it.")
  }
  const rest = yield* RestClient.RestClient
  const ttl = Option.getOrNull(options.ttl)
  yield* live.bounded(rest.setCheckpointTtl(options.path, ttl))
  const seconds = ttl === null ? null : Math.round(Duration.toSeconds(ttl))
  yield* changed(
    options.path,
    seconds === null ? `${options.path} never expires` : `${options.path} expires in ${text.duration(seconds * 1000)}`,
    { ttl_seconds: seconds }
  )
}, Effect.provide(live.rest))

const copy = Effect.fnUntraced(function*(options: {
  readonly path: string
  readonly ttl: Option.Option<Duration.Duration>
  readonly accessToken: Option.Option<string>
}) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const { project } = yield* Connection
  const token = Option.isSome(options.accessToken)
    ? yield* live.readSecret("--access-token", options.accessToken.value)
    : undefined
  const { projectId } = yield* TinkerConfig.TinkerConfig
  if (Option.isNone(project) && Option.isNone(projectId)) {
    return yield* usage("Give the project of the copy: --project", "Or set TINKER_PROJECT_ID.")
  }
  const copied = yield* live.bounded(rest.copyWeights(options.path, {
    projectId: Option.getOrUndefined(project),
    ttl: Option.getOrUndefined(options.ttl),
    weightsAccessToken: token === undefined ? undefined : Redacted.make(token)
  }))
  yield* output.printRecord({
    json: { source_path: options.path, tinker_path: copied },
    properties: [["Source", options.path], ["Copy", copied]]
  })
}, Effect.provide(live.rest))

const instant = (name: string, value: Option.Option<string>) =>
  Option.match(value, {
    onNone: () => Effect.succeed(undefined),
    onSome: (given) => {
      // Without a zone, UTC is meant.
      const zoned = /(?:Z|[+-]\d{2}:?\d{2})$/i.test(given) || !given.includes("T") ? given : `${given}Z`
      return Option.match(DateTime.make(zoned), {
        onNone: () =>
          Effect.fail(usage(`--${name} ${given} is not a date`, "Write 2026-01-31 or 2026-01-31T08:00:00Z.")),
        onSome: (time) => Effect.succeed(time.epochMillis)
      })
    }
  })

const kinds: Readonly<Record<string, string>> = {
  weights: "training",
  training: "training",
  sampler_weights: "sampler",
  sampler: "sampler",
  external_weights: "external",
  external: "external"
}

interface Target {
  readonly path: string
  readonly size?: number | undefined
  readonly time?: number | undefined
}

const remove = Effect.fnUntraced(function*(options: {
  readonly paths: ReadonlyArray<string>
  readonly runId: Option.Option<string>
  readonly type: Option.Option<string>
  readonly before: Option.Option<string>
  readonly after: Option.Option<string>
  readonly yes: boolean
}) {
  const output = yield* Output
  const filtered = Option.isSome(options.type) || Option.isSome(options.before) || Option.isSome(options.after)
  if ((options.paths.length > 0) === Option.isSome(options.runId)) {
    return yield* usage(
      "Give either paths or --run-id",
      "For example tinker checkpoint delete tinker://RUN/weights/0001"
    )
  }
  if (filtered && Option.isNone(options.runId)) {
    return yield* usage("--type, --before and --after need --run-id", "They choose among the checkpoints of a run.")
  }
  for (const path of options.paths) yield* Checkpoint.parsePath(path)
  const before = yield* instant("before", options.before)
  const after = yield* instant("after", options.after)
  const rest = yield* RestClient.RestClient
  const now = yield* Clock.currentTimeMillis
  const kind = Option.map(options.type, (type) => kinds[type])
  const targets: ReadonlyArray<Target> = Option.isNone(options.runId)
    ? [...new Set(options.paths)].map((path) => ({ path }))
    : (yield* live.bounded(rest.listCheckpoints(options.runId.value))).checkpoints
      .filter((checkpoint) =>
        (Option.isNone(kind) || checkpoint.checkpointType === kind.value) &&
        (before === undefined || checkpoint.time.epochMillis < before) &&
        (after === undefined || checkpoint.time.epochMillis > after)
      )
      .map(({ sizeBytes, time, tinkerPath }) => ({ path: tinkerPath, size: sizeBytes, time: time.epochMillis }))
  const result = (deleted: number, failed: ReadonlyArray<{ readonly tinker_path: string; readonly error: string }>) =>
    output.format === "table"
      ? output.note(`Deleted ${text.count(deleted, "checkpoint")}`)
      : output.print({ columns: [], rows: [], json: { deleted_count: deleted, failed } })
  if (targets.length === 0) {
    yield* output.note("No checkpoint matches")
    return yield* result(0, [])
  }
  if (!options.yes) {
    const total = targets.reduce((sum, { size }) => sum + (size ?? 0), 0)
    yield* output.note(
      `This deletes ${text.count(targets.length, "checkpoint")}${total > 0 ? ` (${text.size(total)})` : ""} for good:`
    )
    for (const { path, size, time } of targets.slice(0, 20)) {
      yield* output.note(
        `  ${path}${size === undefined ? "" : `  ${text.size(size)}`}${
          time === undefined ? "" : `  ${text.ago(time, now)}`
        }`
      )
    }
    if (targets.length > 20) yield* output.note(`  and ${text.count(targets.length - 20, "other")}`)
    if (!(yield* prompt.confirm("Delete?"))) return yield* output.note("Nothing was deleted")
  }
  const failed: Array<{ readonly tinker_path: string; readonly error: string }> = []
  yield* Effect.scoped(Effect.gen(function*() {
    const progress = yield* Progress.make({ label: "Deleting checkpoints" })
    let done = 0
    yield* Effect.forEach(targets, ({ path }) =>
      Effect.either(rest.deleteCheckpoint(path)).pipe(
        Effect.tap((outcome) => {
          if (Either.isLeft(outcome)) failed.push({ tinker_path: path, error: report(outcome.left).what })
          return progress.update(++done, targets.length)
        })
      ), { concurrency: 16, discard: true })
  }))
  yield* result(targets.length - failed.length, failed)
  if (failed.length === 0) return
  for (const { error, tinker_path } of failed.slice(0, 10)) yield* output.warn(`${tinker_path}: ${error}`)
  return yield* new CliFailure({
    what: `${text.count(failed.length, "checkpoint")} of ${targets.length} could not be deleted`,
    advice: "Run the command again for those listed above."
  })
}, Effect.provide(live.rest))
const path = { path: tinkerPath }

const runId = Options.text("run-id").pipe(
  Options.withDescription("Show only checkpoints of this training run."),
  Options.optional
)

const listCommand = Command.make("list", {
  runId,
  limit: Options.integer("limit").pipe(
    Options.withDescription("Maximum number to show; 0 for all. Default: 20, or all with --run-id."),
    Options.optional
  ),
  offset
}, list).pipe(Command.withDescription("List checkpoints, newest first."))

const infoCommand = Command.make("info", path, info).pipe(
  Command.withDescription("Show one checkpoint.")
)

const publishCommand = Command.make("publish", path, publish).pipe(
  Command.withDescription("Make a checkpoint public.")
)

const unpublishCommand = Command.make("unpublish", path, unpublish).pipe(
  Command.withDescription("Make a public checkpoint private again.")
)

const setTtlCommand = Command.make("set-ttl", {
  ...path,
  ttl: duration("ttl", "Expire this long from now: seconds, or 12h, 7d."),
  remove: Options.boolean("remove").pipe(Options.withDescription("Never expire."))
}, setTtl).pipe(Command.withDescription("Change when a checkpoint expires."))

const removeCommand = Command.make("delete", {
  paths: Args.repeated(tinkerPath),
  runId: Options.text("run-id").pipe(
    Options.withDescription("Delete all checkpoints of this training run."),
    Options.optional
  ),
  type: Options.choice("type", ["weights", "sampler_weights", "external_weights", "training", "sampler", "external"])
    .pipe(
      Options.withDescription("With --run-id: delete only checkpoints of this type."),
      Options.optional
    ),
  before: Options.text("before").pipe(
    Options.withDescription("With --run-id: delete only checkpoints created before this date (ISO 8601, UTC)."),
    Options.optional
  ),
  after: Options.text("after").pipe(
    Options.withDescription("With --run-id: delete only checkpoints created after this date (ISO 8601, UTC)."),
    Options.optional
  ),
  yes
}, remove).pipe(Command.withDescription("Delete checkpoints permanently."))

const copyCommand = Command.make("copy", {
  ...path,
  ttl: duration("ttl", "Let the copy expire after this long, e.g. 7d."),
  accessToken: secretPlace("access-token").pipe(
    Options.withDescription("API key with access to the source, when yours has none: @FILE, - or prompt."),
    Options.optional
  )
}, copy).pipe(
  Command.withDescription("Copy a checkpoint into a project (--project) without duplicating its data.")
)

/** @internal */
export const command = Command.make("checkpoint").pipe(
  Command.withDescription("Checkpoints."),
  Command.withSubcommands([
    listCommand,
    infoCommand,
    publishCommand,
    unpublishCommand,
    setTtlCommand,
    removeCommand,
    copyCommand,
    download.command,
    pushHf.command
  ])
)
