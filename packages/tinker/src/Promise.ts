/**
 * Tinker for plain async code: the same clients, each call a Promise.
 *
 * - Calls start when they are made: what is called first reaches the server first. Leave a Promise unawaited and the
 *   next call is queued right behind it; that is all there is to pipelining.
 * - Failures reject with the `TinkerError` itself: `error._tag`, or `instanceof`. A rejection that nobody looks at does
 *   not end the process.
 * - Every call takes an `AbortSignal`. Lists and many samples are async iterators.
 * - `close()`, or `await using`, finishes the session and rejects what is still under way as `Closed`.
 *
 * @since 0.1.0
 */
/// <reference lib="esnext.disposable" preserve="true" />
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { GetServerCapabilitiesResponse } from "./Capabilities.js"
import * as Datum from "./Datum.js"
import type { SessionId } from "./Id.js"
import * as Clients from "./internal/promise/clients.js"
import * as Runner from "./internal/promise/runner.js"
import type { CallOptions, Closing } from "./Promise/Call.js"
import type { Rest } from "./Promise/Rest.js"
import type { Sampler } from "./Promise/Sampler.js"
import type { Training } from "./Promise/Training.js"
import * as RestClient from "./RestClient.js"
import type { SamplerHandle } from "./SamplerHandle.js"
import type * as SamplingClient from "./SamplingClient.js"
import * as ServiceClient from "./ServiceClient.js"
import * as TinkerLayer from "./Tinker.js"
import * as TinkerTransport from "./TinkerTransport.js"
import type * as TrainingClient from "./TrainingClient.js"

/**
 * @since 0.1.0
 */
export * from "./Promise/Call.js"

/**
 * @since 0.1.0
 */
export * from "./Promise/Rest.js"

/**
 * @since 0.1.0
 */
export * from "./Promise/Sampler.js"

/**
 * @since 0.1.0
 */
export * from "./Promise/Training.js"

/**
 * A connection to a Tinker service: one session, and the clients made from it.
 *
 * @since 0.1.0
 * @category models
 */
export interface Tinker extends Closing {
  readonly rest: Rest
  readonly createLoraTrainingClient: (options: TrainingClient.LoraOptions & CallOptions) => Promise<Training>
  readonly createTrainingClientFromState: (options: TrainingClient.StateOptions & CallOptions) => Promise<Training>
  readonly createSamplingClient: (options: SamplingClient.Options & CallOptions) => Promise<Sampler>
  /** A client of a sampler opened elsewhere. */
  readonly samplingClientFromHandle: (
    handle: SamplerHandle,
    options?: SamplingClient.Settings & CallOptions
  ) => Promise<Sampler>
  readonly serverCapabilities: (options?: CallOptions) => Promise<GetServerCapabilitiesResponse>
  readonly sessionId: (options?: CallOptions) => Promise<SessionId>
}

/**
 * Which service, and over what.
 *
 * @since 0.1.0
 * @category models
 */
export interface ConnectOptions extends ServiceClient.Options, CallOptions {
  /**
   * The transport, with whatever else the runtime needs (loggers, tracers): `NodeTinker.layerEnv()`,
   * `TinkerLocal.layer()`. Defaults to `fetch`.
   */
  readonly layer?: Layer.Layer<TinkerTransport.TinkerTransport, unknown> | undefined
}

const connect = async (options: ConnectOptions = {}): Promise<Tinker> => {
  const { layer = TinkerTransport.layerFetch, signal, ...service } = options
  signal?.throwIfAborted()
  const scope = Effect.runSync(Scope.make())
  const exit = await Effect.runPromiseExit(
    Effect.onExit(
      Scope.extend(Layer.toRuntime(TinkerLayer.layerEnv(service).pipe(Layer.provideMerge(layer))), scope),
      (exit) => Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, exit)
    ),
    signal === undefined ? undefined : { signal }
  )
  if (Exit.isFailure(exit)) {
    signal?.throwIfAborted()
    throw Runner.errorOf(exit.cause)
  }
  const runtime = exit.value
  const client = Context.get(runtime.context, ServiceClient.ServiceClient)
  const runner = Runner.make(runtime, scope)
  const scoped: Clients.Scoped = { runner, scope, unobserved: new Set() }
  let closing: Promise<void> | undefined
  const closeOnce = async () => {
    const models = Array.from(scoped.unobserved)
    const pending = models.map((model) => model.settle()).filter((settled) => settled !== undefined)
    if (pending.length > 0) await Promise.all(pending)
    runner.stop()
    await runner.release(Scope.close(scope, Exit.void))
    for (const model of models) model.raise("close")
  }
  const close = () => closing ??= closeOnce()
  return {
    close,
    [Symbol.asyncDispose]: close,
    rest: Clients.rest(runner, Context.get(runtime.context, RestClient.RestClient)),
    createLoraTrainingClient: ({ signal, ...options }) =>
      Clients.open(scoped, client.createLoraTrainingClient(options), Clients.training(scoped), { signal }),
    createTrainingClientFromState: ({ signal, ...options }) =>
      Clients.open(scoped, client.createTrainingClientFromState(options), Clients.training(scoped), { signal }),
    createSamplingClient: ({ signal, ...options }) =>
      Clients.open(scoped, client.createSamplingClient(options), Clients.sampler(scoped), { signal }),
    samplingClientFromHandle: (handle, { signal, ...settings } = {}) =>
      Clients.open(scoped, client.samplingClientFromHandle(handle, settings), Clients.sampler(scoped), { signal }),
    serverCapabilities: (options) => runner.run(client.serverCapabilities, options),
    sessionId: (options) => runner.run(client.sessionId, options)
  }
}

/**
 * Connects; nothing is sent until something is asked for. What is not given comes from the environment
 * (`TINKER_API_KEY`, `TINKER_BASE_URL`, …) where there is one.
 *
 * @since 0.1.0
 * @category constructors
 */
export const Tinker: { readonly connect: (options?: ConnectOptions) => Promise<Tinker> } = { connect }

/**
 * An example of next-token prediction, as `Datum.fromTokens`.
 *
 * @throws `InvalidInput` when the tokens or weights cannot be used
 * @since 0.1.0
 * @category constructors
 */
export const fromTokens = (...args: Parameters<typeof Datum.fromTokens>): Datum.Datum =>
  Either.getOrThrowWith(Datum.fromTokens(...args), (error) => error)
