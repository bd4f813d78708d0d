/**
 * A server's description of itself before anything is trained: its client configuration, applied once per tenant, and the
 * models it offers.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { wireVersion } from "../../TinkerConfig.js"
import * as TinkerError from "../../TinkerError.js"
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

interface Shared extends Budgets {
  readonly once: Admission.FifoSemaphore
  config: ClientConfig | undefined
  /** Names of the models on offer. */
  offered: ReadonlyArray<string> | undefined
}

const key: Tenants.SharedKey<Shared> = {
  make: () => ({
    inflight: Admission.makeByteBudget(defaults.inflightResponseBytesSemaphoreSize),
    dispatch: Admission.makeByteBudget(defaults.fwdbwdDispatchBytesSemaphoreSize),
    once: Admission.makeSemaphore(1),
    config: undefined,
    offered: undefined
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
    const config = yield* Effect.catchTags(api.call(Api.clientConfig, request, options), {
      NotFound: () => Effect.succeed(defaults),
      Unsupported: () => Effect.succeed(defaults)
    })
    api.serverFacts.foundFlags(config)
    yield* shared.inflight.resize(config.inflightResponseBytesSemaphoreSize)
    yield* shared.dispatch.resize(config.fwdbwdDispatchBytesSemaphoreSize)
    return shared.config = config
  })
  // Every transport of the tenant must know, whichever client asked.
  return Effect.tap(
    Effect.suspend(() => shared.config === undefined ? shared.once.withPermit(ask) : Effect.succeed(shared.config)),
    (config) =>
      api.configure({
        // The server bounds the pause; a shorter one comes from the configuration.
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

/**
 * Fails for a base model that the server does not offer, where the server itself would not: some take any name and train
 * the one model they have.
 *
 * @internal
 */
export const checkBaseModel: (
  api: ApiClient.Service,
  from: { readonly module: string; readonly method: string },
  baseModel: string
) => Effect.Effect<void, TinkerError.InvalidInput> = Effect.fnUntraced(function*(api, from, baseModel) {
  if (!api.serverFacts.checksBaseModels()) return
  const shared = api.tenant.shared(key)
  const offered = shared.offered ?? (yield* api.call(Api.capabilities, {}, { from }).pipe(
    Effect.map(({ supportedModels }) =>
      shared.offered = supportedModels.flatMap(({ modelName }) => modelName === undefined ? [] : [modelName])
    ),
    // The list is not available: the server decides.
    Effect.orElseSucceed((): ReadonlyArray<string> => [])
  ))
  if (offered.length === 0 || offered.includes(baseModel)) return
  return yield* new TinkerError.InvalidInput({
    ...from,
    description: `the server does not offer ${JSON.stringify(baseModel)}; it offers ${offered.join(", ")}`
  })
})
