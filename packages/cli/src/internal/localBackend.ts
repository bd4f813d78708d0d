/**
 * The embedded backend, for `--base-url local` in this process and for `tinker local` behind a port. Imported on demand,
 * because it brings in the engine.
 *
 * @since 0.1.0
 */
import * as LocalTokenizer from "@effect-tinker/local/LocalTokenizer"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import * as TinkerLocal from "@effect-tinker/local/TinkerLocal"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { availableParallelism, homedir } from "node:os"
import { join } from "node:path"
import { CliFailure } from "./CliFailure.js"

/** @internal */
export const baseUrl = TinkerLocal.baseUrl

/** @internal */
export const apiKey = TinkerLocal.apiKey

/** @internal */
export const serve = NodeTinkerLocal.serve

/** @internal */
export const hasThreads = NodeEngine.hasThreads

/** @internal */
export const directory: Effect.Effect<string> = Config.string("TINKER_LOCAL_DIR").pipe(
  Config.withDefault(join(homedir(), ".tinker", "local")),
  Effect.orDie
)

/** The key of the `tinker local` that listens at an address, from its data directory. @internal */
export const keyOf = (baseUrl: string) =>
  Effect.flatMap(directory, (root) => NodeTinkerLocal.readApiKey(root, { baseUrl }))

/**
 * The backend in this process, on worker threads where much is to be computed.
 *
 * @internal
 */
export const layer = (options?: { readonly threads: boolean }): Layer.Layer<TinkerLocal.Provided, CliFailure> =>
  Layer.unwrapEffect(Effect.map(directory, (root) =>
    NodeTinkerLocal.layerInProcess({
      directory: root,
      threads: options?.threads === true && hasThreads ? availableParallelism() : undefined
    }).pipe(
      Layer.catchAll((cause) =>
        Layer.fail(
          new CliFailure({
            what: `The data of the embedded backend in ${root} cannot be opened: ${cause.message}`,
            advice: "Wait for the other process, or choose another directory with TINKER_LOCAL_DIR.",
            cause
          })
        )
      )
    )))

/**
 * The files of the tokenizers of the models that come with the backend, by model and file name.
 *
 * @internal
 */
export const tokenizerFiles = Effect.map(NodeEngine.bundledModels, (models) => {
  const { tokenizerConfig, tokenizerJson } = LocalTokenizer.huggingFaceFiles
  const bytes = {
    "tokenizer.json": JSON.stringify(tokenizerJson),
    "tokenizer_config.json": JSON.stringify(tokenizerConfig)
  }
  return Object.fromEntries([
    [LocalTokenizer.tokenizerId, bytes],
    ...models.map(({ name, tokenizerFiles }) => [
      name,
      tokenizerFiles === undefined ? bytes : Object.fromEntries(tokenizerFiles)
    ])
  ]) as Readonly<Record<string, Readonly<Record<string, string>>>>
})
