/**
 * Who the credential belongs to.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { lenient, optional, required, withDefault } from "../internal/wire/json.js"

const id = <const Name extends string>(name: Name) => `effect-tinker/Account/${name}` as const

/**
 * A short-lived token in exchange for a credential.
 *
 * @since 0.1.0
 * @category schemas
 */
export class AuthTokenResponse extends Schema.Class<AuthTokenResponse>(id("AuthTokenResponse"))({
  jwt: Schema.Redacted(Schema.String)
}, lenient) {}

/**
 * The calling principal, as its token names it.
 *
 * @since 0.1.0
 * @category schemas
 */
export class WhoamiResponse extends Schema.Class<WhoamiResponse>(id("WhoamiResponse"))({
  userUrn: required(Schema.String, "user_urn"),
  /** The organization the credential acts in. */
  orgUrn: optional(Schema.String, "org_urn"),
  /** Absent when no user stands behind the credential. */
  email: optional(Schema.String, "email")
}, lenient) {}

/**
 * Whom an API key belongs to.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ApiKeyDetails extends Schema.Class<ApiKeyDetails>(id("ApiKeyDetails"))({
  orgDetails: required(Schema.Struct({ name: Schema.String }), "org_details"),
  userDetails: required(Schema.Struct({ email: Schema.String }), "user_details")
}, lenient) {}

/**
 * The API key a request was made with.
 *
 * @since 0.1.0
 * @category schemas
 */
export class ApiKeyResponse extends Schema.Class<ApiKeyResponse>(id("ApiKeyResponse"))({
  keyId: required(Schema.Int, "key_id"),
  name: Schema.String,
  /** Defaults to the empty text. */
  note: withDefault(Schema.String, "note", () => ""),
  details: ApiKeyDetails
}, lenient) {}
