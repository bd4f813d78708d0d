/**
 * What the server tells clients about how to talk to it. Can be changed while it runs.
 */
import { ClientConfig, ClientDynamicConfig } from "effect-tinker/wire/ClientConfig"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** @internal */
export type ConfigFlags = ConstructorParameters<typeof ClientConfig>[0]

/** @internal */
export type DynamicFlags = ConstructorParameters<typeof ClientDynamicConfig>[0]

/** @internal */
export interface ServerInfoShape {
  readonly config: () => ClientConfig
  readonly dynamic: () => ClientDynamicConfig
  readonly setConfig: (flags: ConfigFlags) => Effect.Effect<void>
  readonly setDynamic: (flags: DynamicFlags) => Effect.Effect<void>
}

/** @internal */
export class ServerInfo extends Context.Tag("@effect-tinker/local/ServerInfo")<ServerInfo, ServerInfoShape>() {}

/** @internal */
export const layer = (config: ConfigFlags, dynamic: DynamicFlags): Layer.Layer<ServerInfo> =>
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
