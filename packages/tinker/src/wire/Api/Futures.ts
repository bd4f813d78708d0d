/**
 * Sampling, and the results of all that is accepted first and computed later.
 *
 * @since 0.1.0
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import * as sampleJson from "../../internal/sampling/sampleRequest.js"
import * as Endpoint from "../Endpoint.js"
import * as Future from "../Future.js"
import { SampleRequest } from "../Sample.js"

/**
 * A poll for the result of one operation.
 *
 * @since 0.1.0
 * @category models
 */
export interface PollRequest {
  readonly requestId: string
  readonly allowMetadataOnly: boolean
}

/** Polls are the most frequent request of all: written by hand, where a schema would cost more than the sending. */
const PollJson: Endpoint.Codec<PollRequest> = {
  contentType: "application/json",
  encode: (poll) =>
    Either.right(
      `{"request_id":${JSON.stringify(poll.requestId)},"allow_metadata_only":${
        poll.allowMetadataOnly ? "true" : "false"
      }}`
    ),
  decode: Endpoint.json(Future.FutureRetrieveRequest).decode
}

/**
 * Draws samples. A 429 is left to the caller, whose dispatcher slows everyone down.
 *
 * @since 0.1.0
 * @category models
 */
export const asample: Endpoint.Endpoint<SampleRequest, Future.UntypedFuture> = Endpoint.makeBody(
  "asample",
  "POST",
  "/api/v1/asample",
  {
    pool: "sampling",
    retry: "sample",
    headers: { "x-tinker-sampling-backpressure": "1" },
    request: sampleJson.request,
    decodeRequest: Endpoint.decodeJson(SampleRequest),
    response: sampleJson.receipt
  }
)

/**
 * Waits for one result. The response's shape depends on the operation.
 *
 * @since 0.1.0
 * @category models
 */
export const retrieveFuture: Endpoint.Endpoint<PollRequest, unknown> = Endpoint.makeBody(
  "retrieveFuture",
  "POST",
  "/api/v1/retrieve_future",
  {
    pool: "futures",
    retry: "poll",
    timeout: "45 seconds",
    large: true,
    request: PollJson,
    decodeRequest: Endpoint.decodeJson(Future.FutureRetrieveRequest),
    response: Endpoint.json(Schema.Unknown)
  }
)

/**
 * Waits for any result of a sampler.
 *
 * @since 0.1.0
 * @category models
 */
export const retrieveFutures: Endpoint.Endpoint<Future.FuturesRetrieveRequest, Future.FuturesRetrieveResponse> =
  Endpoint.make("retrieveFutures", "POST", "/api/v1/retrieve_futures", {
    pool: "completions",
    retry: "poll",
    timeout: "45 seconds",
    large: true,
    request: Future.FuturesRetrieveRequest,
    response: Endpoint.json(Future.FuturesRetrieveResponse)
  })

/**
 * Tells the server that a result is no longer awaited.
 *
 * @since 0.1.0
 * @category models
 */
export const cancelFuture: Endpoint.Endpoint<Future.CancelFutureRequest, void> = Endpoint.make(
  "cancelFuture",
  "POST",
  "/api/v1/cancel_future",
  {
    pool: "futures",
    retry: "restWrite",
    timeout: "30 seconds",
    request: Future.CancelFutureRequest,
    response: Endpoint.none
  }
)
