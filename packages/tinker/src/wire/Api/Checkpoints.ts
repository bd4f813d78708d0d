/**
 * Training runs and their checkpoints.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Checkpoint from "../../Checkpoint.js"
import { Page, read, Scope, write } from "../../internal/wire/api.js"
import { optional, required } from "../../internal/wire/json.js"
import * as Endpoint from "../Endpoint.js"
import { CheckpointId, ModelId } from "../Id.js"
import type { AccessScope } from "../TrainingRun.js"
import { TrainingRun, TrainingRunsResponse } from "../TrainingRun.js"
import * as Weights from "../Weights.js"

const CheckpointFields = {
  trainingRunId: required(ModelId, "training_run_id"),
  checkpointId: required(CheckpointId, "checkpoint_id")
}

const CheckpointParams = Schema.Struct(CheckpointFields)

const checkpointPath = "/api/v1/training_runs/{training_run_id}/checkpoints/{checkpoint_id}"

const RunParam = Schema.Struct({ trainingRunId: required(ModelId, "training_run_id") })

/**
 * Which page of a list.
 *
 * @since 0.1.0
 * @category models
 */
export interface PageRequest {
  readonly limit: number
  readonly offset: number
}

/**
 * Whose objects: one's own, or all one may see.
 *
 * @since 0.1.0
 * @category models
 */
export interface ScopedRequest {
  readonly accessScope: AccessScope
}

/**
 * Which run, whose.
 *
 * @since 0.1.0
 * @category models
 */
export interface RunRequest {
  readonly trainingRunId: ModelId
}

/**
 * Which checkpoint of which run.
 *
 * @since 0.1.0
 * @category models
 */
export interface CheckpointRequest extends RunRequest {
  /** `weights/NAME`, `sampler_weights/NAME` or `external_weights/NAME`. */
  readonly checkpointId: CheckpointId
}

/**
 * Content of a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const weightsInfo: Endpoint.Endpoint<Weights.WeightsInfoRequest, Weights.WeightsInfoResponse> = Endpoint.make(
  "weightsInfo",
  "POST",
  "/api/v1/weights_info",
  {
    ...read("RestClient.get_weights_info_by_tinker_path"),
    request: Weights.WeightsInfoRequest,
    response: Endpoint.json(Weights.WeightsInfoResponse)
  }
)

/**
 * Copies a checkpoint into a project.
 *
 * @since 0.1.0
 * @category models
 */
export const copyWeights: Endpoint.Endpoint<Weights.CopyWeightsRequest, Weights.CopyWeightsResponse> = Endpoint.make(
  "copyWeights",
  "POST",
  "/api/v1/copy_weights",
  {
    ...write("RestClient.copy_weights"),
    request: Weights.CopyWeightsRequest,
    response: Endpoint.json(Weights.CopyWeightsResponse)
  }
)

/**
 * Where to download the files of an external checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const externalWeightsUrls: Endpoint.Endpoint<CheckpointRequest, Weights.ExternalWeightsUrlsResponse> = Endpoint
  .make("externalWeightsUrls", "GET", `${checkpointPath}/external_weights_urls`, {
    ...read("RestClient.get_external_weights_urls"),
    request: CheckpointParams,
    response: Endpoint.json(Weights.ExternalWeightsUrlsResponse)
  })

/**
 * Training runs, newest first.
 *
 * @since 0.1.0
 * @category models
 */
export const listTrainingRuns: Endpoint.Endpoint<
  PageRequest & ScopedRequest & { readonly projectId?: string | undefined },
  TrainingRunsResponse
> = Endpoint.make("listTrainingRuns", "GET", "/api/v1/training_runs", {
  ...read("RestClient.list_training_runs"),
  request: Schema.Struct({ ...Page, accessScope: Scope, projectId: optional(Schema.String, "project_id") }),
  response: Endpoint.json(TrainingRunsResponse)
})

/**
 * One training run.
 *
 * @since 0.1.0
 * @category models
 */
