/**
 * What the clients of one tenant share, and tenants do not: pools, sockets, tokens, back-off.
 *
 * A tenant is a base URL and a credential, over one `HttpClient`.
 *
 * @since 0.1.0
 */
import type * as HttpClient from "@effect/platform/HttpClient"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import { globalValue } from "effect/GlobalValue"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type * as Credentials from "../Credentials.js"
import type { Pool } from "../Endpoint.js"
import type * as TinkerConfig from "../TinkerConfig.js"
import * as Billing from "./billing.js"
import * as Wire from "./exchange.js"
import * as FifoSemaphore from "./fifoSemaphore.js"
import * as Meters from "./meters.js"
import type * as TokenExchange from "./tokenExchange.js"

/** A proxy that drops requests (400, nothing said) is forgiven this often in a row. */
const emptyAnswers = 16

/** @internal */
export interface PoolState {
  readonly gate: FifoSemaphore.FifoSemaphore
  /** How many more empty 400s to take for a broken connection. */
  forgiveness: number
}

/** @internal */
export interface Tenant {
  readonly wire: Wire.Wire
  readonly pools: Readonly<Record<Pool, PoolState>>
  readonly billing: Billing.Billing
  readonly scope: Scope.Scope
  /** Set once the server has asked for it. */
  tokens: TokenExchange.TokenExchange | undefined
  /** State that a client keeps for the whole tenant, made at first use. */
  readonly shared: <A>(key: SharedKey<A>) => A
}

/** @internal */
export interface SharedKey<A> {
  readonly make: (tenant: Tenant) => A
}

interface Entry {
  readonly baseUrl: string
  readonly identity: Option.Option<Redacted.Redacted>
  readonly scope: Scope.CloseableScope
  readonly tenant: Tenant
  users: number
}

const registry = globalValue(
  "effect-tinker/internal/tenants",
  () => new WeakMap<HttpClient.HttpClient, Array<Entry>>()
)

const lock = FifoSemaphore.make(1)

/** @internal */
export const refill = (pool: PoolState): void => {
  if (pool.forgiveness < emptyAnswers) pool.forgiveness++
}

const makeTenant = Effect.fnUntraced(function*(
  client: HttpClient.HttpClient,
  config: TinkerConfig.Service,
  scope: Scope.CloseableScope
) {
  const wire = yield* Effect.provideService(Wire.make(client, config), Scope.Scope, scope)
  const pool = (name: Pool): PoolState => ({
    gate: FifoSemaphore.make(config.poolLimits[name], Meters.inFlight(name)),
    forgiveness: emptyAnswers
  })
  const slots = new Map<unknown, unknown>()
  const tenant: Tenant = {
    wire,
    scope,
    billing: Billing.make(config.billingPause),
    tokens: undefined,
    pools: {
      session: pool("session"),
      training: pool("training"),
      sampling: pool("sampling"),
      futures: pool("futures"),
      completions: pool("completions"),
      rest: pool("rest"),
      telemetry: pool("telemetry")
    },
    shared: <A>(key: SharedKey<A>): A => {
      if (!slots.has(key)) slots.set(key, key.make(tenant))
      // What is under a key was made by that key.
      return slots.get(key) as A
    }
  }
  return tenant
})

/**
 * The tenant for as long as the scope lasts; its sockets close with its last user.
 *
 * @internal
 */
export const acquire = (
  client: HttpClient.HttpClient,
  config: TinkerConfig.Service,
  credentials: Credentials.Service
): Effect.Effect<Tenant, never, Scope.Scope> =>
  Effect.acquireRelease(
    lock.withPermit(Effect.gen(function*() {
      const entries = registry.get(client) ?? []
      registry.set(client, entries)
      const known = entries.find((entry) =>
        entry.baseUrl === config.baseUrl && Equal.equals(entry.identity, credentials.identity)
      )
      if (known !== undefined) {
        known.users++
        return known
      }
      const scope = yield* Scope.make()
      const tenant = yield* makeTenant(client, config, scope)
      const entry: Entry = { baseUrl: config.baseUrl, identity: credentials.identity, scope, tenant, users: 1 }
      entries.push(entry)
      return entry
    })),
    (entry) =>
      // Out of the registry under the lock, closed outside it: nobody waits for the sockets of another tenant.
      Effect.flatten(lock.withPermit(Effect.sync(() => {
        if (--entry.users > 0) return Effect.void
        const entries = registry.get(client) ?? []
        registry.set(client, entries.filter((other) => other !== entry))
        return Scope.close(entry.scope, Exit.void)
      })))
  ).pipe(Effect.map((entry) => entry.tenant))
