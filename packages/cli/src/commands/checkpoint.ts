/**
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { lazily } from "../internal/lazily.js"
import { duration, offset, tinkerPath, yes } from "../internal/options.js"

const actions = () => import("../actions/checkpoint.js")
const path = { path: tinkerPath }

const runId = Options.text("run-id").pipe(Options.withDescription("Only those of this training run."), Options.optional)

const list = Command.make("list", {
  runId,
  limit: Options.integer("limit").pipe(
    Options.withDescription("How many to show at most; 0 for all. Default: 20, with --run-id all."),
    Options.optional
  ),
  offset
}, lazily(actions, ({ list }) => list)).pipe(Command.withDescription("List checkpoints, newest first."))

const info = Command.make("info", path, lazily(actions, ({ info }) => info)).pipe(
  Command.withDescription("Show one checkpoint.")
)

const publish = Command.make("publish", path, lazily(actions, ({ publish }) => publish)).pipe(
  Command.withDescription("Let everyone read a checkpoint.")
)

const unpublish = Command.make("unpublish", path, lazily(actions, ({ unpublish }) => unpublish)).pipe(
  Command.withDescription("Take a public checkpoint back.")
)

const setTtl = Command.make("set-ttl", {
  ...path,
  ttl: duration("ttl", "Expire this long from now: seconds, or 12h, 7d."),
  remove: Options.boolean("remove").pipe(Options.withDescription("Never expire."))
}, lazily(actions, ({ setTtl }) => setTtl)).pipe(Command.withDescription("Change when a checkpoint expires."))

const remove = Command.make("delete", {
  paths: Args.repeated(tinkerPath),
  runId: Options.text("run-id").pipe(Options.withDescription("All of this training run."), Options.optional),
  type: Options.choice("type", ["weights", "sampler_weights", "external_weights", "training", "sampler", "external"])
    .pipe(
      Options.withDescription("With --run-id: only of this type."),
      Options.optional
    ),
  before: Options.text("before").pipe(
    Options.withDescription("With --run-id: only created before this date (ISO 8601, UTC)."),
    Options.optional
  ),
  after: Options.text("after").pipe(
    Options.withDescription("With --run-id: only created after this date (ISO 8601, UTC)."),
    Options.optional
  ),
  yes
}, lazily(actions, ({ remove }) => remove)).pipe(Command.withDescription("Delete checkpoints for good."))

const copy = Command.make("copy", {
  ...path,
  ttl: duration("ttl", "Let the copy expire after this long, e.g. 7d."),
  accessToken: Options.text("access-token").pipe(
    Options.withDescription("A key that may read the source, when yours may not: @FILE, - or prompt."),
    Options.optional
  )
}, lazily(actions, ({ copy }) => copy)).pipe(
  Command.withDescription("Copy a checkpoint into a project (--project), without duplicating its bytes.")
)

const download = Command.make("download", {
  ...path,
  output: Options.text("output").pipe(
    Options.withAlias("o"),
    Options.withDescription("Directory to put the checkpoint's directory into. Default: here."),
    Options.optional
  ),
  force: Options.boolean("force").pipe(Options.withDescription("Replace what is there, once everything is fetched."))
}, lazily(() => import("../actions/download.js"), ({ download }) => download)).pipe(
  Command.withDescription("Download a checkpoint; run it again to go on where it broke off.")
)

const pushHf = Command.make("push-hf", {
  ...path,
  repo: Options.text("repo").pipe(
    Options.withAlias("r"),
    Options.withDescription("OWNER/NAME. Default: your account and a name from the run."),
    Options.optional
  ),
  public: Options.boolean("public").pipe(Options.withDescription("Create a public repository. Default: private.")),
  revision: Options.text("revision").pipe(
    Options.withDescription(
      "Branch to upload to; created unless it is there. Default: main, for a derived name the checkpoint's."
    ),
    Options.optional
  ),
  commitMessage: Options.text("commit-message").pipe(
    Options.withDescription("The first line of the commit. Default: names the checkpoint."),
    Options.optional
  ),
  createPr: Options.boolean("create-pr").pipe(Options.withDescription("Open a pull request instead of committing.")),
  allowPattern: Options.text("allow-pattern").pipe(
    Options.withDescription("Only files that match, e.g. *.safetensors; may be repeated."),
    Options.repeated
  ),
  ignorePattern: Options.text("ignore-pattern").pipe(
    Options.withDescription("No files that match; may be repeated."),
    Options.repeated
  ),
  noModelCard: Options.boolean("no-model-card").pipe(Options.withDescription("Do not write a README.md."))
}, lazily(() => import("../actions/pushHf.js"), ({ pushHf }) => pushHf)).pipe(
  Command.withDescription("Upload a checkpoint to the Hugging Face Hub as a PEFT adapter.")
)

/** @internal */
export const command = Command.make("checkpoint").pipe(
  Command.withDescription("Checkpoints."),
  Command.withSubcommands([list, info, publish, unpublish, setTtl, remove, copy, download, pushHf])
)
