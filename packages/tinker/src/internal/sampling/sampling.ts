/**
 * One sampler: numbering, admission, submission, awaiting the result, and failures.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as PubSub from "effect/PubSub"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ModelInput from "../../ModelInput.js"
import type * as QueueState from "../../QueueState.js"
import type { SampleOptions, Settings } from "../../SamplingClient.js"
import * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { ClientDynamicConfig } from "../../wire/ClientConfig.js"
import type { UntypedFuture } from "../../wire/Future.js"
import { CancelFutureRequest, SamplingSessionTarget } from "../../wire/Future.js"
import type { RequestId, SamplingSessionId } from "../../wire/Id.js"
import * as Sample from "../../wire/Sample.js"
import { JoinSamplingSessionRequest } from "../../wire/Sampler.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import * as Poll from "../polling/poll.js"
import type { ServiceContext } from "../session/session.js"
import { promptBytes } from "../training/batches.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import * as Errors from "../transport/errors.js"
import * as Dispatcher from "./dispatcher.js"
import * as FuturesPoller from "./futuresPoller.js"
import { SampleAttempt } from "./sampleAttempt.js"
import * as SampleRequest from "./sampleRequest.js"

// -----------------------------------------------------------------------------
// Detects a stuck sampler: samples wait, and none has finished for too long.
// -----------------------------------------------------------------------------

interface SampleProgress {
  /** A sample begins. */
  readonly begin: (now: number) => void
  /** It has ended, with a response or without. */
  readonly end: (answered: boolean, now: number) => void
  /** The reason to stop waiting, if there is one. */
  readonly giveUp: (now: number) => TinkerError.TinkerError | undefined
  /** Samples in flight. */
  readonly inFlight: () => number
}

/**
 * @param within no response for this long, while samples wait, means stuck
 * @internal
 */
const makeSampleProgress = (label: string, within: Duration.Duration): SampleProgress => {
  const limit = Duration.toMillis(within)
  let inFlight = 0
  let moved = 0
  return {
    begin: (now) => {
      // Idle time does not count.
      if (inFlight++ === 0) moved = now
    },
    end: (answered, now) => {
      inFlight--
      if (answered) moved = now
    },
    giveUp: (now) =>
      now - moved <= limit ? undefined : new TinkerError.Stuck({
        module: "SamplingClient",
        method: "sample",
        description: `no response to any of the ${inFlight} samples in flight from ${label} for ${
          Duration.format(Duration.millis(now - moved))
        }`
      }),
    inFlight: () => inFlight
  }
}

// -----------------------------------------------------------------------------
// Cancels abandoned samples on the server: if it supports that, best effort, never in the
// caller's way.
// -----------------------------------------------------------------------------

type Cancel = (requestId: RequestId) => Effect.Effect<void>

const makeCancel = (options: {
  readonly api: ApiClient.Service
  readonly scope: Scope.Scope
  readonly dynamicConfig: Effect.Effect<ClientDynamicConfig, TinkerError.TinkerError>
}): Cancel => {
  const { dynamicConfig, scope, api } = options
  const line = Admission.makeSemaphore(1)
  const post = Effect.fnUntraced(function*(requestId: RequestId) {
    const { sampleCancelEnabled, sampleCancelMaxBatchSize } = yield* dynamicConfig
    if (!sampleCancelEnabled) return
    yield* line.resize(sampleCancelMaxBatchSize)
    yield* line.withPermit(
      api.call(Api.cancelFuture, new CancelFutureRequest({ requestId }), {
        from: { module: "SamplingClient", method: "cancel" }
      })
    )
  })
  return (requestId) =>
    post(requestId).pipe(
      Effect.catchAll((error) =>
        Effect.logDebug(`Sample ${requestId} could not be cancelled`, error.message).pipe(
          Logs.of("SamplingClient", { requestId })
        )
      ),
      Effect.interruptible,
      Effect.forkIn(scope),
      Effect.asVoid
    )
}

// -----------------------------------------------------------------------------
// Samplers.
// -----------------------------------------------------------------------------

const from = (method: string) => ({ module: "SamplingClient", method })

/** The range of sequence numbers of each client of a sampler. */
const clientRange = 1_000_000_000

/** Keeps `clientRange` times the number within the integers a double holds exactly. */
const mostRandomClients = 9_000_000

const bySchema = Poll.fromSchema(Sample.SampleResponse)

const decoder: Poll.Decoder<Sample.SampleResponse> = {
  protobuf: (body) => Either.mapLeft(Sample.decodeResponse(body), (error) => error.description ?? error.message),
  json: bySchema.json
}

