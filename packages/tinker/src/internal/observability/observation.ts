/**
 * Observation of a client: events for listeners, spans, and messages of the server without secrets.
 *
 * @since 0.2.0
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type * as Credentials from "../../Credentials.js"
import { said } from "./logs.js"
import type * as Observer from "./observer.js"
import type * as Tracing from "./tracing.js"

/** @internal */
export interface Observation {
  readonly tracing: Tracing.Tracing
  readonly emit: Observer.Listener
  /** Listens until the scope closes. */
  readonly observe: (
    listener: Observer.Listener,
    interest?: Observer.Interest
  ) => Effect.Effect<void, never, Scope.Scope>
  /** A message of the server as it may be shown or logged: one line, without our secrets. */
  readonly said: (text: string) => Effect.Effect<string>
}

/** @internal */
export const make = ({ credentials, fixedSecrets, observers, tracing }: {
  readonly credentials: Credentials.Service
  /** Secrets of every request besides the credential. */
  readonly fixedSecrets: ReadonlyArray<string>
  readonly observers: Observer.Observers
  readonly tracing: Tracing.Tracing
}): Observation => ({
  tracing,
  emit: observers.emit,
  observe: (listener, interest) =>
    Effect.acquireRelease(Effect.sync(() => observers.add(listener, interest)), (remove) => Effect.sync(remove)),
  said: (text) =>
    Effect.map(Effect.option(credentials.current), (held) =>
      said(text, [
        ...fixedSecrets,
        ...Option.match(Option.flatten(held), { onNone: () => [], onSome: (key) => [Redacted.value(key)] })
      ]))
})
