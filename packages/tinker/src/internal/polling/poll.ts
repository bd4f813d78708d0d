/**
 * Waiting for the result of one accepted operation, as one interruptible Effect. Most results are there at the first poll;
 * for all others there is a machine.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as TinkerError from "../../TinkerError.js"
import * as Tracing from "../observability/tracing.js"
import { waitFrom } from "./machine.js"
import * as Request from "./request.js"

/** @internal */
export type Options<A> = Request.Options<A>

/** @internal */
export const poll = <A>(options: Options<A>): Effect.Effect<A, TinkerError.TinkerError> =>
  options.api.tracing.spans ? traced(options) : untraced(options)

const traced = <A>(options: Options<A>): Effect.Effect<A, TinkerError.TinkerError> => {
  const { json, protobuf } = options.decoder
  return Tracing.result({
    "tinker.request_id": options.requestId,
    "tinker.request_type": options.requestType
  }, (timed) =>
    untraced({
      ...options,
      decoder: { json: timed(json), protobuf: protobuf === undefined ? undefined : timed(protobuf) },
      onEvent: (event) =>
        Effect.zipRight(
          Tracing.annotate(
            event._tag === "Queued"
              ? { "tinker.queue_state": event.state, "tinker.queue_reason": event.reason }
              : { "tinker.queue_state": event._tag }
          ),
          options.onEvent(event)
        )
    }))
}

const untraced = <A>(options: Request.Options<A>): Effect.Effect<A, TinkerError.TinkerError> =>
  Effect.clockWith((clock) => {
    const started = clock.unsafeCurrentTimeMillis()
    const reason = options.giveUp?.(started)
    if (reason !== undefined) return Effect.fail(reason)
    if (options.ready !== undefined) return waitFrom(options, clock, started, undefined)
    // Most results are there at the first poll, as protobuf: then the machine for all the rest is never built.
    return Effect.matchEffect(Request.ask(options, options.iteration ?? 0, true), {
      onFailure: (error) => waitFrom(options, clock, started, { sent: started, result: Either.left(error) }),
      onSuccess: (response) => {
        const value = response.headers["content-type"] === "application/x-protobuf"
          ? options.decoder.protobuf?.(response.body)
          : undefined
        return value !== undefined && Either.isRight(value)
          ? Effect.succeed(value.right)
          : waitFrom(options, clock, started, { sent: started, result: Either.right(response) })
      }
    })
  })
