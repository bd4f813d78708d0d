/**
 * For Node, Bun and Deno: the embedded backend with `local/chat` and the models on this machine, trainers that read and
 * write files, downloads, and the credentials that `tinker login` stored.
 *
 * @since 0.1.0
 */
import { connectLocal as connectInner } from "@effect-tinker/local/NodePromise"
import * as NodeTokenizers from "@effect-tinker/tokenizer/NodeTokenizers"
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as NodeTinker from "effect-tinker/NodeTinker"
import * as Inner from "effect-tinker/Promise"
import * as Layer from "effect/Layer"
import type { CallOptions, ConnectOptions, Tinker } from "./Clients.js"
import { complete, filesOf } from "./internal/connection.js"

/**
 * Settings of the embedded backend.
 *
 * @since 0.1.0
 * @category configuration
 */
export interface LocalOptions extends CallOptions {
  /** Where to keep checkpoints. Defaults to memory. */
  readonly directory?: string | undefined
  /**
   * Models beside the package's own: names on the Hugging Face hub, directories, GGUF files, or `ollama:NAME`. Defaults to
   * none.
   */
  readonly models?: ReadonlyArray<string> | undefined
}

/**
 * Connects to a new backend, which trains and samples on this machine.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connectLocal = async (
  { directory, models, signal }: LocalOptions = {}
): Promise<Tinker<"files" | "tokenizers">> => complete(await connectInner({ backend: { directory, models }, signal }))

/**
 * Connects to a server, over a pool of connections, with the tokenizers of the Hugging Face hub.
 *
 * @since 0.1.0
 * @category constructors
 */
export const connect = async (options: ConnectOptions = {}): Promise<Tinker<"files" | "tokenizers">> =>
  complete(
    await Inner.Tinker.connect({
      ...options,
      layer: Layer.mergeAll(NodeTinker.layerFromEnv(), NodeTokenizers.layer(), NodeContext.layer, FetchHttpClient.layer)
    })
  )

/**
 * Result of a download.
 *
 * @since 0.1.0
 * @category models
 */
export interface Download {
  readonly directory: string
  readonly files: number
  readonly bytes: number
}

/**
 * Downloads a checkpoint to a directory: resumed where an earlier download ended, and there only when it is complete.
 *
 * @since 0.1.0
 * @category combinators
 */
export const downloadCheckpoint = async (
  tinker: Tinker<"files" | "tokenizers">,
  options: CallOptions & {
    readonly tinkerPath: string
    /** It must not exist unless `overwrite` is set. */
    readonly directory: string
    readonly overwrite?: boolean | undefined
  }
): Promise<Download> => {
  const { bytes, directory, files } = await Inner.downloadCheckpoint(filesOf(tinker), options)
  return { directory, files, bytes }
}
