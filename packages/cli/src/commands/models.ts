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
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure } from "../internal/CliFailure.js"
import * as live from "../internal/connection.js"
import { Output } from "../terminal/Output.js"
import * as text from "../terminal/text.js"

const encodeModel = Schema.encodeSync(SupportedModel)
const encodeSampler = Schema.encodeSync(GetSamplerResponse)

const matching = <A>(items: ReadonlyArray<A>, substring: Option.Option<string>, nameOf: (item: A) => string) =>
  Effect.gen(function*() {
    const wanted = Option.map(substring, (value) => value.toLowerCase())
    const found = items.filter((item) => Option.isNone(wanted) || nameOf(item).toLowerCase().includes(wanted.value))
    return found.length === 0 && Option.isSome(substring)
      ? yield* new CliFailure({
        what: `No model's name contains ${JSON.stringify(substring.value)}`,
        advice: "`tinker models` shows every model you can use."
      })
      : found
  })

interface Filter {
  readonly substring: Option.Option<string>
}

const ofServer = Effect.fnUntraced(function*({ substring }: Filter) {
  const rest = yield* RestClient.RestClient
  const output = yield* Output
  const { supportedModels } = yield* live.bounded(rest.getServerCapabilities)
  const models = yield* matching(supportedModels, substring, ({ modelName }) => modelName ?? "")
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

/** Loaded on demand: it brings in the engine. */
const embedded = Effect.promise(() => import("../internal/localBackend.js"))

const ofThisMachine = Effect.fnUntraced(function*({ substring }: Filter) {
  const output = yield* Output
  const listed = yield* Effect.flatMap(embedded, (backend) => backend.listed)
  const models = yield* matching(listed, substring, ({ name }) => name)
  const items = models.map(({ bytes, name, source, usable }) => ({
    ...encodeModel(
      new SupportedModel({
        modelName: name,
        ...Either.isRight(usable) ? { maxContextLength: usable.right.model.contextLength } : {},
        trainable: Either.isRight(usable) && usable.right.memory.fits,
        sampleable: Either.isRight(usable) && usable.right.memory.fits
      })
    ),
    source,
    file_bytes: bytes,
    ...Either.match(usable, {
      onLeft: (reason) => ({ unusable_because: reason }),
      onRight: ({ memory }) => ({ memory_bytes: memory.preferred, least_memory_bytes: memory.least })
    })
  }))
  yield* output.print({
    title: `${text.count(models.length, "model")} on this machine`,
    columns: [
      { header: "Model", keep: true },
      { header: "From" },
      { header: "Files", align: "right" },
      { header: "Memory", align: "right" },
      { header: "Max Context", align: "right" },
      { header: "Usable" }
    ],
    rows: models.map(({ bytes, name, source, usable }) => [
      name,
      source,
      bytes === 0 ? "-" : text.size(bytes),
      ...Either.match(usable, {
        onLeft: (reason) => ["-", "-", `no: ${reason}`],
        onRight: ({ memory, model }) => [
          text.size(memory.least),
          String(model.contextLength),
          memory.fits ? "yes" : `no: ${text.size(memory.free)} of memory are free`
        ]
      })
    ]),
    json: { models: items, total: items.length },
    items
  })
})

const listModels = (filter: Filter) =>
  Effect.flatMap(live.isLocal, (isLocal) => isLocal ? ofThisMachine(filter) : ofServer(filter))

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
  Args.withDescription("Show only models whose name contains this text."),
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
