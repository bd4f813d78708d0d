/**
 * The embedded backend for plain async code: the connection of `effect-tinker/Promise`, answered in this process.
 *
 * @since 0.1.0
 */
import { type ConnectOptions, Tinker } from "effect-tinker/Promise"
import * as TinkerLocal from "./TinkerLocal.js"

/**
 * Connects to a backend of its own, which trains and samples on this machine and keeps its checkpoints in memory.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connectLocal = (
  options: Omit<ConnectOptions, "layer"> & {
    /** How the backend behaves. */
    readonly backend?: TinkerLocal.Options | undefined
  } = {}
): Promise<Tinker> => {
  const { backend, ...rest } = options
  return Tinker.connect({
    baseUrl: TinkerLocal.baseUrl,
    apiKey: TinkerLocal.apiKey,
    ...rest,
    layer: TinkerLocal.layer(backend)
  })
}
