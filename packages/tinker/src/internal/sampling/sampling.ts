/**
 * One sampler: admission and submission of its samples, and what their failures mean. Their numbers, their results, their
 * cancellation and the watch for a stuck sampler are modules beside it.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as PubSub from "effect/PubSub"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ModelInput from "../../ModelInput.js"
import type * as QueueState from "../../QueueState.js"
import type { SampleOptions, Settings } from "../../SamplingClient.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { SamplingSessionId } from "../../wire/Id.js"
import type * as Sample from "../../wire/Sample.js"
import * as Logs from "../observability/logs.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import type { ServiceContext } from "../session/session.js"
import { promptBytes } from "../training/batches.js"
import * as Admission from "../transport/admission.js"
import * as Errors from "../transport/errors.js"
import * as Dispatcher from "./dispatcher.js"
import { SampleAttempt } from "./sampleAttempt.js"
import * as SampleCancel from "./sampleCancel.js"
import * as SampleNumbers from "./sampleNumbers.js"
import * as SampleProgress from "./sampleProgress.js"
import * as SampleRequest from "./sampleRequest.js"
import * as SampleResults from "./sampleResults.js"
import * as SampleSpan from "./sampleSpan.js"

const from = (method: string) => ({ module: "SamplingClient", method })

interface Sampling {
  /** The operation of the client with this name. */
  readonly operation: (
    method: string
  ) => (options: SampleOptions) => Effect.Effect<Sample.SampleResponse, TinkerError.SamplingError>
  readonly events: Stream.Stream<QueueState.Event>
}

/** @internal */
export const make: (
  service: ServiceContext,
  samplingSessionId: SamplingSessionId,
  numbering: SampleNumbers.Numbering,
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
    const progress = SampleProgress.make(
      samplingSessionId,
      config.sampleEnableStuckDetection ? patience : Duration.infinity
    )
    // With the shared poll, a sample in progress costs the server no held request.
    const sharedPoll = config.sampleUseRetrieveFutures
    const permits = Admission.makeSemaphore(config.sampleMaxConcurrentRequests)
    const cancel = SampleCancel.make({ api, scope, dynamicConfig: service.dynamicConfig })
    const numbers = SampleNumbers.make({
      api,
      samplingSessionId,
      numbering,
      canJoin: config.sampleJoinSamplingSession
    })
    const awaitResult = SampleResults.make({
      api,
      inflight,
      scope,
      policies,
      samplingSessionId,
      giveUp: progress.giveUp,
      onEvent,
      sharedPoll
    })

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

    /** One request, numbered, to its result. */
    const numbered = (request: Sample.SampleRequest, sample: SampleAttempt, bytes: number, client: number) =>
      Effect.flatMap(submit(request, sample, bytes), (receipt) => {
        sample.accept(receipt.requestId)
        const answered = awaitResult(request, receipt, sample, client)
        return api.tracing.spans
          ? Effect.zipRight(
            Tracing.annotate({ "tinker.seq_id": request.seqId, "tinker.request_id": receipt.requestId }),
            answered
          )
          : answered
      })

    /** Takes a new number each time it runs. */
    const once = (draft: SampleRequest.Draft, sample: SampleAttempt, bytes: number) =>
      numbers.withClient((client) => numbered(draft(numbers.next(client)), sample, bytes, client))

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
          ...SampleSpan.requested(options, model, tokens)
        }, Effect.tap(work, ({ sequences }) => Tracing.annotate(SampleSpan.responded(sequences))))
      })

    return { operation, events: Stream.fromPubSub(events) }
  }
)