/**
 * Where a client's numbers come from: the original counts from 0, a copy from a range reserved for it.
 *
 * @internal
 */
export type Numbering = "original" | "copy"

interface Sampling {
  /** The operation of the client with this name. */
  readonly operation: (
    method: string
  ) => (options: SampleOptions) => Effect.Effect<Sample.SampleResponse, TinkerError.SamplingError>
  readonly events: Stream.Stream<QueueState.Event>
}

/** Span attributes by OpenTelemetry's conventions for generative models: those a backend knows how to show. */
const generation = (options: SampleOptions, model: string | undefined, tokens: number) => {
  const asked = {
    "gen_ai.operation.name": "text_completion",
    "gen_ai.provider.name": "tinker",
    "gen_ai.request.model": model,
    "gen_ai.request.max_tokens": options.maxTokens,
    "gen_ai.request.temperature": options.temperature,
    "gen_ai.request.top_k": options.topK,
    "gen_ai.request.top_p": options.topP,
    "gen_ai.request.seed": options.seed,
    "gen_ai.request.choice.count": options.numSamples,
    "gen_ai.usage.input_tokens": tokens
  }
  return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined))
}

const generated = (sequences: Sample.SampleResponse["sequences"]) => ({
  "gen_ai.usage.output_tokens": sequences.reduce((sum, { tokens }) => sum + tokens.length, 0),
  "gen_ai.response.finish_reasons": sequences.map(({ stopReason }) => stopReason)
})

