/**
 * A server answered, and will not do it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { common, id, render, TypeId } from "../internal/wire/tinkerError.js"

/**
 * The server rejected the credential (401).
 *
 * @since 0.1.0
 * @category errors
 */
export class Authentication extends Schema.TaggedError<Authentication>(id("Authentication"))("Authentication", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the server rejected the credential", "Check TINKER_API_KEY, or log in again.")
  }
}

/**
 * The credential is known but may not do this (403).
 *
 * @since 0.1.0
 * @category errors
 */
export class PermissionDenied
  extends Schema.TaggedError<PermissionDenied>(id("PermissionDenied"))("PermissionDenied", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "permission denied", "Ask the owner of the resource or your organization's admin for access.")
  }
}

/**
 * The resource, or the endpoint, does not exist (404, or 410 outside futures).
 *
 * @since 0.1.0
 * @category errors
 */
export class NotFound extends Schema.TaggedError<NotFound>(id("NotFound"))("NotFound", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "not found", "")
  }
}

/**
 * The request contradicts the state of the resource (409): already public, name taken, same `seq_id` with another body.
 *
 * @since 0.1.0
 * @category errors
 */
export class Conflict extends Schema.TaggedError<Conflict>(id("Conflict"))("Conflict", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "conflicts with the current state", "")
  }
}

/**
 * The server refused the request as wrong (400, 422 and other 4xx).
 *
 * @since 0.1.0
 * @category errors
 */
export class BadRequest extends Schema.TaggedError<BadRequest>(id("BadRequest"))("BadRequest", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the server refused the request", "")
  }
}

/**
 * The account cannot pay (402), and stayed so for the whole billing pause.
 *
 * @since 0.1.0
 * @category errors
 */
export class BillingBlocked extends Schema.TaggedError<BillingBlocked>(id("BillingBlocked"))("BillingBlocked", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "blocked by billing", "Add credit or a payment method in the console, then run again.")
  }
}
