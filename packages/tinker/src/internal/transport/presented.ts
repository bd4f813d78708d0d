/**
 * Which credential a call presents.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Credentials from "../../Credentials.js"
import type * as TinkerError from "../../TinkerError.js"
import type { Call } from "./call.js"
import type * as Tenants from "./tenants.js"

const isSettled = <A, E>(self: Effect.Effect<A, E>): self is Exit.Exit<A, E> => Exit.isExit(self)

/** @internal */
export interface Presented {
  /** The credential, found out or exchanged if need be; `undefined` if there is none to send. */
  readonly find: (call: Call) => Effect.Effect<string | undefined, TinkerError.TinkerError>
  /** The credential if it is at hand, empty if there is none to send; `undefined` if it must be waited for. */
  readonly atHand: (call: Call, now: number) => string | undefined
}

/** @internal */
export const make = (credentials: Credentials.Service, tenant: Tenants.Tenant): Presented => {
  /** A credential that needs no finding out is read once. */
  const fixedKey = isSettled(credentials.current) && Exit.isSuccess(credentials.current)
    ? Option.match(credentials.current.value, { onNone: () => "", onSome: Redacted.value })
    : undefined

  const atHand = (call: Call, now: number): string | undefined => {
    if (call.options?.credential !== undefined) return Redacted.value(call.options.credential)
    switch (call.endpoint.endpoint.auth) {
      case "none":
        return ""
      case "bearer":
        return fixedKey
      case "key": {
        if (tenant.tokens === undefined) return fixedKey
        const token = tenant.tokens.held(now)
        return token === undefined ? undefined : Redacted.value(token)
      }
    }
  }

  const held = Effect.map(credentials.current, (held) => Option.isSome(held) ? Redacted.value(held.value) : undefined)

  const find = (call: Call): Effect.Effect<string | undefined, TinkerError.TinkerError> => {
    if (call.options?.credential !== undefined) return Effect.succeed(Redacted.value(call.options.credential))
    switch (call.endpoint.endpoint.auth) {
      case "none":
        return Effect.succeed(undefined)
      case "bearer":
        return held
      case "key":
        return tenant.tokens === undefined
          ? held
          : Effect.map(tenant.tokens.token, Redacted.value)
    }
  }

  return { find, atHand }
}
