/**
 * The server's client configuration, fetched and applied once per tenant.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { wireVersion } from "../../TinkerConfig.js"
import type * as TinkerError from "../../TinkerError.js"
import * as Api from "../../wire/Api.js"
import { ClientConfig, ClientConfigRequest } from "../../wire/ClientConfig.js"
import * as Admission from "../transport/admission.js"
import type * as ApiClient from "../transport/apiClient.js"
import type * as Tenants from "../transport/tenants.js"

/** @internal */
export interface Budgets {
  /** Bytes of large results being fetched at once. */
  readonly inflight: Admission.ByteBudget
  /** Bytes of forward/backward requests being sent at once. */
  readonly dispatch: Admission.ByteBudget
}

const defaults = new ClientConfig()

const key: Tenants.SharedKey<
  Budgets & { readonly once: Admission.FifoSemaphore; config: ClientConfig | undefined }
> = {
  make: () => ({
    inflight: Admission.makeByteBudget(defaults.inflightResponseBytesSemaphoreSize),
    dispatch: Admission.makeByteBudget(defaults.fwdbwdDispatchBytesSemaphoreSize),
    once: Admission.makeSemaphore(1),
    config: undefined
  })
}

/** @internal */
export const budgets = (api: ApiClient.Service): Budgets => api.tenant.shared(key)

/**
 * Fetches the server's flags, unless a client of this tenant already has, and puts them into force. A server that has
 * no flags has the defaults.
 *
 * @internal
 */
export const configure = (
  api: ApiClient.Service,
  options: ApiClient.CallOptions
): Effect.Effect<ClientConfig, TinkerError.TinkerError> => {
  const shared = api.tenant.shared(key)
  const request = new ClientConfigRequest({ sdkVersion: wireVersion })
  const ask = Effect.gen(function*() {
    if (shared.config !== undefined) return shared.config
    const config = yield* Effect.catchTag(
      api.call(Api.clientConfig, request, options),
      "NotFound",
      () => Effect.succeed(defaults)
    )
    yield* shared.inflight.resize(config.inflightResponseBytesSemaphoreSize)
    yield* shared.dispatch.resize(config.fwdbwdDispatchBytesSemaphoreSize)
    return shared.config = config
  })
  // Every transport of the tenant must know, whichever client asked.
  return Effect.tap(
    Effect.suspend(() => shared.config === undefined ? shared.once.withPermit(ask) : Effect.succeed(shared.config)),
    (config) =>
      api.configure({
        // The server bounds the pause; who wants a shorter one has said so.
        billingPause: Duration.min(
          api.config.billingPause,
          Duration.seconds(config.billingExceptionMaxPauseDurationSec)
        ),
        compress: config.protoCompressFwdbwd,
        tokenExchange: config.pjwtAuthEnabled
          ? config.credentialDefaultSource === "credential_cmd" ? "enforced" : "default"
          : undefined
      })
  )
}
