/**
 * A client of a server for one tenant: its calls, its retries and its observation, and what is known about both.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Credentials from "../../Credentials.js"
import * as RetryPolicy from "../../RetryPolicy.js"
import * as TinkerConfig from "../../TinkerConfig.js"
import type * as TinkerError from "../../TinkerError.js"
import * as TinkerTransport from "../../TinkerTransport.js"
import { logging } from "../observability/logs.js"
import * as Observation from "../observability/observation.js"
import * as Observer from "../observability/observer.js"
import * as Tracing from "../observability/tracing.js"
import type * as ApiRequest from "./apiRequest.js"
import * as Calls from "./calls.js"
import * as Retry from "./retry.js"
import * as ServerFacts from "./serverFacts.js"
import * as Tenants from "./tenants.js"
import * as Tokens from "./tokens.js"

/** @internal */
export type CallOptions = ApiRequest.CallOptions

/** @internal */
export type Outcome<A> = Calls.Outcome<A>

/** @internal */
export type Prepared<A> = Calls.Prepared<A>

interface Flags {
  /** Bound of the billing pause. */
  readonly billingPause?: Duration.DurationInput | undefined
  /** Compress the bodies of endpoints that may be large, where the runtime can. */
  readonly compress?: boolean | undefined
  /** Exchange the credential for short-lived tokens from now on. `enforced`: that of the credential command. */
  readonly tokenExchange?: "default" | "enforced" | undefined
}

/** @internal */
export interface Service extends Calls.Calls, Retry.Retry, Observation.Observation {
  readonly config: TinkerConfig.Service
  readonly credentials: Credentials.Service
  readonly tenant: Tenants.Tenant
  /** Facts known about the server. */
  readonly serverFacts: ServerFacts.ServerFacts
  /** Applies the server's client configuration. */
  readonly configure: (flags: Flags) => Effect.Effect<void>
  /** The token we hold, where tokens are exchanged: it carries the caller's identity. */
  readonly identityToken: Effect.Effect<Option.Option<Redacted.Redacted>, TinkerError.TinkerError>
}

/** @internal */
export class ApiClient extends Context.Tag("effect-tinker/internal/ApiClient")<ApiClient, Service>() {}

type Requirements = TinkerConfig.TinkerConfig | Credentials.Credentials | TinkerTransport.TinkerTransport

const tenantOf = Effect.fnUntraced(function*(config: TinkerConfig.Service, credentials: Credentials.Service) {
  const provided = yield* Effect.serviceOption(TinkerTransport.Tenants)
  const shared = Option.getOrUndefined(provided)
  const tenants = shared instanceof Tenants.Tenants ? shared : yield* Tenants.make
  return yield* tenants.acquire(new Tenants.TenantKey(config.baseUrl, credentials.identity, config))
})

/** @internal */
export const make: Effect.Effect<Service, never, Requirements | Scope.Scope> = Effect.gen(function*() {
  const config = yield* TinkerConfig.TinkerConfig
  const credentials = yield* Credentials.Credentials
  const given = yield* TinkerTransport.TinkerTransport
  const transport = Option.match(config.log, { onNone: () => given, onSome: (level) => logging(given, level) })
  const policies = yield* RetryPolicy.RetryPolicy
  const observers = Observer.make((yield* Observer.Observer).listener)
  observers.add(Observer.listener, { traffic: false })
  const tracing = yield* Tracing.make(config)
  const tenant = yield* tenantOf(config, credentials)
  const serverFacts = ServerFacts.make(config.compatibility, tenant)
  const retry = Retry.make({ billing: tenant.billing, observers, policies })
  const fixedSecrets = Object.values(config.headers).map(Redacted.value)
  const { exchangeToken, setCompression, ...calls } = yield* Calls.make({
    config,
    credentials,
    fixedSecrets,
    observers,
    retry,
    tenant,
    tracing,
    serverFacts,
    transport
  })

  const configure: Service["configure"] = (flags) =>
    Effect.sync(() => {
      if (flags.billingPause !== undefined) tenant.billing.limit(Duration.decode(flags.billingPause))
      if (flags.compress !== undefined) setCompression(flags.compress)
      if (flags.tokenExchange !== undefined && tenant.tokens === undefined) {
        tenant.tokens = Tokens.make(
          exchangeToken(flags.tokenExchange === "enforced" ? credentials.enforced : credentials.current),
          tenant.scope
        )
      }
    })

  return ApiClient.of({
    ...calls,
    ...retry,
    ...Observation.make({ credentials, fixedSecrets, observers, tracing }),
    config,
    credentials,
    tenant,
    serverFacts,
    configure,
    identityToken: Effect.suspend(() =>
      tenant.tokens === undefined ? Effect.succeedNone : Effect.asSome(tenant.tokens.token)
    )
  })
})

/** @internal */
export const layer: Layer.Layer<ApiClient, never, Requirements> = Layer.scoped(ApiClient, make)

/**
 * A client with its own configuration and credential. Layer memoisation does not apply: two configurations in one
 * program get two clients.
 *
 * @internal
 */
export const connect = <E, R>(
  config: Effect.Effect<TinkerConfig.Service, E, R>
): Effect.Effect<
  { readonly api: Service; readonly config: TinkerConfig.Service; readonly credentials: Credentials.Service },
  E | TinkerError.MissingCredential | TinkerError.MalformedCredential,
  R | TinkerTransport.TinkerTransport | Scope.Scope
> =>
  Effect.flatMap(config, (config) =>
    Effect.gen(function*() {
      const credentials = yield* Credentials.make
      const api = yield* Effect.provideService(make, Credentials.Credentials, credentials)
      return { api, config, credentials }
    }).pipe(Effect.provideService(TinkerConfig.TinkerConfig, config)))
