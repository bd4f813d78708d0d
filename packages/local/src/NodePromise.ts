/**
 * The embedded backend for plain async code on Node: with `local/chat` and the other models on this machine, and with the
 * files that trainers and downloads use.
 *
 * @since 0.1.0
 */
import * as NodeContext from "@effect/platform-node/NodeContext"
import { type ConnectOptions, Tinker } from "effect-tinker/Promise"
import * as Layer from "effect/Layer"
import * as NodeTinkerLocal from "./NodeTinkerLocal.js"
import * as TinkerLocal from "./TinkerLocal.js"

/**
 * How to connect.
 *
 * @since 0.1.0
 * @category models
 */
export interface Options extends Omit<ConnectOptions, "layer"> {
  /** How the backend behaves, and where it keeps its checkpoints. Defaults to memory. */
  readonly backend?: Parameters<typeof NodeTinkerLocal.layerInProcess>[0]
}

/**
 * Connects to a new backend, which trains and samples on this machine.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connectLocal = (
  { backend, ...options }: Options = {}
): Promise<Tinker<TinkerLocal.Provided | NodeContext.NodeContext>> =>
  Tinker.connect<TinkerLocal.Provided | NodeContext.NodeContext>({
    baseUrl: TinkerLocal.baseUrl,
    apiKey: TinkerLocal.apiKey,
    ...options,
    layer: Layer.merge(NodeTinkerLocal.layerInProcess(backend), NodeContext.layer)
  })
