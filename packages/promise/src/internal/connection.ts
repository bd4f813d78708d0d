/**
 * The connections of the other packages behind the interfaces of this one.
 */
import type { Tokenizers } from "@effect-tinker/tokenizer/Tokenizers"
import type * as FileSystem from "@effect/platform/FileSystem"
import type * as HttpClient from "@effect/platform/HttpClient"
import type * as Path from "@effect/platform/Path"
import * as Datum from "effect-tinker/Datum"
import * as Loss from "effect-tinker/Loss"
import type * as Inner from "effect-tinker/Promise"
import { InvalidInput } from "effect-tinker/TinkerError"
import type * as Clients from "../Clients.js"
import type * as Data from "../Data.js"
import { each, plain } from "./plain.js"

/** @internal */
export type Files = FileSystem.FileSystem | Path.Path | HttpClient.HttpClient

const withTokenizers = new WeakMap<object, Inner.Tinker<Tokenizers>>()
const withFiles = new WeakMap<object, Inner.Tinker<Tokenizers | Files>>()

const missing = (what: string) =>
  new InvalidInput({
    module: "connection",
    method: "connect",
    description: `this connection has no ${what}: connect with @effect-tinker/promise/node`
  })

/** @internal */
export const tokenizersOf = (tinker: Clients.Tinker<"tokenizers">): Inner.Tinker<Tokenizers> => {
  const found = withTokenizers.get(tinker)
  if (found === undefined) throw missing("tokenizers")
  return found
}

/** @internal */
export const filesOf = (tinker: Clients.Tinker<"files" | "tokenizers">): Inner.Tinker<Tokenizers | Files> => {
  const found = withFiles.get(tinker)
  if (found === undefined) throw missing("files")
  return found
}

/** @internal */
export const datumOf = (datum: Data.Datum): Datum.Datum => {
  if (datum instanceof Datum.Datum) return datum
  throw new InvalidInput({
    module: "Datum",
    method: "make",
    description: "data are made by fromTokens, fromExamples or datum"
  })
}

const dataOf = (data: ReadonlyArray<Data.Datum>) => data.map(datumOf)

/** Calls that were given what they cannot take reject, as those that fail. */
const attempt = async <A>(call: () => Promise<A>): Promise<A> => call()

const sampleOptions = ({ prompt, ...options }: Data.SampleOptions): Inner.SampleOptions => ({ ...options, prompt })

const samplerOf = (inner: Inner.Sampler): Clients.Sampler => ({
  close: inner.close,
  [Symbol.asyncDispose]: inner.close,
  sample: async ({ signal, ...options }) => plain(await inner.sample({ ...sampleOptions(options), signal })),
  computeLogprobs: inner.computeLogprobs,
  sampleMany: (requests, options) =>
    each(
      inner.sampleMany(requests, options),
      ({ error, index, response }) => ({ index, error, response: response === undefined ? undefined : plain(response) })
    ),
  baseModel: inner.baseModel
})

const trainingOf = (inner: Inner.Training): Clients.Training => ({
  close: inner.close,
  [Symbol.asyncDispose]: inner.close,
  modelId: inner.modelId,
  forward: (data, loss, options) =>
    attempt(async () =>
      plain(await inner.forward(dataOf(data), Loss.other(loss, options?.lossFnConfig), { signal: options?.signal }))
    ),
  forwardBackward: (data, loss, options) =>
    attempt(async () =>
      plain(
        await inner.forwardBackward(dataOf(data), Loss.other(loss, options?.lossFnConfig), { signal: options?.signal })
      )
    ),
  forwardBackwardCustom: (data, loss, options) =>
    attempt(async () =>
      plain(
        await inner.forwardBackwardCustom(
          dataOf(data),
          (given, logprobs) => loss(given, logprobs.map(({ values }) => Float64Array.from(values))),
          options
        )
      )
    ),
  optimStep: async (params, options) => plain(await inner.optimStep(params, options)),
  trainStep: (data, loss, params, options) =>
    attempt(async () => plain(await inner.trainStep(dataOf(data), Loss.other(loss), params, options))),
  saveState: inner.saveState,
  loadState: async (path, options) => {
    await inner.loadState(path, options)
  },
  saveWeightsForSampler: inner.saveWeightsForSampler,
  saveWeightsAndGetSamplingClient: async (options) => samplerOf(await inner.saveWeightsAndGetSamplingClient(options)),
  getInfo: async (options) => plain(await inner.getInfo(options))
})

const restOf = (inner: Inner.Rest): Clients.Rest => {
  const once = <Args extends ReadonlyArray<unknown>, A>(call: (...args: Args) => Promise<A>) => async (...args: Args) =>
    plain(await call(...args))
  return {
    getTrainingRun: once(inner.getTrainingRun),
    getTrainingRunByPath: once(inner.getTrainingRunByPath),
    listTrainingRuns: once(inner.listTrainingRuns),
    trainingRuns: (options) => each(inner.trainingRuns(options), plain),
    getWeightsInfo: once(inner.getWeightsInfo),
    listCheckpoints: once(inner.listCheckpoints),
    getCheckpoint: once(inner.getCheckpoint),
    userCheckpoints: (options) => each(inner.userCheckpoints(options), plain),
    getCheckpointArchiveUrl: once(inner.getCheckpointArchiveUrl),
    deleteCheckpoint: inner.deleteCheckpoint,
    publishCheckpoint: inner.publishCheckpoint,
    unpublishCheckpoint: inner.unpublishCheckpoint,
    setCheckpointTtl: inner.setCheckpointTtl,
    getSession: once(inner.getSession),
    sessions: inner.sessions,
    whoami: once(inner.whoami),
    getServerCapabilities: once(inner.getServerCapabilities)
  }
}

const wrap = <R, Has extends Clients.Part>(
  inner: Inner.Tinker<R>,
  has: { readonly [K in Has]: true }
): Clients.Tinker<Has> => ({
  has,
  close: inner.close,
  [Symbol.asyncDispose]: inner.close,
  rest: restOf(inner.rest),
  createLoraTrainingClient: async (options) => trainingOf(await inner.createLoraTrainingClient(options)),
  createTrainingClientFromState: async (options) => trainingOf(await inner.createTrainingClientFromState(options)),
  createSamplingClient: async (options) => samplerOf(await inner.createSamplingClient(options)),
  sessionId: inner.sessionId
})

/** @internal */
export const bare = (inner: Inner.Tinker): Clients.Tinker => wrap(inner, {})

/** @internal */
export const tokenizing = (inner: Inner.Tinker<Tokenizers>): Clients.Tinker<"tokenizers"> => {
  const tinker = wrap<Tokenizers, "tokenizers">(inner, { tokenizers: true })
  withTokenizers.set(tinker, inner)
  return tinker
}

/** @internal */
export const complete = (inner: Inner.Tinker<Tokenizers | Files>): Clients.Tinker<"files" | "tokenizers"> => {
  const tinker = wrap<Tokenizers | Files, "files" | "tokenizers">(inner, { files: true, tokenizers: true })
  withTokenizers.set(tinker, inner)
  withFiles.set(tinker, inner)
  return tinker
}
