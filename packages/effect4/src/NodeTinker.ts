/**
 * Connections on Node, Bun and Deno: the embedded backend, and servers with stored credentials and the hub's tokenizers.
 *
 * @since 0.1.0
 */
import type { ConnectOptions } from "@effect-tinker/promise"
import * as Node from "@effect-tinker/promise/node"
import type * as Layer from "effect/Layer"
import { type Complete, layerComplete, type Tinker, type Tokenizing } from "./Tinker.js"
import type { TinkerError } from "./TinkerError.js"

/**
 * A new backend in this process, which trains and samples on this machine: with `local/chat`, and models of the Hugging
 * Face hub or of files.
 *
 * @since 0.1.0
 * @category layers
 */
export const layerLocal = (
  options?: Omit<Node.LocalOptions, "signal">
): Layer.Layer<Complete | Tinker | Tokenizing, TinkerError> =>
  layerComplete(({ signal }) => Node.connectLocal({ ...options, signal }))

/**
 * A connection to a server. What is not given comes from the environment, and from the credentials that `tinker login`
 * stored.
 *
 * @since 0.1.0
 * @category layers
 */
export const layer = (
  options?: Omit<ConnectOptions, "signal">
): Layer.Layer<Complete | Tinker | Tokenizing, TinkerError> =>
  layerComplete(({ signal }) => Node.connect({ ...options, signal }))
