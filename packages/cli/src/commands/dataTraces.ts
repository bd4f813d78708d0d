/**
 * `tinker data import`, and what is made of traces: logs of agents become one format, and that becomes training data, with
 * whole sessions held out.
 *
 * @since 0.2.0
 */
import * as Trace from "@effect-tinker/agents/Trace"
import * as TraceData from "@effect-tinker/agents/TraceData"
import * as TraceImport from "@effect-tinker/agents/TraceImport"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import type { PlatformError } from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { CliFailure, usage } from "../internal/CliFailure.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import * as text from "../terminal/text.js"
import * as options from "../training/options.js"
import { writeRows, wrote } from "../training/rows.js"

// =============================================================================
// importing
// =============================================================================

/** Imports, and says what was put aside. @internal */
export const imported = Effect.fnUntraced(function*(settings: TraceImport.Options) {
  const output = yield* Output
  const report = yield* Effect.scoped(Effect.gen(function*() {
    const progress = yield* Progress.make({ label: `Importing ${settings.sources.join(", ")}` })
    return yield* TraceImport.run({ ...settings, onProgress: (records) => progress.update(records) })
  })).pipe(
    Effect.catchTag(
      "ImportFailed",
      (error) =>
        new CliFailure({ what: error.message, advice: "Export it as JSON lines, or in several files.", cause: error })
    )
  )
  for (const { file, reason, row } of report.examples) yield* output.note(`${file}, record ${row}: ${reason}`)
  if (report.rejected > 0) {
    yield* output.warn(`${text.count(report.rejected, "record")} put aside in ${report.rejectedFile}`)
  }
  return report
})

const importTraces = Effect.fnUntraced(function*(flags: {
  readonly files: ReadonlyArray<string>
  readonly out: string
  readonly keepSensitive: boolean
}) {
  const output = yield* Output
  const report = yield* imported({ sources: flags.files, out: flags.out, redact: !flags.keepSensitive })
  yield* output.printRecord({
    json: { out: flags.out, ...report },
    properties: [
      ["Traces", `${report.added.toLocaleString("en-US")} added to ${flags.out}`],
      ["Sources", Object.entries(report.sources).map(([name, count]) => `${name} ${count}`).join(", ") || "-"],
      ["Records", report.records.toLocaleString("en-US")],
      ["There already", report.duplicates.toLocaleString("en-US")],
      ["Redacted", report.redacted.toLocaleString("en-US")],
      ["Put aside", report.rejected.toLocaleString("en-US")]
    ]
  })
})

const importCommand = Command.make("import", {
  out: Options.text("out").pipe(
    Options.withAlias("o"),
    Options.withDescription("The file of traces, as JSON lines. It is added to.")
  ),
  keepSensitive: Options.boolean("keep-sensitive").pipe(
    Options.withDescription("Do not replace addresses of mail, keys, card and account numbers.")
  ),
  files: Args.text({ name: "files" }).pipe(
    Args.withDescription(
      "OpenTelemetry (JSON lines, or protobuf in .pb), Langfuse, Braintrust, LangSmith, OpenAI, chats, or a gateway's directory."
    ),
    Args.atLeast(1)
  )
}, importTraces).pipe(
  Command.withDescription("Import logs of agents into one file of traces; the same command again goes on.")
)

const receive = Effect.fnUntraced(function*(flags: { readonly out: string; readonly port: number }) {
  const output = yield* Output
  // loaded on demand: it listens
  const { serve } = yield* Effect.promise(() => import("@effect-tinker/agents/NodeTraceReceiver"))
  const { url } = yield* serve(flags).pipe(
    Effect.catchTag("ServeError", (cause) =>
      new CliFailure({
        what: `Port ${flags.port} of 127.0.0.1 cannot be opened`,
        advice: "A collector may be using it: choose another with --port, or 0 for any free one.",
        cause
      }))
  )
  yield* output.printRecord({
    json: { url, traces_url: `${url}/v1/traces`, out: flags.out },
    properties: [["URL", url], ["Traces", `${url}/v1/traces`], ["Written to", flags.out]]
  })
  yield* output.note(`export OTEL_EXPORTER_OTLP_ENDPOINT=${url}`)
  yield* output.note(`Ctrl-C stops it; then: tinker data import ${flags.out} --out traces.jsonl`)
  return yield* Effect.never
}, Effect.scoped)

const receiveCommand = Command.make("receive", {
  out: Options.text("out").pipe(
    Options.withAlias("o"),
    Options.withDescription("The file to write spans to, as JSON lines. It is added to.")
  ),
  port: Options.integer("port").pipe(
    Options.withDefault(4318),
    Options.withDescription("Port to listen on, on this machine only; 0 for any free one. Default: 4318.")
  )
}, receive).pipe(
  Command.withDescription("Listen for spans of OpenTelemetry (OTLP over HTTP) and write them to a file.")
)

