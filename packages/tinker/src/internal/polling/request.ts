/**
 * One poll: what is asked, and how.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as Api from "../../Api.js"
import type * as QueueState from "../../QueueState.js"
import type * as TinkerError from "../../TinkerError.js"
import type * as TinkerTransport from "../../TinkerTransport.js"
import type * as ApiClient from "../transport/apiClient.js"
import type * as ByteBudget from "../transport/byteBudget.js"
import type { RequestSlot } from "../transport/call.js"
import type { Decoder } from "./decoder.js"

/** @internal */
export interface Options<A> {
  readonly api: ApiClient.Service
  /** Bytes of large results being fetched at once. */
  readonly inflight: ByteBudget.ByteBudget
  readonly requestId: string
  /** The name the server knows the operation by, e.g. `OptimStep`. */
  readonly requestType: string
  readonly from: { readonly module: string; readonly method: string }
  readonly decoder: Decoder<A>
  /** Seconds from the start of the operation to its acceptance. */
  readonly roundtrip: number
  /** Number of the first poll. Defaults to 0. */
  readonly iteration?: number | undefined
  /** Size of a result known to be ready: fetched without asking for its size first. */
  readonly ready?: number | undefined
  readonly onIteration?: ((iteration: number) => void) | undefined
  /** Asked before every poll: the reason to stop waiting, if there is one. */
  readonly giveUp?: ((now: number) => TinkerError.TinkerError | undefined) | undefined
  readonly onEvent: (event: QueueState.Event) => Effect.Effect<void>
  /** See `CallOptions`. */
  readonly slot?: RequestSlot | undefined
}

type Headers = Readonly<Record<string, string>>

const headersOf = (type: string, accept: string, iteration: number, roundtrip: number): Headers => ({
  accept,
  "x-stainless-raw-response": "raw",
  "x-tinker-request-iteration": String(iteration),
  "x-tinker-request-type": type,
  ...(iteration === 0 ? { "x-tinker-create-promise-roundtrip-time": String(roundtrip) } : {})
})

/** Thousands of samples a second all ask first with the same headers. */
const first = new Map<string, Headers>()

const firstOf = (type: string, accept: string): Headers => {
  const key = `${type} ${accept}`
  let found = first.get(key)
  if (found === undefined) first.set(key, found = headersOf(type, accept, 0, 0))
  return found
}

/** @internal */
export const ask = <A>(
  { api, decoder, from, onIteration, requestId, requestType, roundtrip, slot }: Options<A>,
  iteration: number,
  allowMetadataOnly: boolean
): Effect.Effect<TinkerTransport.Response, TinkerError.TinkerError> => {
  onIteration?.(iteration + 1)
  const accept = decoder.protobuf === undefined ? "application/json" : "application/x-protobuf, application/json"
  return api.attempt(Api.retrieveFuture, { requestId, allowMetadataOnly }, {
    from,
    slot,
    requestId,
    headers: iteration === 0 && roundtrip === 0
      ? firstOf(requestType, accept)
      : headersOf(requestType, accept, iteration, roundtrip)
  })
}
