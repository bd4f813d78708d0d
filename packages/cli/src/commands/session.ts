/**
 * `tinker session`: sessions, their runs, project and timeline.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Download from "effect-tinker/Download"
import * as RestClient from "effect-tinker/RestClient"
import { GetSessionResponse } from "effect-tinker/wire/Session"
import * as SessionSearch from "effect-tinker/wire/SessionSearch"
import type { AccessScope } from "effect-tinker/wire/TrainingRun"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { usage } from "../internal/CliFailure.js"
import { Connection } from "../internal/connection.js"
import * as live from "../internal/connection.js"
import { limit, offset, scope } from "../internal/options.js"
import * as listing from "../terminal/list.js"
import { Output } from "../terminal/Output.js"
import * as Progress from "../terminal/Progress.js"
import * as text from "../terminal/text.js"

const encodeSummary = Schema.encodeSync(SessionSearch.SessionSummary)
const encodeSession = Schema.encodeSync(GetSessionResponse)

const search = Effect.fnUntraced(function*(words: string, limit: number, scope: AccessScope) {
  const rest = yield* RestClient.RestClient
  const { project } = yield* Connection
  const now = yield* Clock.currentTimeMillis
  yield* listing.print({
    noun: "session",
    key: "sessions",
    limit,
    offset: 0,
    items: () =>
      rest.streamSessionSearch(
        new SessionSearch.SessionSearchRequest({
          displayName: words,
          limit: listing.pageSize(limit, 200),
          owner: scope === "accessible"
            ? new SessionSearch.AccessibleSearchOwner()
            : new SessionSearch.OwnSearchOwner(),
          projectIds: Option.isSome(project) ? [project.value] : undefined
        })
      ),
    columns: [
      { header: "Session ID", keep: true },
      { header: "Name" },
      { header: "Project" },
      { header: "Status" },
      { header: "Checkpoints", align: "right" },
      { header: "Created" }
    ],
    row: (session) => [
      session.sessionId,
      session.displayName ?? "-",
      session.projectId,
      session.status?.type ?? "-",
      String(session.checkpointsCount),
      text.ago(session.createdAt.epochMillis, now)
    ],
    encode: encodeSummary
  })
})

const list = Effect.fnUntraced(function*(options: {
  readonly limit: number
  readonly offset: number
  readonly scope: AccessScope
  readonly search: Option.Option<string>
}) {
  if (Option.isSome(options.search)) {
    if (options.offset > 0) return yield* usage("--search has no --offset", "Raise --limit instead.")
    return yield* search(options.search.value, options.limit, options.scope)
  }
  const rest = yield* RestClient.RestClient
  yield* listing.print({
    noun: "session",
    key: "sessions",
    limit: options.limit,
    offset: options.offset,
    items: () =>
      rest.streamSessions({
        pageSize: listing.pageSize(options.limit, 100),
        offset: options.offset,
        accessScope: options.scope
      }),
    columns: [{ header: "Session ID", keep: true }],
    row: (session) => [session],
    encode: (session) => session
  })
}, Effect.provide(live.rest))

const info = Effect.fnUntraced(
  function*(options: { readonly sessionId: string; readonly scope: AccessScope }) {
    const rest = yield* RestClient.RestClient
    const output = yield* Output
    const session = yield* live.bounded(rest.getSession(options.sessionId, { accessScope: options.scope }))
    yield* output.printRecord({
      json: { session_id: options.sessionId, ...encodeSession(session) },
      properties: [
        ["Session ID", options.sessionId],
        ...(session.displayName === undefined ? [] : [["Name", session.displayName] as const]),
        ["Training Runs", session.trainingRunIds.length === 0 ? "none" : session.trainingRunIds.join(", ")],
        ["Samplers", session.samplerIds.length === 0 ? "none" : session.samplerIds.join(", ")],
        ...Object.entries(session.userMetadata ?? {}).map(([key, value]) => [`Metadata ${key}`, value] as const)
      ]
    })
  },
  Effect.provide(live.rest)
)

const assign = Effect.fnUntraced(function*(options: { readonly sessionId: string; readonly projectId: string }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  yield* live.bounded(rest.assignSessionProject(options.sessionId, options.projectId))
  if (output.format === "table") return yield* output.note(`${options.sessionId} belongs to ${options.projectId} now`)
  yield* output.print({
    columns: [],
    rows: [],
    json: { session_id: options.sessionId, project_id: options.projectId }
  })
}, Effect.provide(live.rest))

const exportTrace = Effect.fnUntraced(function*(options: {
  readonly sessionId: string
  readonly output: Option.Option<string>
  readonly urlOnly: boolean
}) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  let noted = false
  const url = yield* rest.exportSessionTrace(options.sessionId, {
    onPending: () => {
      if (noted) return Effect.void
      noted = true
      return output.note("The server is building the trace")
    }
  })
  if (options.urlOnly) {
    return output.format === "table"
      ? yield* output.write(`${url}\n`)
      : yield* output.print({ columns: [], rows: [], json: { session_id: options.sessionId, url } })
  }
  const target = path.resolve(
    Option.getOrElse(options.output, () => `${options.sessionId.replace(/[^A-Za-z0-9._-]+/g, "_")}.pftrace`)
  )
  yield* fs.makeDirectory(path.dirname(target), { recursive: true })
  const summary = yield* Effect.scoped(Effect.gen(function*() {
    const progress = yield* Progress.make({ label: "Downloading the trace", unit: "bytes" })
    return yield* Download.toFile({
      url,
      path: target,
      onProgress: ({ received, total }) => progress.update(received, total)
    })
  }))
  yield* output.printRecord({
    json: { session_id: options.sessionId, destination: target, file_size_bytes: summary.bytes },
    properties: [["Session ID", options.sessionId], ["Saved to", target], ["Size", text.size(summary.bytes)]]
  })
  yield* output.note("Open it at https://ui.perfetto.dev")
}, Effect.provide(live.rest))
const sessionId = Args.text({ name: "session-id" }).pipe(
  Args.withDescription("A session; see `tinker session list`.")
)

const listCommand = Command.make("list", {
  limit: limit(20),
  offset,
  scope,
  search: Options.text("search").pipe(
    Options.withDescription("Show only sessions whose name contains these words, with more detail."),
    Options.optional
  )
}, list).pipe(Command.withDescription("List sessions, newest first."))

const infoCommand = Command.make("info", { sessionId, scope }, info).pipe(
  Command.withDescription("Show the runs and samplers of a session.")
)

const assignCommand = Command.make("assign", {
  sessionId,
  projectId: Args.text({ name: "project-id" }).pipe(Args.withDescription("Project to move the session into."))
}, assign).pipe(
  Command.withDescription("Move a session, its runs and its samplers into a project.")
)

const exportTraceCommand = Command.make("export-trace", {
  sessionId,
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription("File to write. Default: SESSION-ID.pftrace here."),
    Options.optional
  ),
  urlOnly: Options.boolean("url-only").pipe(Options.withDescription("Print the signed URL instead of downloading."))
}, exportTrace).pipe(
  Command.withDescription("Download a session's timeline as a Perfetto trace.")
)

/** @internal */
export const command = Command.make("session").pipe(
  Command.withDescription("Sessions."),
  Command.withSubcommands([listCommand, infoCommand, assignCommand, exportTraceCommand])
)
