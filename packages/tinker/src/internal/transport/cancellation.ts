/**
 * Cancels requests in flight for a caller that cleans up once for all its requests, as an `AbortController` does: one
 * uninterruptible region then covers them all, instead of one for each.
 *
 * @since 0.2.0
 */
import type { InFlight } from "../../TinkerTransport.js"

/**
 * Belongs to a caller with one request in flight at a time.
 *
 * @internal
 */
export class Cancellation {
  private inFlight: InFlight | undefined

  /** A request is in flight from now on. */
  begin(request: InFlight): void {
    this.inFlight = request
  }

  /** It has ended. */
  end(): void {
    this.inFlight = undefined
  }

  /** Cancels the request in flight, if there is one. */
  cancel(): void {
    this.inFlight?.cancel()
    this.inFlight = undefined
  }
}
