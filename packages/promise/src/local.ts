/**
 * The embedded backend for every runtime: it trains and samples in this process, with kernels in WebAssembly, and keeps its
 * checkpoints in memory.
 *
 * @since 0.1.0
 */
import { connectLocal as connect } from "@effect-tinker/local/Promise"
import type { CallOptions, Tinker } from "./Clients.js"
import { tokenizing } from "./internal/connection.js"

/**
 * Connects to a new backend with the models `local/tiny` and `local/small`.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connectLocal = async (options?: CallOptions): Promise<Tinker<"tokenizers">> =>
  tokenizing(await connect(options))
