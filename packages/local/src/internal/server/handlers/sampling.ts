/**
 * Samples, and the polls that fetch results.
 */
import * as Entropy from "@effect-tinker/platform/Entropy"
import * as Api from "effect-tinker/wire/Api"
import * as Future from "effect-tinker/wire/Future"
import { RequestId } from "effect-tinker/wire/Id"
import * as Sample from "effect-tinker/wire/Sample"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as ParseResult from "effect/ParseResult"
import { Engine } from "../../../Engine.js"
import type { Outcome } from "../futures.js"
import { accepted, Futures, Gate, result } from "../futures.js"
import { fingerprint } from "../identity.js"
import { Ledger } from "../ledger.js"
import { badRequest, conflict, gone, json, jsonText, Reply } from "../message.js"
import type { Call } from "../router.js"
import { route } from "../router.js"
import { SamplePool, Samplers } from "../samplers.js"
import { Sessions } from "../sessions.js"
import { Settings } from "../settings.js"
import { checkSample, toEngine, toResponse } from "../wire.js"

/** Copies of a sampling client number their requests from multiples of this. */
const clientRange = 1_000_000_000

/** From what to sample: a sampler of the caller, or weights named by the request itself. */
const sourceOf = Effect.fnUntraced(function*(request: Sample.SampleRequest, call: Call) {
  const samplers = yield* Samplers
  const sessions = yield* Sessions
  if (request.samplingSessionId !== undefined) {
    if (request.seqId === undefined) return yield* badRequest("seq_id is required with sampling_session_id")
    const sampler = yield* samplers.require(request.samplingSessionId, call.caller.urn)
    const session = yield* sessions.requireAlive(sampler.sessionId, call.caller.urn)
    return { sampler, session, requestId: `${sampler.id}:${request.seqId}` }
  }
  if (request.baseModel === undefined && request.modelPath === undefined) {
    return yield* badRequest("One of sampling_session_id, model_path and base_model is required")
  }
  const id = yield* Entropy.uuid
  const sampler = {
    id,
    owner: call.caller.urn,
    baseModel: request.baseModel ?? "",
    modelPath: request.modelPath,
    ephemeral: false
  }
  return { sampler, session: undefined, requestId: id }
})

const sizeOf = (outcome: Outcome): number | undefined =>
  outcome._tag === "Completed" ? (outcome.proto?.().length ?? outcome.json().length) : undefined

/** Accepted as a whole or not at all, whatever happens to the connection. */
const asample = Effect.fnUntraced(function*(request: Sample.SampleRequest, call: Call) {
  const { models } = yield* Engine
  yield* checkSample(request, Math.max(...models.map(({ contextLength }) => contextLength)))
  const futures = yield* Futures
  const gate = yield* Gate
  const ledger = yield* Ledger
  const pool = yield* SamplePool
  const samplers = yield* Samplers
  const { requestId, sampler, session } = yield* sourceOf(request, call)
  const sequences = Array.from({ length: request.numSamples }, (_, index) => `${requestId}:${index}`)
  const body = fingerprint(call.body)
  const known = futures.find(requestId)
  if (known !== undefined) {
    return known.fingerprint === body
      ? accepted(known, { sequences })
      : yield* conflict(`seq_id ${request.seqId} of sampler ${sampler.id} was used for another request`)
  }
  yield* pool.admit
  const future = yield* futures.open({
    requestId,
    owner: call.caller.urn,
    sessionId: session?.id,
    fingerprint: body,
    report: () => gate.report() ?? { state: "active" }
  })
  yield* pool.submit({
    future,
    group: session?.id ?? call.caller.urn,
    run: Effect.gen(function*() {
      const engine = yield* samplers.open(sampler)
      const query = yield* toEngine(request)
      const answer = yield* engine.sample(query)
      const usage = {
        owner: call.caller.urn,
        baseModel: engine.baseModel,
        sessionId: session?.id,
        projectId: session?.projectId
      }
      const sampled = answer.sequences.reduce((sum, { tokens }) => sum + tokens.length, 0)
      yield* ledger.charge({ ...usage, kind: "sampling_prefill", count: query.prompt.length })
      yield* ledger.charge({ ...usage, kind: "sampling_sample", count: sampled })
      const response = toResponse(request, answer)
      const numbers = sampled * (2 + 2 * (request.topkSampleLogprobs ?? 0)) +
        query.prompt.length * (1 + 2 * (request.topkPromptLogprobs ?? 0))
      return result(Sample.SampleResponse, response, {
        proto: () => Either.getOrThrow(Sample.encodeResponse(response)),
        bytes: 1024 + 8 * numbers
      })
    }),
    done: (outcome) =>
      samplers.log(sampler.id, Math.floor((request.seqId ?? 0) / clientRange), {
        requestId,
        state: outcome._tag === "Completed" ? "finished" : "failed",
        size: sizeOf(outcome)
      })
  })
  return accepted(future, { sequences })
}, Effect.uninterruptible)