/** @internal */
export const make: (
  service: ServiceContext,
  samplingSessionId: SamplingSessionId,
  numbering: Numbering,
  settings: Settings,
  model: string | undefined
) => Effect.Effect<Sampling, TinkerError.TinkerError, Scope.Scope> = Effect.fnUntraced(
  function*(service, samplingSessionId, numbering, settings, model) {
    const { api, budgets: { inflight } } = service
    const config = yield* service.clientConfig
    const scope = yield* Effect.scope
    const policies = yield* api.policies
    const dispatch = Dispatcher.ofTenant(api.tenant)
    yield* dispatch.resize(config.sampleDispatchBytesSemaphoreSize)
    const events = yield* Effect.acquireRelease(PubSub.sliding<QueueState.Event>(64), PubSub.shutdown)
    const log = Logs.makeQueueLog(`Sampling from ${samplingSessionId}`)
    const onEvent = (event: QueueState.Event) => Effect.zipRight(PubSub.publish(events, event), log(event))
    const patience = Duration.decode(settings.progressTimeout ?? "2 hours")
    const progress = makeSampleProgress(
      samplingSessionId,
      config.sampleEnableStuckDetection ? patience : Duration.infinity
    )
    // With the shared poll, a sample in progress costs the server no held request.
    const sharedPoll = config.sampleUseRetrieveFutures
    const permits = Admission.makeSemaphore(config.sampleMaxConcurrentRequests)
    const cancel = makeCancel({ api, scope, dynamicConfig: service.dynamicConfig })

    const joined = Admission.makeSemaphore(1)
    let client = numbering === "original" ? 0 : undefined
    let count = 0
    const join = Effect.gen(function*() {
      if (client !== undefined) return client
      return client = config.sampleJoinSamplingSession
        ? (yield* api.call(Api.joinSamplingSession, new JoinSamplingSessionRequest({ samplingSessionId }), {
          from: from("join")
        })).clientCounter
        : yield* Random.nextIntBetween(1, mostRandomClients)
    })
    const clientNumber = Effect.suspend(() => client === undefined ? joined.withPermit(join) : Effect.succeed(client))

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
              giveUp: progress.giveUp,
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
        giveUp: progress.giveUp,
        onEvent
      })

    const result = (receipt: UntypedFuture, sample: SampleAttempt, number: number) => {
      if (!sharedPoll) return fetch(receipt, sample, undefined)
      return Effect.flatMap(
        pollerOf(number),
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

    const submit = (request: Sample.SampleRequest, sample: SampleAttempt, bytes: number) => {
      const { cancellation, clock, from } = sample
      const place = dispatch.enter(bytes, sample.now)
      sample.submit(place)
      return dispatch.submit({
        call: () => api.prepare(Api.asample, request, { from, cancellation }),
        bytes,
        clock,
        spans: api.tracing.spans,
        again: api.again,
        giveUp: progress.giveUp,
        id: [samplingSessionId, request.seqId ?? 0],
        onEvent
      }, place)
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

    /** One request, numbered, to its result. */
    const numbered = (request: Sample.SampleRequest, sample: SampleAttempt, bytes: number, number: number) =>
      Effect.flatMap(submit(request, sample, bytes), (receipt) => {
        sample.accept(receipt.requestId)
        const answered = Effect.flatMap(
          result(receipt, sample, number),
          (response) => checked(request, response, receipt, sample)
        )
        return api.tracing.spans
          ? Effect.zipRight(
            Tracing.annotate({ "tinker.seq_id": request.seqId, "tinker.request_id": receipt.requestId }),
            answered
          )
          : answered
      })

    /** Takes a new number each time it runs. */
    const once = (draft: SampleRequest.Draft, sample: SampleAttempt, bytes: number) => {
      const send = (number: number) => numbered(draft(number * clientRange + count++), sample, bytes, number)
      return Effect.suspend(() => client === undefined ? Effect.flatMap(clientNumber, send) : send(client))
    }

    const emitFailed = (
      sample: SampleAttempt,
      error: TinkerError.TinkerError,
      retrying: boolean,
      now: number
    ): void => {
      if (config.sampleNoRetries) return
      api.emit({
        _tag: "SampleFailed",
        error,
        retrying,
        attempt: sample.submissions,
        elapsed: now - sample.started
      })
    }

    const emitFinal = (sample: SampleAttempt, cause: Cause.Cause<TinkerError.TinkerError>, now: number): void => {
      if (cause._tag !== "Fail") return
      emitFailed(sample, cause.error, false, now)
      api.emit({ _tag: "OperationFailed", error: cause.error })
    }

    const tracked = <A>(sample: SampleAttempt, self: Effect.Effect<A, TinkerError.TinkerError>) => {
      sample.started = sample.now
      progress.begin(sample.started)
      return Effect.matchCauseEffect(self, {
        onFailure: (cause) => {
          const { now, unanswered } = sample
          progress.end(false, now)
          emitFinal(sample, cause, now)
          sample.end()
          return unanswered !== undefined && Cause.isInterrupted(cause)
            ? Effect.zipRight(cancel(unanswered), Effect.failCause(Errors.toSamplingCause(cause)))
            : Effect.failCause(Errors.toSamplingCause(cause))
        },
        onSuccess: (value) => {
          const { now } = sample
          progress.end(true, now)
          sample.end()
          Observer.finished("Sample", now - sample.started)
          return Effect.succeed(value)
        }
      })
    }

    /** Counted as in progress and, unless the poll is shared, under a permit: one uninterruptible region for both. */
    const inProgress = <A>(
      sample: SampleAttempt,
      self: Effect.Effect<A, TinkerError.TinkerError>
    ): Effect.Effect<A, TinkerError.SamplingError> =>
      Effect.uninterruptibleMask((restore) =>
        sharedPoll || permits.tryEnter(1)
          ? tracked(sample, restore(self))
          : Effect.flatMap(permits.enter(restore, 1), () => tracked(sample, restore(self)))
      )

    /** A sample whose result the server has lost is submitted as a new request. */
    const resubmitted = <A>(attempt: Effect.Effect<A, TinkerError.TinkerError>, sample: SampleAttempt) =>
      Effect.catchAll(attempt, (error) =>
        error._tag !== "FutureExpired" ? Effect.fail(error) : api.again({
          name: Api.asample.name,
          class: "resubmit",
          error,
          run: () => attempt,
          onDecision: ({ delay, error }) =>
            delay === undefined ? Effect.void : Effect.sync(() => {
              sample.forget()
              emitFailed(sample, error, true, sample.now)
            })
        }))

    const operation: Sampling["operation"] = (method) => (options) =>
      Effect.clockWith((clock) => {
        const prompt = ModelInput.from(options.prompt)
        const draft = SampleRequest.make(method, options, prompt, samplingSessionId, settings)
        if (Either.isLeft(draft)) return Effect.fail(draft.left)
        const sample = new SampleAttempt(clock, from(method), sharedPoll ? undefined : permits)
        const attempt = once(draft.right, sample, promptBytes(prompt))
        const work = inProgress(sample, config.sampleNoRetries ? attempt : resubmitted(attempt, sample))
        const tokens = Observer.lengthOf(prompt)
        Observer.tokensIn("Sample", tokens)
        if (!api.tracing.spans) return work
        return Tracing.within(`SamplingClient.${method}`, {
          "tinker.sampling_session_id": samplingSessionId,
          "tinker.model": model,
          "tinker.tokens": tokens,
          "tinker.num_samples": options.numSamples ?? 1,
          ...generation(options, model, tokens)
        }, Effect.tap(work, ({ sequences }) => Tracing.annotate(generated(sequences))))
      })

    return { operation, events: Stream.fromPubSub(events) }
  }
)