// =============================================================================
// making data
// =============================================================================

/** Which sessions are held out. @internal */
export const splitting = {
  share: Options.float("share").pipe(
    Options.withDefault(0.2),
    Options.withDescription("Share of the sessions to hold out. Default: 0.2.")
  ),
  seed: options.seed("The same seed holds out the same sessions.")
}

/** Worth of traces. @internal */
export const judging = {
  score: options.optionalText(
    "score",
    "The score that counts, or feedback. Default: the feedback, else reward, else the only one."
  ),
  atLeast: Options.float("at-least").pipe(
    Options.withDefault(1),
    Options.withDescription("What a success is worth at least. Default: 1.")
  )
}

const files = {
  file: Args.text({ name: "traces" }).pipe(Args.withDescription("Traces, as `tinker data import` writes them.")),
  out: Options.text("out").pipe(
    Options.withAlias("o"),
    Options.withDescription("The file for the rows to train on, as JSON lines.")
  ),
  heldOut: options.optionalText("held-out", "A file for the same of the sessions that are held out.")
}

interface Files {
  readonly file: string
  readonly out: string
  readonly heldOut: Option.Option<string>
  readonly share: number
  readonly seed: number
}

type Traces = Dataset.Dataset<Trace.Trace, PlatformError, FileSystem.FileSystem>

/** Rows of both sides of the split, made by the same function. */
const make = <A>(
  toRows: (traces: Traces) => Effect.Effect<
    Dataset.Dataset<A, PlatformError, FileSystem.FileSystem>,
    PlatformError,
    FileSystem.FileSystem
  >,
  toRow: (row: A) => unknown
) =>
  Effect.fnUntraced(function*(flags: Files) {
    if (!(flags.share >= 0 && flags.share < 1)) {
      return yield* usage("--share must be at least 0 and below 1", "For example: --share 0.2")
    }
    const fs = yield* FileSystem.FileSystem
    yield* fs.access(flags.file)
    const [train, held] = TraceData.split(Trace.jsonl(flags.file), flags)
    const write = (name: string, traces: Traces) =>
      Effect.gen(function*() {
        const rows = yield* writeRows(name, Stream.map(Dataset.values(yield* toRows(traces)), toRow))
        return { file: name, rows }
      })
    const made = [
      yield* write(flags.out, train),
      ...Option.isSome(flags.heldOut) ? [yield* write(flags.heldOut.value, held)] : []
    ]
    yield* wrote(made)
    if (made[0]?.rows === 0) {
      return yield* new CliFailure({
        what: `Nothing in ${flags.file} is of use for it`,
        advice: "Look at the scores of its traces: --score names the one that counts."
      })
    }
  })

const successes = Command.make(
  "successes",
  { ...files, ...splitting, ...judging },
  (flags) =>
    make(
      (traces) =>
        Effect.succeed(
          TraceData.successes(traces, { score: Option.getOrUndefined(flags.score), atLeast: flags.atLeast })
        ),
      TraceData.chatRow
    )(flags)
).pipe(Command.withDescription("Write the traces that were worth enough, as chats for `train sft`."))

const best = Command.make(
  "best",
  {
    ...files,
    ...splitting,
    ...judging,
    keep: Options.integer("keep").pipe(
      Options.withDefault(1),
      Options.withDescription("Traces of each prompt. Default: 1.")
    )
  },
  (flags) =>
    make(
      (traces) =>
        TraceData.best(traces, {
          score: Option.getOrUndefined(flags.score),
          atLeast: flags.atLeast,
          keep: flags.keep
        }),
      TraceData.chatRow
    )(flags)
).pipe(Command.withDescription("Write the best of the traces that were asked the same, as chats for `train sft`."))

const pairs = Command.make(
  "pairs",
  {
    ...files,
    ...splitting,
    score: judging.score,
    margin: Options.float("margin").pipe(
      Options.withDefault(0),
      Options.withDescription("By how much the better one must be worth more. Default: anything above 0.")
    )
  },
  (flags) =>
    make(
      (traces) => TraceData.preferences(traces, { score: Option.getOrUndefined(flags.score), margin: flags.margin }),
      TraceData.preferenceRow
    )(flags)
).pipe(
  Command.withDescription("Write pairs of a better and a worse trace that were asked the same, for `train dpo`.")
)

const replay = Command.make(
  "replay",
  { ...files, ...splitting },
  make((traces) => Effect.succeed(traces), TraceData.promptRow)
).pipe(
  Command.withDescription(
    "Write what was really asked, with the answer it got, for `eval run --on FILE --scorer MODULE`."
  )
)

/** @internal */
export const commands = [importCommand, receiveCommand, successes, best, pairs, replay] as const
