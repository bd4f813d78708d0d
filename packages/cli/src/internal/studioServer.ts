/**
 * Layers of `tinker studio` and the exports of runs. Imported on demand: other commands start without it.
 *
 * @since 0.1.0
 */
import * as RunControl from "@effect-tinker/cluster/RunControl"
import * as DataQuality from "@effect-tinker/cookbook/DataQuality"
import * as Dataset from "@effect-tinker/cookbook/Dataset"
import * as Language from "@effect-tinker/cookbook/Language"
import * as LocalCheckpoint from "@effect-tinker/local/LocalCheckpoint"
import * as LocalTokenizer from "@effect-tinker/local/LocalTokenizer"
import * as CheckpointChat from "@effect-tinker/studio/CheckpointChat"
import * as Check from "@effect-tinker/studio/DataCheck"
import * as Evaluations from "@effect-tinker/studio/Evaluations"
import * as Grades from "@effect-tinker/studio/Grades"
import * as MLflow from "@effect-tinker/studio/MLflow"
import * as NodeStudio from "@effect-tinker/studio/NodeStudio"
import * as TensorBoard from "@effect-tinker/studio/TensorBoard"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import { TokenizerMalformed } from "@effect-tinker/tokenizer/TokenizerError"
import type * as Tokenizers from "@effect-tinker/tokenizer/Tokenizers"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as Path from "@effect/platform/Path"
import * as ServiceClient from "effect-tinker/ServiceClient"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as dataFile from "../training/dataFile.js"
import * as modelSettings from "../training/modelSettings.js"
import * as live from "./connection.js"

/** @internal */
export const serve = NodeStudio.serve

/** @internal */
export const exportTensorBoard = TensorBoard.write

/** @internal */
export const exportMLflow = (options: MLflow.Options) =>
  Effect.provide(MLflow.write(options), NodeHttpClient.layerUndici)

/** Grades of durable runs, which are files in their directories. @internal */
export const grades = Layer.effect(
  Grades.Grades,
  Effect.map(Effect.context<FileSystem.FileSystem>(), (context): Grades.Service => ({
    waiting: (directory) => Effect.provide(RunControl.questions(directory), context),
    give: (directory, key, grade) =>
      RunControl.answer(directory, key, grade).pipe(
        Effect.mapError((error) =>
          new Grades.GradeRefused({
            key,
            description: error._tag === "NoSuchQuestion"
              ? "The run does not wait for this grade any more"
              : `The grade was not stored: ${error.message}`
          })
        ),
        Effect.provide(context)
      )
  }))
)

/** @internal */
export const DataCheck = Check.DataCheck

/** Most rows of a file that the page reads. */
const maxRows = 100_000

/** Rows to read token by token. */
const show = 20

/** Checks files of training data, and no others. @internal */
export const dataCheck = (files: ReadonlyArray<Check.File>, model: string) =>
  Effect.map(
    Effect.context<FileSystem.FileSystem | Path.Path | Tokenizers.Tokenizers>(),
    (context): Check.Service => ({
      files,
      model,
      check: ({ epochs, file, maxLength, model, price }) =>
        Effect.gen(function*() {
          if (!files.some(({ path }) => path === file)) {
            return yield* new Check.CheckFailed({ file, description: `${file} was not given to the studio` })
          }
          const { kind } = yield* dataFile.recognize(file)
          const renderer = yield* modelSettings.rendererFor(model, {
            renderer: Option.none(),
            tokenizer: Option.none()
          })
          const found = yield* Check.measure(dataFile.data(file, kind, { renderer, maxLength }), { show, maxRows })
          const detect = Option.getOrUndefined(yield* Effect.option(Language.detector))
          const quality = yield* DataQuality.inspect(Dataset.take(dataFile.raw(file), maxRows), { detect })
          const preferences = kind === "preferences"
          const cost = Check.costOf({ tokens: found.tokens, epochs, preferences, price: { train: price } })
          return {
            ...found,
            file,
            kind,
            model,
            renderer: renderer.name,
            epochs,
            trainingTokens: found.tokens * epochs,
            estimatedCost: cost ?? null,
            quality,
            shown: found.shown.map(({ parts, row }) => ({ row, parts: Check.readable(parts, renderer.tokenizer) }))
          }
        }).pipe(
          Effect.mapError((error) =>
            error._tag === "CheckFailed" ? error : new Check.CheckFailed({ file, description: error.message })
          ),
          Effect.provide(context)
        )
    })
  )

/** Compares results of evaluations in these files, and no others. @internal */
export const evaluations = Evaluations.layer

const missing = (description: string) =>
  new TokenizerMalformed({ repo: "local/chat", revision: "main", file: "tokenizer.json", description })

const chatTokenizer = LocalCheckpoint.chat.pipe(
  Effect.mapError((error) => missing(error.message)),
  Effect.flatMap(({ tokenizer }) =>
    tokenizer === undefined ? missing("the model has none") : Effect.succeed(tokenizer)
  ),
  Effect.provide(NodeContext.layer)
)

/** The tokenizers on this machine and, with `online`, those of the hub. @internal */
export const tokenizers = (online: boolean) =>
  NodeTokenizers.layer({
    registry: { ...LocalTokenizer.registry, "local/chat": chatTokenizer },
    hub: online ? {} : { offline: true }
  })

/** Talks to the models of the server that the options and the environment name. @internal */
export const talk = CheckpointChat.layer.pipe(
  Layer.provide(Layer.scoped(ServiceClient.ServiceClient, ServiceClient.make())),
  Layer.provide(live.base)
)
