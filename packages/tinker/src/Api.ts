/**
 * Every endpoint of the service, once, as data. Clients call through it and a compatible server routes from it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Endpoint from "./Endpoint.js"

/**
 * Exchanges the credential for a short-lived token.
 *
 * @since 0.1.0
 * @category models
 */
export const authToken: Endpoint.Endpoint<{}, { readonly jwt: string }> = Endpoint.make(
  "authToken",
  "POST",
  "/api/v1/auth/token",
  {
    pool: "session",
    retry: "startup",
    request: Schema.Struct({}),
    response: Endpoint.json(Schema.Struct({ jwt: Schema.String }))
  }
)