export const getTrainingRun: Endpoint.Endpoint<RunRequest & ScopedRequest, TrainingRun> = Endpoint.make(
  "getTrainingRun",
  "GET",
  "/api/v1/training_runs/{training_run_id}",
  {
    ...read("RestClient.get_training_run"),
    request: Schema.Struct({ ...RunParam.fields, accessScope: Scope }),
    response: Endpoint.json(TrainingRun)
  }
)

/**
 * All checkpoints of a run.
 *
 * @since 0.1.0
 * @category models
 */
export const listCheckpoints: Endpoint.Endpoint<RunRequest, Checkpoint.CheckpointsListResponse> = Endpoint.make(
  "listCheckpoints",
  "GET",
  "/api/v1/training_runs/{training_run_id}/checkpoints",
  {
    ...read("RestClient.list_checkpoints"),
    request: RunParam,
    response: Endpoint.json(Checkpoint.CheckpointsListResponse)
  }
)

/**
 * Checkpoints of all one's runs, newest first.
 *
 * @since 0.1.0
 * @category models
 */
export const listUserCheckpoints: Endpoint.Endpoint<PageRequest, Checkpoint.CheckpointsListResponse> = Endpoint.make(
  "listUserCheckpoints",
  "GET",
  "/api/v1/checkpoints",
  {
    ...read("RestClient.list_user_checkpoints"),
    request: Schema.Struct(Page),
    response: Endpoint.json(Checkpoint.CheckpointsListResponse)
  }
)

/**
 * Deletes a checkpoint.
 *
 * @since 0.1.0
 * @category models
 */
export const deleteCheckpoint: Endpoint.Endpoint<CheckpointRequest, void> = Endpoint.make(
  "deleteCheckpoint",
  "DELETE",
  checkpointPath,
  { ...write("RestClient.delete_checkpoint_from_tinker_path"), request: CheckpointParams, response: Endpoint.none }
)

/**
 * Where to download a checkpoint: a 200 that says so, or a redirect, which is returned and not followed.
 *
 * @since 0.1.0
 * @category models
 */
export const checkpointArchive: Endpoint.Endpoint<CheckpointRequest, Checkpoint.CheckpointArchiveUrlResponse> = Endpoint
  .make("checkpointArchive", "GET", `${checkpointPath}/archive`, {
    ...read("RestClient.get_checkpoint_archive_url"),
    retry: "archive",
    redirects: "return",
    request: CheckpointParams,
    response: Endpoint.json(Checkpoint.CheckpointArchiveUrlResponse)
  })

/**
 * Makes a checkpoint public.
 *
 * @since 0.1.0
 * @category models
 */
export const publishCheckpoint: Endpoint.Endpoint<CheckpointRequest, void> = Endpoint.make(
  "publishCheckpoint",
  "POST",
  `${checkpointPath}/publish`,
  {
    ...write("RestClient.publish_checkpoint_from_tinker_path"),
    body: false,
    request: CheckpointParams,
    response: Endpoint.none
  }
)

/**
 * Makes a checkpoint private again.
 *
 * @since 0.1.0
 * @category models
 */
export const unpublishCheckpoint: Endpoint.Endpoint<CheckpointRequest, void> = Endpoint.make(
  "unpublishCheckpoint",
  "DELETE",
  `${checkpointPath}/publish`,
  { ...write("RestClient.unpublish_checkpoint_from_tinker_path"), request: CheckpointParams, response: Endpoint.none }
)

/**
 * Changes when a checkpoint expires; `null`: never.
 *
 * @since 0.1.0
 * @category models
 */
export const setCheckpointTtl: Endpoint.Endpoint<CheckpointRequest & { readonly ttlSeconds: number | null }, void> =
  Endpoint.make("setCheckpointTtl", "PUT", `${checkpointPath}/ttl`, {
    ...write("RestClient.set_checkpoint_ttl_from_tinker_path"),
    request: Schema.Struct({ ...CheckpointFields, ...Checkpoint.SetTtlRequest.fields }),
    response: Endpoint.none
  })