const encodeTryAgain = ParseResult.encodeSync(Future.TryAgain)

const retrieveFuture = Effect.fnUntraced(function*(request: Api.PollRequest, call: Call) {
  const futures = yield* Futures
  const { hold, inlineResultBytes } = yield* Settings
  const future = yield* futures.require(request.requestId, call.caller.urn)
  const outcome = Option.getOrUndefined(yield* futures.wait(future, hold))
  if (outcome === undefined) {
    const { reason, state } = future.report()
    return json(
      200,
      encodeTryAgain(
        new Future.TryAgain({ requestId: future.requestId, queueState: state, queueStateReason: reason })
      )
    )
  }
  switch (outcome._tag) {
    case "Gone":
      return yield* gone(`Request ${future.requestId}: ${outcome.why}`)
    case "Failed":
      return json(200, { error: outcome.error, category: outcome.category })
    case "Completed": {
      const asProto = outcome.proto !== undefined &&
        (call.headers["accept"]?.includes("application/x-protobuf") ?? false)
      const body = asProto ? outcome.proto() : outcome.json()
      if (request.allowMetadataOnly && body.length > inlineResultBytes) {
        return json(200, { status: "complete_metadata", response_payload_size: body.length })
      }
      yield* futures.delivered(future)
      return typeof body === "string"
        ? jsonText(200, body)
        : new Reply({ status: 200, headers: { "content-type": "application/x-protobuf" }, body })
    }
  }
})

const retrieveFutures = Effect.fnUntraced(function*(request: Future.FuturesRetrieveRequest, call: Call) {
  const futures = yield* Futures
  const samplers = yield* Samplers
  const { hold } = yield* Settings
  const { urn } = call.caller
  const sampler = yield* samplers.require(request.target.samplingSessionId, urn)
  yield* Effect.forEach(request.retrievedRequestIds ?? [], (id) => futures.forget(id, urn), { discard: true })
  const wait = request.timeout === undefined ? hold : Duration.min(hold, Duration.seconds(request.timeout))
  const { completions, cursor } = yield* samplers.read(
    sampler.id,
    request.target.clonedSamplerId,
    request.prevCursor,
    wait
  )
  return new Future.FuturesRetrieveResponse({
    cursor,
    completions: completions.map(({ requestId, size, state }) =>
      new Future.FutureCompletion({
        state,
        requestId: RequestId.make(requestId),
        ...(size === undefined ? {} : { responsePayloadUncompressedSize: size })
      })
    )
  })
})

/** @internal */
export const samplingRoutes = [
  route(Api.asample, asample),
  route(Api.retrieveFuture, retrieveFuture),
  route(Api.retrieveFutures, retrieveFutures),
  route(Api.cancelFuture, (request, call) =>
    Effect.gen(function*() {
      const futures = yield* Futures
      const future = yield* futures.require(request.requestId, call.caller.urn)
      yield* futures.settle(future, { _tag: "Gone", why: "it was cancelled" })
    }))
]
