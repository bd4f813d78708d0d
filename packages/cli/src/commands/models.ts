/**
 * `tinker models`, `model list` and `sampler info`: what there is to train and to sample from.
 *
 * @since 0.1.0
 */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as RestClient from "effect-tinker/RestClient"
import { SupportedModel } from "effect-tinker/wire/Capabilities"
import { GetSamplerResponse } from "effect-tinker/wire/Sampler"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

const encodeModel = Schema.encodeSync(SupportedModel)
const encodeSampler = Schema.encodeSync(GetSamplerResponse)

const listModels = Effect.fnUntraced(function*({ substring }: { readonly substring: Option.Option<string> }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const { supportedModels } = yield* live.bounded(rest.getServerCapabilities)
  const wanted = Option.map(substring, (value) => value.toLowerCase())
  const models = supportedModels.filter((model) =>
    Option.isNone(wanted) || model.modelName?.toLowerCase().includes(wanted.value) === true
  )
  if (models.length === 0 && Option.isSome(substring)) {
    return yield* new CliFailure({
      what: `No model's name contains ${JSON.stringify(substring.value)}`,
      advice: "`tinker models` shows every model you can use."
    })
  }
  const items = models.map((model) => encodeModel(model))
  yield* output.print({
    title: text.count(models.length, "model"),
    columns: [
      { header: "Model", keep: true },
      { header: "Max Context", align: "right" },
      { header: "Trainable" },
      { header: "Sampleable" }
    ],
    rows: models.map((model) => [
      model.modelName ?? "-",
      model.maxContextLength === undefined ? "-" : String(model.maxContextLength),
      text.yesNo(model.trainable),
      text.yesNo(model.sampleable)
    ]),
    json: { models: items, total: items.length },
    items
  })
}, Effect.provide(live.rest))

const showSampler = Effect.fnUntraced(function*({ samplerId }: { readonly samplerId: string }) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const found = yield* live.bounded(rest.getSampler(samplerId))
  yield* output.printRecord({
    json: encodeSampler(found),
    properties: [
      ["Sampler ID", found.samplerId],
      ["Base Model", found.baseModel],
      ["Checkpoint", found.modelPath ?? "none"]
    ]
  })
}, Effect.provide(live.rest))

const substring = Args.text({ name: "substring" }).pipe(
  Args.withDescription("Only models whose name contains this."),
  Args.optional
)

/** @internal */
export const models = Command.make("models", { substring }, listModels).pipe(
  Command.withDescription("List the models you can train or sample.")
)

/** @internal */
export const model = Command.make("model").pipe(
  Command.withDescription("The same as `models`, by the name other tools use."),
  Command.withSubcommands([
    Command.make("list", { substring }, listModels).pipe(
      Command.withDescription("List the models you can train or sample.")
    )
  ])
)

/** @internal */
export const sampler = Command.make("sampler").pipe(
  Command.withDescription("Samplers."),
  Command.withSubcommands([
    Command.make("info", {
      samplerId: Args.text({ name: "sampler-id" }).pipe(
        Args.withDescription("A sampler; `tinker session info` shows those of a session.")
      )
    }, showSampler)
      .pipe(
        Command.withDescription("Show what a sampler samples from.")
      )
  ])
)
