/**
 * Sequence numbers of a sampler's requests. Several clients may share a sampler: each counts within a range of its own.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import type { SamplingSessionId } from "../../wire/Id.js"
import { JoinSamplingSessionRequest } from "../../wire/Sampler.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"

/**
 * Where a client's numbers come from: the original counts from 0, a copy from a range reserved for it.
 *
 * @internal
 */
export type Numbering = "original" | "copy"

/** The range of sequence numbers of each client of a sampler. */
const clientRange = 1_000_000_000

/** Keeps `clientRange` times the number within the integers a double holds exactly. */
const mostRandomClients = 9_000_000

/** @internal */
export interface SampleNumbers {
  /** Runs with the number of this client, which a copy asks for with its first sample. */
  readonly withClient: <A, E, R>(
    use: (client: number) => Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | TinkerError.TinkerError, R>
  /** The next sequence number of a client. */
  readonly next: (client: number) => number
}

/** @internal */
export const make = (options: {
  readonly api: ApiClient.Service
  readonly samplingSessionId: SamplingSessionId
  readonly numbering: Numbering
  /** Whether the server gives numbers to copies; they are drawn at random where it does not. */
  readonly canJoin: boolean
}): SampleNumbers => {
  const { api, canJoin, numbering, samplingSessionId } = options
  const line = Admission.makeSemaphore(1)
  let own = numbering === "original" ? 0 : undefined
  let count = 0
  const join = Effect.gen(function*() {
    if (own !== undefined) return own
    return own = canJoin
      ? (yield* api.call(Api.joinSamplingSession, new JoinSamplingSessionRequest({ samplingSessionId }), {
        from: { module: "SamplingClient", method: "join" }
      })).clientCounter
      : yield* Random.nextIntBetween(1, mostRandomClients)
  })
  const joined = line.withPermit(join)
  return {
    withClient: (use) => Effect.suspend(() => own === undefined ? Effect.flatMap(joined, use) : use(own)),
    next: (client) => client * clientRange + count++
  }
}
