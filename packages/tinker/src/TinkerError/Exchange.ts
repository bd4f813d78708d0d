/**
 * No answer, or none to work with: the exchange itself went wrong, or came at a bad time.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { common, id, render, TypeId } from "../internal/wire/tinkerError.js"

/**
 * Too many requests (429).
 *
 * @since 0.1.0
 * @category errors
 */
export class RateLimited extends Schema.TaggedError<RateLimited>(id("RateLimited"))("RateLimited", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "rate limited", "Lower the concurrency or try again later.")
  }
}

/**
 * The server cannot answer now (408, 5xx).
 *
 * @since 0.1.0
 * @category errors
 */
export class Unavailable extends Schema.TaggedError<Unavailable>(id("Unavailable"))("Unavailable", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the server is unavailable", "")
  }
}

/**
 * No answer within the time allowed.
 *
 * @since 0.1.0
 * @category errors
 */
export class TimedOut extends Schema.TaggedError<TimedOut>(id("TimedOut"))("TimedOut", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "timed out", "")
  }
}

/**
 * The exchange broke below HTTP: host unreachable, connection refused or reset, truncated body.
 *
 * @since 0.1.0
 * @category errors
 */
export class TransportFailed
  extends Schema.TaggedError<TransportFailed>(id("TransportFailed"))("TransportFailed", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the connection failed", "Check the base URL, the network and any proxy.")
  }
}

/**
 * The server answered with success, but not with what the wire promises.
 *
 * @since 0.1.0
 * @category errors
 */
export class MalformedResponse
  extends Schema.TaggedError<MalformedResponse>(id("MalformedResponse"))("MalformedResponse", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the answer is malformed", "Is the base URL that of a Tinker-compatible server?")
  }
}
