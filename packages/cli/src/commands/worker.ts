/**
 * `tinker worker`: runs rollouts for trainers on other machines.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { usage } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import * as userModule from "../internal/userModule.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"
import * as modelSettings from "../training/modelSettings.js"
import { rendering } from "../training/options.js"
import * as workerOptions from "../training/workerOptions.js"

const isLoopback = (address: string): boolean => /^(localhost|127\.|::1$|\[::1\]$)/.test(address)

const isElsewhere = (database: Redacted.Redacted): boolean => {
  const url = Redacted.value(database)
  const { hostname = "" } = URL.canParse(url) ? new URL(url) : {}
  return hostname !== "" && !isLoopback(hostname)
}

const run = Effect.fnUntraced(function*(flags: {
  readonly module: string
  readonly model: string
  readonly database: Redacted.Redacted
  readonly store: Option.Option<string>
  readonly labels: string
  readonly concurrency: number
  readonly host: Option.Option<string>
  readonly port: Option.Option<number>
  readonly listen: Option.Option<string>
  readonly grace: number
  readonly metrics: Option.Option<string>
  readonly renderer: Option.Option<string>
  readonly tokenizer: Option.Option<string>
}) {
  const output = yield* Output
  const labels = yield* workerOptions.parseLabels(flags.labels)
  const metrics = yield* Effect.transposeMapOption(flags.metrics, workerOptions.parseMetrics)
  const token = yield* Effect.orDie(Config.option(Config.redacted("TINKER_METRICS_TOKEN")))
  if (!(flags.grace >= 0)) return yield* usage(`--grace is ${flags.grace}`, "Give seconds.")
  const { problems, settings } = yield* userModule.environments(flags.module)
  const { layer } = yield* Effect.promise(() => import("../training/worker.js"))
  yield* Effect.gen(function*() {
    const renderer = yield* modelSettings.rendererFor(flags.model, flags)
    let done = 0
    if (isElsewhere(flags.database) && !Option.exists(flags.listen, (address) => !isLoopback(address))) {
      yield* output.note(
        "This worker listens on 127.0.0.1 only, and the database is on another machine: if workers of other machines join, " +
          "give each --listen, such as --listen 0.0.0.0, or they take each other for gone."
      )
    }
    yield* output.note(
      `Running up to ${flags.concurrency} rollouts at once with the labels ${labels.join(", ")}. Ctrl-C leaves.`
    )
    yield* Layer.launch(layer({
      ...flags,
      labels,
      problems,
      settings: { ...settings, renderer },
      grace: Duration.seconds(flags.grace),
      metrics: Option.map(metrics, (served) => ({
        ...served,
        token,
        onAddress: (address: string) => output.note(`Metrics are at ${address}/metrics and /metrics.json`)
      })),
      onRollout: ({ key }) =>
        ++done % 100 === 0
          ? output.note(`${text.count(done, "rollout")}, the last for step ${key.step + 1} of ${key.run}`)
          : Effect.void
    }))
  }).pipe(Effect.provide(Layer.mergeAll(live.training, modelSettings.tokenizers, FetchHttpClient.layer)))
})

/** @internal */
export const command = Command.make("worker", {
  module: Args.text({ name: "module" }).pipe(
    Args.withDescription("Module whose default export is the environment, the same as the trainer's.")
  ),
  model: Options.text("model").pipe(
    Options.withAlias("m"),
    Options.withDescription("Base model in training; determines the renderer.")
  ),
  database: workerOptions.database,
  store: workerOptions.store,
  labels: Options.text("labels").pipe(
    Options.withDefault("cpu"),
    Options.withDescription(
      "Labels of rollouts this worker can run, comma-separated: cpu, sandbox, browser, gpu. Default: cpu."
    )
  ),
  concurrency: Options.integer("concurrency").pipe(
    Options.withDefault(8),
    Options.withDescription("Maximum number of concurrent rollouts. Default: 8.")
  ),
  host: Options.text("host").pipe(
    Options.withDescription(
      "The name by which trainers and other workers reach it. Default: where it listens; this machine's with 0.0.0.0."
    ),
    Options.optional
  ),
  listen: Options.text("listen").pipe(
    Options.withDescription(
      "The address to listen on; 0.0.0.0 for all. Default: 127.0.0.1, for trainers and workers of this machine."
    ),
    Options.optional
  ),
  port: Options.integer("port").pipe(Options.withDescription("Default: a free one."), Options.optional),
  grace: Options.float("grace").pipe(
    Options.withDefault(30),
    Options.withDescription(
      "Seconds to end running rollouts after SIGTERM or Ctrl-C; new ones go to other workers at once. Default: 30."
    )
  ),
  metrics: Options.text("metrics").pipe(
    Options.withDescription(
      "[ADDRESS:]PORT for counts as Prometheus and autoscalers read them; on an address of the network with the token of " +
        "TINKER_METRICS_TOKEN. Default: none."
    ),
    Options.optional
  ),
  ...rendering
}, run).pipe(Command.withDescription("Run rollouts for `tinker train rl --workers` until interrupted."))
