/**
 * A sample in progress, with everything that is given back or cancelled when it ends: the sampler's permit, the place at
 * the dispatcher and the request in flight.
 *
 * @since 0.2.0
 */
import type * as Clock from "effect/Clock"
import type { RequestId } from "../../wire/Id.js"
import type { FifoSemaphore } from "../transport/admission.js"
import { Cancellation } from "../transport/cancellation.js"
import type { Place } from "./dispatcher.js"

/** @internal */
export class SampleAttempt {
  readonly cancellation = new Cancellation()
  /** Number of submissions so far. */
  submissions = 0
  started = 0
  private place: Place | undefined
  private accepted: RequestId | undefined

  constructor(
    readonly clock: Clock.Clock,
    readonly from: { readonly module: string; readonly method: string },
    /** Of the sampler; none are needed where the poll is shared. */
    private readonly permits: FifoSemaphore | undefined
  ) {}

  get now(): number {
    return this.clock.unsafeCurrentTimeMillis()
  }

  /** Id of the request the server has accepted and not answered. */
  get unanswered(): RequestId | undefined {
    return this.accepted
  }

  /** It is submitted from this place, or waits in line where there is none. */
  submit(place: Place | undefined): void {
    this.submissions++
    this.place?.leave()
    this.place = place
  }

  /** The server has accepted it: waiting for the result takes no place. */
  accept(requestId: RequestId): void {
    this.place?.leave()
    this.accepted = requestId
  }

  /** There is nothing left to cancel on the server: the result is here, or is lost. */
  forget(): void {
    this.accepted = undefined
  }

  /** Gives back and cancels what it still has. Called once. */
  end(): void {
    this.permits?.leave(1)
    this.place?.leave()
    this.cancellation.cancel()
  }
}
