/**
 * The embedded backend, for `--base-url local` in this process and for `tinker local` behind a port. Imported on demand,
 * because it brings in the engine.
 *
 * @since 0.1.0
 */
import type * as LocalModel from "@effect-tinker/local/LocalModel"
import * as LocalTokenizer from "@effect-tinker/local/LocalTokenizer"
import * as NodeEngine from "@effect-tinker/local/NodeEngine"
import * as NodeModels from "@effect-tinker/local/NodeModels"
import * as NodeTinkerLocal from "@effect-tinker/local/NodeTinkerLocal"
import * as TinkerLocal from "@effect-tinker/local/TinkerLocal"
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { availableParallelism, freemem } from "node:os"
import { CliFailure } from "./CliFailure.js"
import * as LocalModels from "./LocalModels.js"

/** @internal */
export const baseUrl = TinkerLocal.baseUrl

/** The key of this process for the backend in it: nobody else knows it. @internal */
export const apiKey = Effect.runSync(Effect.cached(Effect.map(Entropy.token, (token) => Redacted.make(`tml-${token}`))))

/** @internal */
export const serve = NodeTinkerLocal.serve

/** @internal */
export const hasThreads = NodeEngine.hasThreads

/** @internal */
export const directory = LocalModels.directory

/** The key of the `tinker local` that listens at an address, from its data directory. @internal */
export const keyOf = (baseUrl: string) =>
  Effect.flatMap(directory, (root) => NodeTinkerLocal.readApiKey(root, { baseUrl }))

/** Another process that has the data directory open: commands join it instead of opening the directory again. @internal */
export const neighbour = Effect.flatMap(directory, NodeTinkerLocal.neighbour)

/** The models beside the bundled ones: those of earlier commands, and the one that this command asks for. */
const ownModels = Effect.gen(function*() {
  const references = yield* LocalModels.references
  const requested = yield* LocalModels.Requested
  const quantize = yield* LocalModels.Quantize
  return yield* Effect.forEach(
    [...new Set([...references, ...requested])],
    (reference) =>
      NodeModels.resolve(reference, { name: reference, quantize }).pipe(
        Effect.tap(LocalModels.remember(reference)),
        Effect.asSome,
        Effect.catchAll((cause) =>
          requested.includes(reference)
            ? new CliFailure({
              what: `The model ${reference} cannot be used: ${cause.description}`,
              advice: "Give a name on the Hugging Face hub (org/name), a directory, a GGUF file, or ollama:NAME.",
              cause
            })
            // a file that was moved must not keep other models from being used
            : Effect.as(Effect.logWarning(`The model ${reference} is left out: ${cause.description}`), Option.none())
        )
      )
  ).pipe(Effect.map((models) => models.flatMap(Option.toArray)))
})

/**
 * The backend in this process, on worker threads where much is to be computed.
 *
 * @internal
 */
export const layer = (options?: { readonly threads: boolean }): Layer.Layer<TinkerLocal.Provided, CliFailure> =>
  Layer.unwrapEffect(Effect.gen(function*() {
    const root = yield* directory
    const bundled = yield* Effect.orDie(NodeEngine.bundledModels)
    return NodeTinkerLocal.layerShared({
      directory: root,
      client: { apiKey: yield* apiKey },
      engine: { models: [...bundled, ...(yield* ownModels)] },
      threads: options?.threads === true && hasThreads ? availableParallelism() : undefined
    }).pipe(
      Layer.catchAll((cause) =>
        Layer.fail(
          new CliFailure({
            what: `Could not open the embedded backend's data in ${root}: ${cause.message}`,
            advice: "Wait for the other process, or choose another directory with TINKER_LOCAL_DIR.",
            cause
          })
        )
      )
    )
  }))

/**
 * The files of the tokenizers of the backend's models, by model and file name.
 *
 * @internal
 */
export const tokenizerFiles = Effect.map(Effect.zip(NodeEngine.bundledModels, ownModels), ([bundled, own]) => {
  const models = [...bundled, ...own]
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

/** A model that the embedded backend could serve. @internal */
export interface Listed {
  readonly name: string
  readonly source: "bundled" | NodeModels.Installed["source"]
  readonly bytes: number
  /** The model with the memory it needs, or why it cannot be used. */
  readonly usable: Either.Either<{ readonly model: LocalModel.LocalModel; readonly memory: NodeEngine.Memory }, string>
}

/** Models on this machine; neither the data directory nor any weights are opened. @internal */
export const listed: Effect.Effect<ReadonlyArray<Listed>> = Effect.gen(function*() {
  const bundled = yield* Effect.orDie(NodeEngine.bundledModels)
  const references = yield* LocalModels.references
  const installed = yield* NodeModels.installed({ references })
  const measured = (model: LocalModel.LocalModel): Effect.Effect<Listed["usable"]> =>
    Effect.map(NodeEngine.memoryOf(model), (memory) => Either.right({ model, memory }))
  const ofPackage = yield* Effect.forEach(
    bundled,
    (model) =>
      Effect.map(measured(model), (usable): Listed => ({ name: model.name, source: "bundled", bytes: 0, usable }))
  )
  const ofMachine = yield* Effect.forEach(installed, ({ bytes, model, reference, source }) =>
    Effect.map(
      Either.match(model, {
        onLeft: ({ description }) => Effect.succeed<Listed["usable"]>(Either.left(description)),
        onRight: measured
      }),
      (usable): Listed => ({ name: reference, source, bytes, usable })
    ))
  return [...ofPackage, ...ofMachine]
})

/** Kernels, threads and memory of the embedded engine on this machine. @internal */
export const machine = Effect.map(NodeEngine.nativeKernels, (kernels) => ({
  kernels,
  threads: hasThreads ? availableParallelism() : 1,
  freeMemory: freemem()
}))
