/**
 * Sampling in workers: code that keeps a CPU busy (parsing, scoring, running tests on what was drawn) moves to separate
 * threads, each with a client of the same sampler, so that heartbeats and polls of this thread are never late.
 *
 * The pieces fit the workers of `@effect/platform`: a pool here starts each worker with {@link Start}, and a runner
 * there answers it with {@link start}, which gives the other requests their `SamplingClient`. A worker's client numbers
 * its requests in a separate range and uses its own credentials; the handle it is started with contains none.
 *
 * @since 0.1.0
 */
import * as Worker from "@effect/platform/Worker"
import type { WorkerError } from "@effect/platform/WorkerError"
import * as ConfigError from "effect/ConfigError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { SamplerHandle } from "./SamplerHandle.js"
import * as SamplingClient from "./SamplingClient.js"
import type * as ServiceClient from "./ServiceClient.js"
import { InvalidInput, TinkerError } from "./TinkerError.js"

/**
 * The first message of every worker: the sampler to draw from.
 *
 * @since 0.1.0
 * @category schemas
 */
export class Start extends Schema.TaggedRequest<Start>("effect-tinker/SamplingWorker/Start")("InitialMessage", {
  payload: { handle: SamplerHandle },
  success: Schema.Void,
  failure: TinkerError
}) {}

/**
 * How many workers, and how much each of them does at once.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options {
  /** Workers, started with the pool. */
  readonly size: number
  /** Requests one worker has at a time. Defaults to 1. */
  readonly concurrency?: number | undefined
}

/**
 * Workers that draw from the sampler of the `SamplingClient` here, until the scope closes. `Requests` are the messages
 * they answer besides {@link Start}.
 *
 * @since 0.1.0
 * @category constructors
 */
export const makePool = <Requests extends Schema.TaggedRequest.All>(
  options: Options
): Effect.Effect<
  Worker.SerializedWorkerPool<Requests | Start>,
  WorkerError,
  SamplingClient.SamplingClient | Worker.WorkerManager | Worker.Spawner | Scope.Scope
> =>
  // Each request brings the schemas it travels by, so the pool need not know them beforehand.
  Effect.flatMap(SamplingClient.SamplingClient, ({ handle }) =>
    Worker.makePoolSerialized<Start>({ ...options, initialMessage: () => new Start({ handle }) }))

const known = (error: TinkerError | ConfigError.ConfigError): TinkerError =>
  ConfigError.isConfigError(error)
    ? new InvalidInput({ module: "SamplingWorker", method: "start", description: String(error) })
    : error

/**
 * The worker's answer to {@link Start}: the client for its other requests, over a service of the worker's own. It opens
 * no session.
 *
 * @since 0.1.0
 * @category layers
 */
export const start = <R>(
  service: Layer.Layer<ServiceClient.ServiceClient, TinkerError | ConfigError.ConfigError, R>,
  settings?: SamplingClient.Settings
) =>
({ handle }: Start): Layer.Layer<SamplingClient.SamplingClient, TinkerError, R> =>
  Layer.provide(
    SamplingClient.layerHandle(handle, settings),
    Layer.catchAll(service, (error) => Layer.fail(known(error)))
  )
