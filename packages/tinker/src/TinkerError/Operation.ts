/**
 * The server accepted an operation, and there is no result.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { common, id, render, TypeId } from "../internal/wire/tinkerError.js"

/**
 * Who is to blame for a failed operation, in the server's words.
 *
 * @since 0.1.0
 * @category schemas
 */
export const Category: Schema.Literal<["unknown", "server", "user"]> = Schema.Literal("unknown", "server", "user")

/**
 * Whose fault a failed operation is, in the server's eyes.
 *
 * @since 0.1.0
 * @category models
 */
export type Category = typeof Category.Type

/**
 * The server accepted the operation, ran it, and it failed there.
 *
 * @since 0.1.0
 * @category errors
 */
export class RequestFailed extends Schema.TaggedError<RequestFailed>(id("RequestFailed"))("RequestFailed", {
  ...common,
  category: Category
}) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, `the operation failed on the server [${this.category}]`, "")
  }
}

/**
 * The server no longer knows the result of this operation (410): it has to be submitted again.
 *
 * @since 0.1.0
 * @category errors
 */
export class FutureExpired extends Schema.TaggedError<FutureExpired>(id("FutureExpired"))("FutureExpired", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the result has expired on the server", "Submit the operation again.")
  }
}

/**
 * Nothing has moved for longer than the progress timeout.
 *
 * @since 0.1.0
 * @category errors
 */
export class Stuck extends Schema.TaggedError<Stuck>(id("Stuck"))("Stuck", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "no progress", "")
  }
}

/**
 * An earlier operation of the model failed, and nothing had observed that: neither its future nor one derived from it was
 * awaited or ignored. `cause` is the failure itself.
 *
 * @since 0.1.0
 * @category errors
 */
export class UnobservedFailure
  extends Schema.TaggedError<UnobservedFailure>(id("UnobservedFailure"))("UnobservedFailure", {
    ...common,
    modelId: Schema.String,
    /** The operation that failed, e.g. `optimStep`. */
    operation: Schema.String,
    /** Its sequence number, if it had one. */
    seqId: Schema.optional(Schema.Number),
    /** How many other operations failed unobserved. */
    others: Schema.Number
  })
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    const { modelId, operation, others, seqId } = this
    const more = others === 0 ? "" : `, and so did ${others} other${others === 1 ? "" : "s"}`
    return render(
      this,
      `${operation}${seqId === undefined ? "" : ` (operation ${seqId})`} of model ${modelId} failed and nothing ` +
        `awaited it${more}`,
      "Await each operation with TinkerFuture.await, or opt out with TinkerFuture.ignore."
    )
  }
}
