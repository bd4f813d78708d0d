/**
 * Settings of the server: how it treats its clients, what it tells them, and what it refuses to hold.
 */
import { ClientConfig, ClientDynamicConfig } from "effect-tinker/wire/ClientConfig"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Limits of one client's share of the server's memory. @internal */
export interface Limits {
  /** Largest body of a request, compressed or not. */
  readonly bodyBytes: number
  /** All bodies that are being read at a time. */
  readonly bufferedBytes: number
  /** All accepted training operations that have not finished. */
  readonly queuedBytes: number
  /** Samples of one request. */
  readonly samples: number
  /** Tokens all samples of one request may draw together. */
  readonly sampledTokens: number
  /** Numbers in one tensor, or in one response. */
  readonly numbers: number
  /** Bytes of the names and values a client attaches to a session, run or checkpoint. */
  readonly metadataBytes: number
}

/** @internal */
export const limits: Limits = {
  // A chunk of a pass is at most 5 MB as clients cut them; one long example may be a little more.
  bodyBytes: 16 * 1024 * 1024,
  bufferedBytes: 64 * 1024 * 1024,
  queuedBytes: 64 * 1024 * 1024,
  samples: 1024,
  sampledTokens: 1024 * 1024,
  numbers: 4 * 1024 * 1024,
  metadataBytes: 64 * 1024
}

/** @internal */
export interface SettingsShape {
  /** How long a poll is held before the client is asked to try again. */
  readonly hold: Duration.Duration
  /** How long a session lives without a heartbeat. */
  readonly sessionTimeout: Duration.Duration
  /** How long a result can be fetched. */
  readonly retention: Duration.Duration
  /** Results larger than this are announced by their size first. */
  readonly inlineResultBytes: number
  /** Sample requests computed at a time. */
  readonly sampleConcurrency: number
  /** Sample requests that may wait before more are refused. */
  readonly maxQueuedSamples: number
  readonly limits: Limits
}

/** @internal */
export class Settings extends Context.Tag("@effect-tinker/local/Settings")<Settings, SettingsShape>() {}

/** @internal */
export const defaults: SettingsShape = {
  hold: Duration.seconds(30),
  sessionTimeout: Duration.minutes(5),
  retention: Duration.hours(1),
  inlineResultBytes: 1024 * 1024,
  sampleConcurrency: 32,
  maxQueuedSamples: 4096,
  limits
}

/** @internal */
export type ConfigFlags = ConstructorParameters<typeof ClientConfig>[0]

/** @internal */
export type DynamicFlags = ConstructorParameters<typeof ClientDynamicConfig>[0]

/** Settings the server announces to clients; they can change while the server runs. @internal */
export interface ServerInfoShape {
  readonly config: () => ClientConfig
  readonly dynamic: () => ClientDynamicConfig
  readonly setConfig: (flags: ConfigFlags) => Effect.Effect<void>
  readonly setDynamic: (flags: DynamicFlags) => Effect.Effect<void>
}

/** @internal */
export class ServerInfo extends Context.Tag("@effect-tinker/local/ServerInfo")<ServerInfo, ServerInfoShape>() {}

/** @internal */
export const layerServerInfo = (config: ConfigFlags, dynamic: DynamicFlags): Layer.Layer<ServerInfo> =>
  Layer.sync(ServerInfo, () => {
    let current = new ClientConfig(config)
    let currentDynamic = new ClientDynamicConfig(dynamic)
    return ServerInfo.of({
      config: () => current,
      dynamic: () => currentDynamic,
      setConfig: (flags) => Effect.sync(() => void (current = new ClientConfig(flags))),
      setDynamic: (flags) => Effect.sync(() => void (currentDynamic = new ClientDynamicConfig(flags)))
    })
  })
