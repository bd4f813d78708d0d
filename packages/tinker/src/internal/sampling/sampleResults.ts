/**
 * Results of accepted samples: awaited by a poll of their own or by the one that all samples of a client share, and checked
 * against what was asked for.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Scope from "effect/Scope"
import type * as QueueState from "../../QueueState.js"
import * as TinkerError from "../../TinkerError.js"
import type { UntypedFuture } from "../../wire/Future.js"
import { SamplingSessionTarget } from "../../wire/Future.js"
import type { SamplingSessionId } from "../../wire/Id.js"
import * as Sample from "../../wire/Sample.js"
import * as Observer from "../observability/observer.js"
import * as Poll from "../polling/poll.js"
import type { ServiceContext } from "../session/session.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as FuturesPoller from "./futuresPoller.js"
import type { SampleAttempt } from "./sampleAttempt.js"
import type { SampleProgress } from "./sampleProgress.js"
import * as SampleRequest from "./sampleRequest.js"

const bySchema = Poll.fromSchema(Sample.SampleResponse)

const decoder: Poll.Decoder<Sample.SampleResponse> = {
  protobuf: (body) => Either.mapLeft(Sample.decodeResponse(body), (error) => error.description ?? error.message),
  json: bySchema.json
}

/** @internal */
export interface Options {
  readonly api: ApiClient.Service
  readonly inflight: ServiceContext["budgets"]["inflight"]
  readonly scope: Scope.Scope
  readonly policies: Effect.Effect.Success<ApiClient.Service["policies"]>
  readonly samplingSessionId: SamplingSessionId
  readonly giveUp: SampleProgress["giveUp"]
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<unknown>
  /** With the shared poll, a sample in progress costs the server no held request. */
  readonly sharedPoll: boolean
}

/** Waits for the result of an accepted request of a client. @internal */
export type AwaitResult = (
  request: Sample.SampleRequest,
  receipt: UntypedFuture,
  sample: SampleAttempt,
  client: number
) => Effect.Effect<Sample.SampleResponse, TinkerError.TinkerError>

/** @internal */
export const make = (options: Options): AwaitResult => {
  const { api, giveUp, inflight, onEvent, policies, samplingSessionId, scope, sharedPoll } = options
  let poller: FuturesPoller.FuturesPoller | undefined
  const pollerOf = (clonedSamplerId: number): Effect.Effect<FuturesPoller.FuturesPoller> =>
    Effect.suspend(() =>
      poller !== undefined
        ? Effect.succeed(poller)
        : Effect.map(
          FuturesPoller.make({
            api,
            scope,
            policies,
            giveUp,
            onEvent,
            target: new SamplingSessionTarget({ samplingSessionId, clonedSamplerId })
          }),
          (made) => poller ??= made
        )
    )

  const fetch = (receipt: UntypedFuture, sample: SampleAttempt, ready: number | undefined) =>
    Poll.poll({
      api,
      inflight,
      requestId: receipt.requestId,
      requestType: "Sample",
      from: sample.from,
      cancellation: sample.cancellation,
      decoder,
      roundtrip: 0,
      ready,
      giveUp,
      onEvent
    })

  const result = (receipt: UntypedFuture, sample: SampleAttempt, client: number) => {
    if (!sharedPoll) return fetch(receipt, sample, undefined)
    return Effect.flatMap(
      pollerOf(client),
      (shared) =>
        Effect.flatMap(shared.waitFor(receipt.requestId), (completion) => {
          const size = completion.responsePayloadUncompressedSize ?? 0
          return Effect.tap(
            fetch(receipt, sample, completion.state === "finished" && size > 0 ? size : undefined),
            () => shared.fetched(receipt.requestId)
          )
        })
    )
  }

  const checked = (
    request: Sample.SampleRequest,
    response: Sample.SampleResponse,
    receipt: UntypedFuture,
    sample: SampleAttempt
  ) => {
    sample.forget()
    const moved = SampleRequest.aligned(request, response)
    const missing = SampleRequest.unanswered(request, moved ?? response)
    let tokens = 0
    for (const sequence of response.sequences) tokens += sequence.tokens.length
    Observer.tokensOut(tokens)
    if (missing === undefined && moved !== undefined) {
      return Effect.as(
        api.serverFacts.note(
          "promptLogprobs",
          "The server leaves out the first token's place among prompt logprobs; they are moved back to their tokens"
        ),
        SampleRequest.named(moved, receipt)
      )
    }
    return missing === undefined
      ? Effect.succeed(SampleRequest.named(response, receipt))
      : new TinkerError.MalformedResponse({ ...sample.from, requestId: receipt.requestId, description: missing })
  }

  return (request, receipt, sample, client) =>
    Effect.flatMap(result(receipt, sample, client), (response) => checked(request, response, receipt, sample))
}
