/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"
import { limit, offset, scope } from "../internal/options.js"

const actions = () => import("../actions/session.js")
const sessionId = Args.text({ name: "session-id" }).pipe(
  Args.withDescription("A session; see `tinker session list`.")
)

const list = Command.make("list", {
  limit: limit(20),
  offset,
  scope,
  search: Options.text("search").pipe(
    Options.withDescription("Only sessions whose name has these words; shows more of each."),
    Options.optional
  )
}, lazily(actions, ({ list }) => list)).pipe(Command.withDescription("List sessions, newest first."))

const info = Command.make("info", { sessionId, scope }, lazily(actions, ({ info }) => info)).pipe(
  Command.withDescription("Show the runs and samplers of a session.")
)

const assign = Command.make("assign", {
  sessionId,
  projectId: Args.text({ name: "project-id" }).pipe(Args.withDescription("The project to move it into."))
}, lazily(actions, ({ assign }) => assign)).pipe(
  Command.withDescription("Move a session, its runs and its samplers into a project.")
)

const exportTrace = Command.make("export-trace", {
  sessionId,
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription("File to write. Default: SESSION-ID.pftrace here."),
    Options.optional
  ),
  urlOnly: Options.boolean("url-only").pipe(Options.withDescription("Print the signed address instead of downloading."))
}, lazily(actions, ({ exportTrace }) => exportTrace)).pipe(
  Command.withDescription("Download a session's timeline as a Perfetto trace.")
)

/** @internal */
export const command = Command.make("session").pipe(
  Command.withDescription("Sessions."),
  Command.withSubcommands([list, info, assign, exportTrace])
)
