/**
 * Every endpoint of the service, once, as data. Clients call through it and a compatible server routes from it.
 *
 * @since 0.1.0
 */
import * as Checkpoints from "./Api/Checkpoints.js"
import * as Futures from "./Api/Futures.js"
import * as Records from "./Api/Records.js"
import * as Startup from "./Api/Startup.js"
import * as Training from "./Api/Training.js"
import type * as Endpoint from "./Endpoint.js"

/**
 * @since 0.1.0
 */
export * from "./Api/Checkpoints.js"

/**
 * @since 0.1.0
 */
export * from "./Api/Futures.js"

/**
 * @since 0.1.0
 */
export * from "./Api/Records.js"

/**
 * @since 0.1.0
 */
export * from "./Api/Startup.js"

/**
 * @since 0.1.0
 */
export * from "./Api/Training.js"

/**
 * The name of an endpoint, those of the OpenAI-compatible surface included.
 *
 * @since 0.1.0
 * @category models
 */
export type Name =
  | keyof typeof Startup
  | keyof typeof Training
  | keyof typeof Futures
  | keyof typeof Checkpoints
  | keyof typeof Records
  | "oaiModels"
  | "oaiChatCompletions"
  | "oaiCompletions"

/**
 * All of them, for routing.
 *
 * @since 0.1.0
 * @category models
 */
export const all: ReadonlyArray<Endpoint.Plain> = [
  Startup.clientConfig,
  Startup.dynamicConfig,
  Startup.authToken,
  Startup.createSession,
  Startup.heartbeat,
  Startup.finishSession,
  Startup.createSamplingSession,
  Startup.joinSamplingSession,
  Startup.capabilities,
  Startup.healthz,
  Startup.telemetry,
  Training.createModel,
  Training.unloadModel,
  Training.forwardBackward,
  Training.forward,
  Training.optimStep,
  Training.saveWeights,
  Training.loadWeights,
  Training.saveWeightsForSampler,
  Training.saveWeightsExternal,
  Training.createCustomLoss,
  Training.getInfo,
  Futures.asample,
  Futures.retrieveFuture,
  Futures.retrieveFutures,
  Futures.cancelFuture,
  Records.getSampler,
  Checkpoints.weightsInfo,
  Checkpoints.copyWeights,
  Checkpoints.externalWeightsUrls,
  Checkpoints.listTrainingRuns,
  Checkpoints.getTrainingRun,
  Checkpoints.listCheckpoints,
  Checkpoints.listUserCheckpoints,
  Checkpoints.deleteCheckpoint,
  Checkpoints.checkpointArchive,
  Checkpoints.publishCheckpoint,
  Checkpoints.unpublishCheckpoint,
  Checkpoints.setCheckpointTtl,
  Records.listSessions,
  Records.getSession,
  Records.searchSessions,
  Records.assignProject,
  Records.traceExport,
  Records.audit,
  Records.billingUsage,
  Records.checkpointStorage,
  Records.apiKeyInfo,
  Records.deleteApiKey
]
