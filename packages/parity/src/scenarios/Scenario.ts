/**
 * One thing a user does, done through both SDKs. Its name is that of a function in `python/scenarios`, which does the
 * same with the official one.
 */
import type { Faults, LocalServer } from "@effect-tinker/local"
import type { Effect, Scope } from "effect"
import type { RestClient, ServiceClient, TinkerConfig, TinkerError } from "effect-tinker"

/** Where the two clients find a credential. */
export type Credential =
  /** Given by the program. */
  | "argument"
  | "environment"
  | "command"
  /** In the credentials file. */
  | "stored"
  /** Given by the program, and already a token. */
  | "token"
  /** Given by the program, and no key at all. */
  | "malformed"
  | "none"

export interface Scenario {
  readonly name: string
  /** How the server is set up. */
  readonly server?: LocalServer.Options | undefined
  /** What the server does instead of answering. */
  readonly faults?: ReadonlyArray<Faults.Rule> | undefined
  /** Defaults to `argument`. */
  readonly credential?: Credential | undefined
  /** What else stands in the environment of both. */
  readonly environment?: Readonly<Record<string, string>> | undefined
  /** What the program says beyond address and key. */
  readonly session?: ServiceClient.SessionOptions | undefined
  readonly config?: TinkerConfig.Options | undefined
  /** Requests sent side by side: of several in a row, only which was the last says something. */
  readonly sideBySide?: boolean | undefined
  /** Heartbeats are part of it. */
  readonly heartbeats?: boolean | undefined
  /** Ours; the session is finished when it ends, as with a `with` block. */
  readonly run: Effect.Effect<
    unknown,
    TinkerError.TinkerError,
    ServiceClient.ServiceClient | RestClient.RestClient | Scope.Scope
  >
}

/** How a scenario ended: well, with a status, or otherwise. */
export type Outcome = "done" | "failed" | `status ${number}`
