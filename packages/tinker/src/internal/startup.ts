/**
 * What a client asks the server before its first request.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Api from "../Api.js"
import { ClientConfig, ClientConfigRequest } from "../ClientConfig.js"
import { wireVersion } from "../TinkerConfig.js"
import type { TinkerError } from "../TinkerError.js"
import type * as Transport from "./transport.js"

/**
 * Fetches the server's flags and tells the transport what they ask of it. A server that has no flags has the defaults.
 *
 * @internal
 */
export const configure = (
  transport: Transport.Service,
  options: Transport.CallOptions
): Effect.Effect<ClientConfig, TinkerError> =>
  transport.call(Api.clientConfig, new ClientConfigRequest({ sdkVersion: wireVersion }), options).pipe(
    Effect.catchTag("NotFound", () => Effect.succeed(new ClientConfig({}))),
    Effect.tap((config) =>
      transport.configure({
        billingPause: Duration.seconds(config.billingExceptionMaxPauseDurationSec),
        tokenExchange: config.pjwtAuthEnabled
          ? config.credentialDefaultSource === "credential_cmd" ? "enforced" : "default"
          : undefined
      })
    )
  )
