/**
 * Spans for the user's own tracer. A client looks once, when it is built, whether there is one; without it none of this
 * runs.
 *
 * | span | covers |
 * | --- | --- |
 * | `TrainingClient.forwardBackward`, … | an operation until the server has accepted it; a sample until its result |
 * | `tinker.queue` | waiting for earlier operations of the model, or for a place among the samples in flight |
 * | `tinker.encode`, `tinker.decode` | a request to bytes, the bytes of a result to a value |
 * | `tinker.send`, `tinker.poll` | one HTTP exchange |
 * | `TinkerFuture.result` | waiting for the result of an accepted operation |
 *
 * Attributes are numbers, ids and words of the wire. A failed span names the kind of the error: its message may quote
 * what was sent.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as DefaultServices from "effect/DefaultServices"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"
import type * as TinkerConfig from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import { summaryOf } from "./telemetryEvents.js"

type Attributes = Readonly<Record<string, unknown>>

/** @internal */
export interface Tracing {
  /** Whether to open spans. */
  readonly spans: boolean
  /** Whether requests carry the W3C trace context. */
  readonly propagate: boolean
}

/** The tracer of a program without one: it records nothing. */
const builtIn = Context.get(DefaultServices.liveServices, Tracer.Tracer)

/** @internal */
export const make = (config: TinkerConfig.Service): Effect.Effect<Tracing> =>
  Effect.map(Effect.tracer, (tracer) => ({
    spans: Option.getOrElse(config.tracing, () => tracer !== builtIn),
    propagate: config.traceContext
  }))

/** Attributes of a span that failed. */
class Failure extends Error {
  override readonly name: string
  constructor(error: TinkerError.TinkerError) {
    super(summaryOf(error))
    this.name = error._tag
    delete this.stack
  }
}

const masked = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> =>
  Exit.isSuccess(exit)
    ? Exit.void
    : Exit.failCause(Cause.map(exit.cause, (error) => TinkerError.isTinkerError(error) ? new Failure(error) : error))

const open = (name: string, attributes: Attributes, kind: Tracer.SpanKind): Effect.Effect<Tracer.Span> =>
  Effect.makeSpan(name, { attributes, kind, captureStackTrace: false })

const ending = <A, E, R>(self: Effect.Effect<A, E, R>, span: Tracer.Span): Effect.Effect<A, E, R> =>
  Effect.onExit(
    self,
    (exit) => Effect.clockWith((clock) => Effect.sync(() => span.end(clock.unsafeCurrentTimeNanos(), masked(exit))))
  )

/**
 * Runs the effect in a new span, the parent of the spans inside it.
 *
 * @internal
 */
export const within = <A, E, R>(
  name: string,
  attributes: Attributes,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      open(name, attributes, "internal"),
      (span) => ending(restore(Effect.withParentSpan(self, span)), span)
    )
  )

/**
 * Adds to the span we are in.
 *
 * @internal
 */
export const annotate = (attributes: Attributes): Effect.Effect<void> => Effect.annotateCurrentSpan({ ...attributes })

/**
 * Waiting for admission, from now until `self` starts.
 *
 * @internal
 */
export const queued = <A, E, R, E2 = never>(
  queue: string,
  admit: (self: Effect.Effect<A, E, R>) => Effect.Effect<A, E | E2, R>,
  self: Effect.Effect<A, E, R>
): Effect.Effect<A, E | E2, R> =>
  Effect.flatMap(open("tinker.queue", { "tinker.queue": queue }, "internal"), (span) => {
    let waiting = true
    const end = (exit: Exit.Exit<unknown, unknown>) =>
      Effect.clockWith((clock) =>
        Effect.sync(() => {
          if (waiting) span.end(clock.unsafeCurrentTimeNanos(), masked(exit))
          waiting = false
        })
      )
    return Effect.onExit(admit(Effect.zipRight(end(Exit.void), self)), end)
  })

/** `00-TRACE-SPAN-FLAGS`, as W3C Trace Context has it. */
const traceparent = (span: Tracer.AnySpan): string => `00-${span.traceId}-${span.spanId}-${span.sampled ? "01" : "00"}`

/**
 * One HTTP exchange in its span; it is given the header to send along, if there is one.
 *
 * @internal
 */
export const exchange = (
  tracing: Tracing,
  name: "tinker.send" | "tinker.poll",
  attributes: Attributes,
  run: (header: string | undefined) => Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError>
): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
  if (!tracing.spans) {
    if (!tracing.propagate) return run(undefined)
    return Effect.flatMap(
      Effect.serviceOption(Tracer.ParentSpan),
      (parent) => run(Option.getOrUndefined(Option.map(parent, traceparent)))
    )
  }
  return Effect.flatMap(open(name, attributes, "client"), (span) =>
    ending(
      Effect.tapBoth(run(tracing.propagate ? traceparent(span) : undefined), {
        onSuccess: ({ body, status }) =>
          Effect.sync(() => {
            span.attribute("http.response.status_code", status)
            span.attribute("tinker.response_bytes", body.length)
          }),
        onFailure: (error) =>
          Effect.sync(() => {
            span.attribute("error.type", error._tag)
            if (error.status !== undefined) span.attribute("http.response.status_code", error.status)
          })
      }),
      span
    ))
}

const refused = Exit.fail(new Error("it could not be read"))

type Read<in I, out A> = (input: I) => Either.Either<A, string>

/**
 * Waiting for a result, in its span; the callback gets a wrapper that shows a decoder as a child span.
 *
 * @internal
 */
export const result = <A, E, R>(
  attributes: Attributes,
  run: (timed: <I, B>(read: Read<I, B>) => Read<I, B>) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> =>
  within(
    "TinkerFuture.result",
    attributes,
    Effect.flatMap(Effect.tracer, (tracer) =>
      Effect.flatMap(Effect.serviceOption(Tracer.ParentSpan), (parent) =>
        Effect.clockWith((clock) =>
          run((read) =>
          (input) => {
            // With tracing disabled there is still a parent, but it is not recorded.
            if (Option.isNone(parent) || !parent.value.sampled) {
              return read(input)
            }
            const now = clock.unsafeCurrentTimeNanos()
            const span = tracer.span("tinker.decode", parent, Context.empty(), [], now, "internal")
            if (input instanceof Uint8Array) {
              span.attribute("tinker.bytes", input.length)
            }
            const value = read(input)
            span.end(clock.unsafeCurrentTimeNanos(), Either.isRight(value) ? Exit.void : refused)
            return value
          })
        )))
  )

/**
 * Work that is done in one step, as a span; `describe` says what came of it.
 *
 * @internal
 */
export const step = <A>(
  name: string,
  work: () => A,
  describe: (value: A) => Attributes
): Effect.Effect<A> =>
  Effect.flatMap(open(name, {}, "internal"), (span) =>
    Effect.clockWith((clock) => {
      const value = work()
      for (const [key, attribute] of Object.entries(describe(value))) span.attribute(key, attribute)
      span.end(clock.unsafeCurrentTimeNanos(), Exit.void)
      return Effect.succeed(value)
    }))
