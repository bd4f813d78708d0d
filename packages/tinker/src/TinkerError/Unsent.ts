/**
 * Nothing was sent: input, budget, credentials or a client that cannot be used.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { common, id, render, TypeId } from "../internal/wire/tinkerError.js"

/**
 * The caller's input was refused here, before anything was sent.
 *
 * @since 0.1.0
 * @category errors
 */
export class InvalidInput extends Schema.TaggedError<InvalidInput>(id("InvalidInput"))("InvalidInput", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "invalid input", "")
  }
}

/**
 * The operation could cost more than the caller's budget has left. Nothing was sent.
 *
 * @since 0.1.0
 * @category errors
 */
export class BudgetExceeded extends Schema.TaggedError<BudgetExceeded>(id("BudgetExceeded"))("BudgetExceeded", {
  ...common,
  budget: Schema.Number,
  /** Paid so far. */
  spent: Schema.Number,
  /** Set aside for operations under way. */
  reserved: Schema.Number,
  /** The most this operation could have cost. */
  cost: Schema.Number
}) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    const { budget, cost, reserved, spent } = this
    return render(
      this,
      `may cost ${cost}, and of ${budget} are spent ${spent} and reserved ${reserved}`,
      "Raise the budget, or ask for less."
    )
  }
}

/**
 * The client, or the scope it lived in, is closed.
 *
 * @since 0.1.0
 * @category errors
 */
export class Closed extends Schema.TaggedError<Closed>(id("Closed"))("Closed", common) {
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the client is closed", "")
  }
}

/**
 * There is no credential at all.
 *
 * @since 0.1.0
 * @category errors
 */
export class MissingCredential
  extends Schema.TaggedError<MissingCredential>(id("MissingCredential"))("MissingCredential", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "no credential", "Pass apiKey, set TINKER_API_KEY, or run `tinker auth login`.")
  }
}

/**
 * There is a credential, or a credentials file, but it cannot be one of ours.
 *
 * @since 0.1.0
 * @category errors
 */
export class MalformedCredential
  extends Schema.TaggedError<MalformedCredential>(id("MalformedCredential"))("MalformedCredential", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "malformed credential", "An API key starts with `tml-`, a token with `eyJ`.")
  }
}

/**
 * The credential command could not be run, failed, or printed nothing.
 *
 * @since 0.1.0
 * @category errors
 */
export class CredentialCommandFailed
  extends Schema.TaggedError<CredentialCommandFailed>(id("CredentialCommandFailed"))("CredentialCommandFailed", common)
{
  /** @since 0.1.0 */
  readonly [TypeId]: TypeId = TypeId
  override get message(): string {
    return render(this, "the credential command failed", "Run the command of TINKER_CREDENTIAL_CMD by hand.")
  }
}
