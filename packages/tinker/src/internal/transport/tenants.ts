/**
 * State that the clients of one tenant share, and different tenants do not: request limits, back-off, tokens.
 *
 * A tenant is a base URL and a credential. Its state is created with its first client and dropped with its last.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import type * as Option from "effect/Option"
import * as RcMap from "effect/RcMap"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { Pool } from "../../wire/Endpoint.js"
import * as Observer from "../observability/observer.js"
import * as Admission from "./admission.js"
import type * as Tokens from "./tokens.js"

// -----------------------------------------------------------------------------
// Billing pauses: a 402 holds operations back for a bounded time instead of ending a training run.
// -----------------------------------------------------------------------------

/** Quiet for this long, the next 402 begins a new incident. */
const resetAfter = 300_000

const logEvery = 60_000

interface Verdict {
  readonly pause: boolean
  /** Whether it is time to tell the user (again). */
  readonly announce: boolean
  readonly since: number
  readonly until: number
}

/** @internal */
export interface Billing {
  /** Takes note of a 402 at the given time. */
  readonly blocked: (now: number) => Verdict
  readonly limit: (bound: Duration.Duration) => void
}

/** @internal */
export const makeBilling = (bound: Duration.Duration): Billing => {
  let limit = Duration.toMillis(bound)
  let first: number | undefined
  let last: number | undefined
  let logged: number | undefined
  return {
    limit: (next) => {
      limit = Duration.toMillis(next)
    },
    blocked: (now) => {
      if (first === undefined || last === undefined || now - last > resetAfter) {
        first = now
        logged = undefined
      }
      last = now
      const announce = logged === undefined || now - logged > logEvery
      if (announce) logged = now
      return { pause: now - first <= limit, announce, since: first, until: first + limit }
    }
  }
}

// -----------------------------------------------------------------------------
// Tenants.
// -----------------------------------------------------------------------------

/** A proxy that drops requests (400 with an empty body) is tolerated this often in a row. */
const maxEmptyResponses = 16

interface PoolState {
  readonly limit: Admission.FifoSemaphore
  /** How many more empty 400s are treated as a broken connection. */
  emptyResponsesLeft: number
}

/** @internal */
export interface Tenant {
  readonly pools: Readonly<Record<Pool, PoolState>>
  readonly billing: Billing
  readonly scope: Scope.Scope
  /** Set once the server asks for token exchange. */
  tokens: Tokens.TokenExchange | undefined
  /** State of a client that belongs to the whole tenant, created at first use. */
  readonly shared: <A>(key: SharedKey<A>) => A
}

/** @internal */
export interface SharedKey<A> {
  readonly make: (tenant: Tenant) => A
}

/**
 * Identifies a tenant. The limits are those of the client that comes first; they are not part of the identity.
 *
 * @internal
 */
export class TenantKey implements Equal.Equal {
  constructor(
    readonly baseUrl: string,
    readonly identity: Option.Option<Redacted.Redacted>,
    readonly limits: {
      readonly poolLimits: Readonly<Record<Pool, number>>
      readonly billingPause: Duration.Duration
    }
  ) {}

  [Equal.symbol](that: Equal.Equal): boolean {
    return that instanceof TenantKey && this.baseUrl === that.baseUrl && Equal.equals(this.identity, that.identity)
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.string(this.baseUrl))(Hash.hash(this.identity))
  }
}

/** @internal */
export const TypeId: unique symbol = Symbol.for("effect-tinker/TinkerTransport/Tenants")

/** @internal */
export type TypeId = typeof TypeId

/**
 * Every tenant that has a client.
 *
 * @internal
 */
export class Tenants {
  readonly [TypeId]: TypeId = TypeId

  constructor(private readonly states: RcMap.RcMap<TenantKey, Tenant>) {}

  /** The tenant's state, held until the scope closes. */
  acquire(key: TenantKey): Effect.Effect<Tenant, never, Scope.Scope> {
    return RcMap.get(this.states, key)
  }
}

/** @internal */
export const refill = (pool: PoolState): void => {
  if (pool.emptyResponsesLeft < maxEmptyResponses) pool.emptyResponsesLeft++
}

const makeTenant = ({ limits }: TenantKey): Effect.Effect<Tenant, never, Scope.Scope> =>
  Effect.map(Effect.scope, (scope) => {
    const pool = (name: Pool): PoolState => ({
      limit: Admission.makeSemaphore(limits.poolLimits[name], Observer.inFlight(name)),
      emptyResponsesLeft: maxEmptyResponses
    })
    const slots = new Map<unknown, unknown>()
    const tenant: Tenant = {
      scope,
      billing: makeBilling(limits.billingPause),
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

/** @internal */
export const make: Effect.Effect<Tenants, never, Scope.Scope> = Effect.map(
  RcMap.make({ lookup: makeTenant }),
  (states) => new Tenants(states)
)
